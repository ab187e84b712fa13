"""DivergenceGuard, its bundles, and ``python -m rlpyt.reproduce``."""

import csv
import errno
import json
import os
import runpy
import sys
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlpyt.processes.supervisor import WorkerError
from rlpyt.reproduce import main as reproduce
from rlpyt.runners import divergence
from rlpyt.runners.divergence import (
    DivergenceError,
    DivergenceGuard,
    scale_learning_rates,
    write_bundle,
)
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.logging.context import logger_context
from tests.forked import fork
from tests.runners import divergence_script
from tests.runners.parts import CountingAlgo, make_runner

SCRIPT = divergence_script.__file__
Batch = namedtuple("Batch", ["env"])
EnvBatch = namedtuple("EnvBatch", ["observation", "reward"])


def bundles_in(directory):
    return sorted(Path(directory).glob("run_0/divergence_*"))


def steps_logged(directory):
    with open(Path(directory) / "run_0" / "progress.csv", newline="") as file:
        return [int(row["Diagnostics/CumSteps"]) for row in csv.DictReader(file)]


def test_a_bundle_reproduces_the_failure(tmp_path, monkeypatch, capsys):
    # The program sets these, as in a process for it alone.
    monkeypatch.setattr(sys, "argv", [SCRIPT, str(tmp_path), "loss"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(os.getcwd())

    output = tmp_path / "output"
    failed = fork(runpy.run_path, SCRIPT, run_name="__main__", output=output)
    failed.join()
    assert failed.exitcode == 1
    (bundle,) = bundles_in(tmp_path)
    content = json.loads((bundle / "bundle.json").read_text())
    assert "loss of FaultyA2C is inf" in content["error"]["message"]
    assert content["batch"] == "all observations and rewards are finite"
    assert content["versions"]["torch"] == metadata.version("torch")
    assert f"python -m rlpyt.reproduce {bundle}" in output.read_text()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert reproduce([str(bundle)]) == 0
    output = capsys.readouterr().out
    assert "Reproduced: the same error." in output
    assert "Resuming after iteration" in output  # Not from the start.
    # The log of the run itself stays as it was.
    assert all(path.read_bytes() == content for path, content in before.items())
    assert len(bundles_in(tmp_path)) == 1

    content["error"]["message"] = "something else"
    (bundle / "bundle.json").write_text(json.dumps(content))
    assert reproduce([str(bundle)]) == 1
    assert "Not reproduced: another error" in capsys.readouterr().out


def test_the_bundle_holds_the_batch(tmp_path):
    with pytest.raises(ValueError, match="not finite"):
        divergence_script.main(tmp_path, "observation", {})
    (bundle,) = bundles_in(tmp_path)
    content = json.loads((bundle / "bundle.json").read_text())
    assert content["batch"] == "observation of environment 0 is not finite at step 4"
    batch = np.load(bundle / "batch.npz")
    assert batch["env.observation"].shape == (5, 2, 4)
    assert not np.isfinite(batch["env.observation"]).all()
    assert np.isfinite(batch["env.reward"]).all()


def test_the_error_is_shown_if_the_bundle_cannot_be_written(tmp_path, monkeypatch):
    def savez(file, **arrays):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(np, "savez", savez)
    with pytest.raises(ValueError, match="not finite"):
        divergence_script.main(tmp_path, "observation", {})
    assert "WARNING: the bundle could not" in (tmp_path / "run_0" / "debug.log").read_text()


def test_a_batch_of_tensors(tmp_path):
    example = (np.zeros(3, dtype=np.float32), np.float32(0))
    env = buffer_from_example(EnvBatch(*example), (5, 2))
    batch = torchify_buffer(Batch(env))
    runner = SimpleNamespace(sampler=SimpleNamespace(samples_np=batch), seed=0)
    guard = DivergenceGuard()
    guard.on_itr(runner, 1, [], None)
    batch.env.observation[4, 1, 2] = torch.nan
    with pytest.raises(DivergenceError, match="observation of environment 1 .* at step 4") as info:
        guard.on_itr(runner, 1, [], None)
    bundle = write_bundle(tmp_path, runner, 1, info.value, None)
    saved = np.load(bundle / "batch.npz")["env.observation"]
    assert np.isnan(saved[4, 1, 2])


def test_a_reward_that_is_not_finite_in_a_worker(tmp_path):
    with pytest.raises(WorkerError, match="NotFiniteError: environment . .* returned reward nan"):
        divergence_script.main(tmp_path, "reward", {})
    assert len(bundles_in(tmp_path)) == 1


def test_going_back_lowers_the_learning_rate_and_completes_the_run(tmp_path):
    runner = divergence_script.main(tmp_path, "loss", {"goes_back": True})
    assert runner.algo.optimizer.param_groups[0]["lr"] == pytest.approx(5e-4)
    assert steps_logged(tmp_path) == [100, 200, 300, 400, 500, 600]
    assert len(bundles_in(tmp_path)) == 1


def test_going_back_ends_after_some_times(tmp_path):
    guard = {"goes_back": True, "learning_rate_factor": 1.0, "max_times": 2}
    with pytest.raises(FloatingPointError, match="loss of FaultyA2C"):
        divergence_script.main(tmp_path, "loss", guard)
    assert len(bundles_in(tmp_path)) == 3


def test_going_back_starts_the_workers_again(tmp_path):
    divergence_script.main(tmp_path, "reward once", {"goes_back": True})
    assert steps_logged(tmp_path) == [100, 200, 300, 400, 500, 600]
    assert len(bundles_in(tmp_path)) == 1


class FailsOnce(DivergenceGuard):
    """Fails in iteration ``itr``, and keeps the returns of the window after each iteration."""

    def __init__(self, itr):
        super().__init__(goes_back=True)
        self.itr, self.windows = itr, {}

    def on_itr(self, runner, itr, traj_infos, opt_info):
        window = [info["Return"] for info in runner._traj_infos]
        self.windows.setdefault(itr, []).append(window)
        if itr == self.itr and len(self.windows[itr]) == 1:
            raise DivergenceError("a test")


def test_going_back_restores_the_window_of_trajectories(tmp_path):
    guard = FailsOnce(itr=5)
    runner = make_runner(n_steps=160, callbacks=[guard])
    with logger_context(tmp_path, 0, "x", override_prefix=True):
        runner.train(checkpoint_interval_steps=40)
    first, second = guard.windows[5]
    assert first == second
    assert len(first) > len(guard.windows[0][0])


def test_going_back_to_the_start_keeps_the_row_of_the_untrained_agent(tmp_path):
    runner = make_runner(MinibatchRlEval, n_steps=80, callbacks=[FailsOnce(itr=1)])
    with logger_context(tmp_path, 0, "x", override_prefix=True, sinks=["jsonl"]):
        runner.train(checkpoint_interval_steps=80)
    assert steps_logged(tmp_path) == [0, 40, 80]
    _, *lines = (tmp_path / "run_0" / "progress.jsonl").read_text().splitlines()
    # The first used to have the iteration that had failed.
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 3]


class Fails(DivergenceGuard):
    """Fails in these iterations, one after the other."""

    def __init__(self, *itrs):
        super().__init__(goes_back=True)
        self.itrs = list(itrs)

    def on_itr(self, runner, itr, traj_infos, opt_info):
        if self.itrs[:1] == [itr]:
            self.itrs.pop(0)
            raise DivergenceError("a test")


def test_a_checkpoint_may_have_lower_learning_rates_already(tmp_path, monkeypatch):
    factors = []
    monkeypatch.setattr(divergence, "scale_learning_rates", lambda _, x: factors.append(x))
    runner = make_runner(n_steps=160, callbacks=[Fails(2, 5, 5)])
    with logger_context(tmp_path, 0, "x", override_prefix=True):
        runner.train(checkpoint_interval_steps=40)
    # The checkpoint of the second and third time was saved after the first one.
    assert factors == [0.5, 0.5, 0.25]


class FallingReturn(DivergenceGuard):
    """Sees the mean returns that it is given, one for each log row."""

    def __init__(self, returns, **kwargs):
        super().__init__(min_trajectories=1, **kwargs)
        self.returns = iter(returns)

    def on_log(self, runner, itr, traj_infos):
        super().on_log(runner, itr, [{"Return": next(self.returns)}])


@pytest.mark.parametrize(
    ("returns", "collapses"),
    [
        ([0, 100, 40, 60], False),
        ([0, 100, 24, 60], True),  # Below 100 - 0.75 * (100 - 0).
        ([-100, -20, -79, -50], False),
        ([-100, -20, -81, -50], True),
        ([5, 5, 5, 5], False),
        ([22, 21, 20, 19], False),  # There was no improvement to lose.
    ],
)
def test_collapse_is_a_fraction_of_the_improvement(returns, collapses):
    guard = FallingReturn(returns, collapse=0.75)
    runner = make_runner(n_steps=160, callbacks=[guard])
    if collapses:
        with pytest.raises(DivergenceError, match="the mean Return collapsed to"):
            runner.train()
    else:
        runner.train()
        assert next(guard.returns, None) is None


@pytest.mark.parametrize(
    ("interval", "returns"),
    [
        (20, [0, 100, 10, 20, 90, 90]),  # From 120 steps to 80, twice.
        (100, [0, 100, 10, 20, 90, 90, 90, 90]),  # To 0; and from 40, as 100 was reached before.
    ],
)
def test_a_collapse_goes_back_to_the_last_good_row_or_before(interval, returns, tmp_path):
    guard = FallingReturn(returns, collapse=0.75, goes_back=True)
    runner = make_runner(n_steps=160, callbacks=[guard])
    with logger_context(tmp_path, 0, "x", override_prefix=True):
        runner.train(checkpoint_interval_steps=interval, keep_checkpoints=None)
    assert guard.state_dict()["n_times"] == 2
    assert next(guard.returns, None) is None


def test_noise_of_the_mean_is_no_collapse():
    guard = DivergenceGuard(collapse=0.9)
    runner = SimpleNamespace(itr_batch_size=1)

    def log(mean):  # With a standard error of 1.
        guard.on_log(runner, 0, [{"Return": mean + x} for x in (-5, 5) * 12 + (0,)])

    for mean in (22, 22.4, 20):
        log(mean)
    with pytest.raises(DivergenceError, match="collapsed to 19, from 22"):
        log(19)


def test_other_errors_leave_no_bundle(tmp_path):
    runner = make_runner(algo=CountingAlgo(fail_at=1), callbacks=[DivergenceGuard()])
    with logger_context(tmp_path, 0, "x", override_prefix=True), pytest.raises(ZeroDivisionError):
        runner.train()
    assert not bundles_in(tmp_path)


def test_learning_rates_of_schedules_are_lowered_too():
    class Algo:
        def __init__(self):
            parameters = [torch.nn.Parameter(torch.zeros(1))]
            self.pi_optimizer = torch.optim.Adam(parameters, lr=0.4)
            self.further_optimizers = [torch.optim.SGD(parameters, lr=2.0)]
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
                self.pi_optimizer, lambda itr: 1 - itr / 4
            )
            self.same_scheduler = self.lr_scheduler  # Was lowered twice.

    algo = Algo()
    assert scale_learning_rates(algo, 0.5) == [0.2, 1.0]
    algo.pi_optimizer.step()
    algo.lr_scheduler.step()
    (group,) = algo.pi_optimizer.param_groups
    assert (group["lr"], group["initial_lr"]) == pytest.approx((0.15, 0.2))


@pytest.mark.parametrize("is_module", [False, True])
def test_an_error_without_a_message_is_reproduced(is_module, tmp_path, monkeypatch, capsys):
    """Of a script, or of a module in the directory in which it was started."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(os.getcwd())
    script = tmp_path / "diverging_program.py"
    script.write_text("raise FloatingPointError")
    place = (
        {"module": script.stem, "script": None}
        if is_module
        else {"module": None, "script": str(script)}
    )
    content = {
        "error": {"type": "FloatingPointError", "message": ""},
        "program": {**place, "arguments": [], "directory": str(tmp_path)},
        **dict(itr=3, seed=1, batch="", versions={}),
    }
    (tmp_path / "bundle.json").write_text(json.dumps(content))
    assert reproduce([str(tmp_path)]) == 0
    assert "Reproduced: the same error." in capsys.readouterr().out
    script.write_text("import sys\nsys.exit(0)")  # As the command ends.
    sys.modules.pop(script.stem, None)
    assert reproduce([str(tmp_path)]) == 1
    assert "Not reproduced: the program ended without an error." in capsys.readouterr().out


def test_a_directory_that_is_no_bundle(tmp_path, capsys):
    with pytest.raises(SystemExit):
        reproduce([str(tmp_path)])
    assert "is not a bundle" in capsys.readouterr().err

"""Asynchronous runs in which a process is killed, raises or is interrupted: by really doing so."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import torch

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.core.records import TrajInfo
from rlpyt.envs.toy import TMaze
from rlpyt.utils._pool import WorkerError
from tests.runners.async_parts import (
    SETTINGS,
    AtIteration,
    kill,
    make_runner,
    member,
    no_process_is_left,
    read_rows,
    shared_memory_of,
    train,
    values,
)

LIMIT_S = 10.0


@pytest.fixture(autouse=True)
def _as_before():
    threads = torch.get_num_threads()
    yield
    TrajInfo._discount = 1
    torch.set_num_threads(threads)


def children():
    return {p.pid for p in psutil.Process().children(recursive=True)}


class AtIterationSix(AtIteration):
    """Does something once there are log rows and snapshots, and notes all processes and the time.

    A log row is written after 5 batches, that is after the second iteration.
    """

    def __init__(self, act):
        super().__init__(6, self._note_and_act)
        self._act = act
        self.before = children()  # Servers which start processes for other tests.

    def _note_and_act(self, runner):
        self.pids = sorted(children() - self.before)
        self.time = time.monotonic()
        self._act(runner)


def fails(runner, callback, directory, error, match):
    with pytest.raises(error, match=match) as caught:
        train(runner, directory)
    assert time.monotonic() - callback.time < LIMIT_S
    assert len(callback.pids) >= 3
    assert no_process_is_left(callback.pids)
    assert not shared_memory_of([*callback.pids, os.getpid()])
    rows = read_rows(directory)
    assert 80 <= values(rows, "CumSteps")[0] < 160
    state = torch.load(directory / "run_0" / "params.pkl")
    assert state["cum_steps"] >= 80
    return caught


def kill_member(label):
    return lambda runner: kill(member(runner, label))


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("serial", "sampler"),
        ("cpu", "sampler"),
        ("served", "sampler"),
        ("serial", "memory copier 0"),
        ("serial", "memory copier 1"),
    ],
)
def test_killed_process_ends_the_run(kind, label, tmp_path):
    # The run used to wait for it for ever.
    callback = AtIterationSix(kill_member(label))
    runner = make_runner(kind, n_steps=1e6, log_interval_steps=80, callbacks=[callback])
    caught = fails(runner, callback, tmp_path, WorkerError, f"{label}.* was ended by SIGKILL")
    assert isinstance(caught.value, WorkerError)


def kill_a_worker(runner):
    kill(member(runner, "sampler").children(recursive=True)[-1])


@pytest.mark.parametrize("kind", ["cpu", "served", "alternating"])
def test_killed_worker_ends_the_run_and_is_named(kind, tmp_path):
    callback = AtIterationSix(kill_a_worker)
    runner = make_runner(kind, n_steps=1e6, log_interval_steps=80, callbacks=[callback])
    fails(runner, callback, tmp_path, WorkerError, r"worker \d \(environments")


@pytest.mark.parametrize("kind", ["served", "no_overlap"])
def test_killed_action_server_ends_the_run(kind, tmp_path):
    callback = AtIterationSix(lambda runner: kill(member(runner, "sampler").children()[0]))
    runner = make_runner(kind, n_steps=1e6, log_interval_steps=80, callbacks=[callback])
    fails(runner, callback, tmp_path, WorkerError, "action server 0 ")


@pytest.mark.slow
def test_killed_optimizer_ends_the_run(tmp_path):
    callback = AtIterationSix(kill_member("optimizer 1"))
    runner = make_runner(n_steps=1e6, log_interval_steps=80, callbacks=[callback], n_optimizers=2)
    fails(runner, callback, tmp_path, WorkerError, "optimizer 1.* was ended by SIGKILL")


class BrokenTMaze(TMaze):
    n_steps = 0

    def step(self, action):
        BrokenTMaze.n_steps += 1
        if BrokenTMaze.n_steps > 100:
            raise ZeroDivisionError("a bug of the user")
        return super().step(action)


@pytest.mark.parametrize("kind", ["serial", "cpu", "served"])
def test_environment_which_raises_shows_its_traceback(kind, tmp_path):
    runner = make_runner(kind, n_steps=1e6, sampler_kwargs={"EnvCls": BrokenTMaze})
    with pytest.raises(WorkerError, match="a bug of the user") as caught:
        train(runner, tmp_path)
    assert "in step" in str(caught.value)


class BrokenCopy(DQN):
    def samples_to_buffer(self, samples):
        raise ZeroDivisionError("a bug of the user")


def test_copier_which_raises_shows_its_traceback(tmp_path):
    runner = make_runner(algo=BrokenCopy(batch_size=16, **SETTINGS))
    with pytest.raises(WorkerError, match="(?s)memory copier .*a bug of the user"):
        train(runner, tmp_path)


class BrokenUpdate(DQN):
    def _apply_optimization(self, samples, opt_info):
        raise ZeroDivisionError("a bug of the user")


def test_algorithm_which_raises_shows_its_own_error(tmp_path):
    runner = make_runner(algo=BrokenUpdate(batch_size=16, **SETTINGS))
    before, pids = children(), set()
    runner.callbacks = (OnStart(pids),)
    with pytest.raises(ZeroDivisionError, match="a bug of the user"):
        train(runner, tmp_path)
    assert len(pids - before) >= 3
    assert no_process_is_left(pids - before)


class OnStart(AtIteration):
    def __init__(self, pids):
        super().__init__(None, None)
        self.pids = pids

    def on_start(self, runner):
        self.pids |= children()


def test_interrupt_ends_everything(tmp_path):
    callback = AtIterationSix(lambda runner: os.kill(os.getpid(), signal.SIGINT))
    runner = make_runner("served", n_steps=1e6, log_interval_steps=80, callbacks=[callback])
    fails(runner, callback, tmp_path, KeyboardInterrupt, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["serial", "served"])
def test_nobody_outlives_a_runner_which_is_killed(kind, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import torch
            torch.set_num_threads(1)
            from pathlib import Path
            from tests.runners.async_parts import AtIteration, make_runner, train
            tell = AtIteration(3, lambda runner: print("training", flush=True))
            train(make_runner({kind!r}, n_steps=1e6, callbacks=[tell]), Path({str(tmp_path)!r}))
            """
        )
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        for line in process.stdout:
            if line.strip() == "training":
                break
        pids = [p.pid for p in psutil.Process(process.pid).children(recursive=True)]
        process.kill()
    assert len(pids) >= 3
    assert no_process_is_left(pids, LIMIT_S)

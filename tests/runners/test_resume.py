"""Checkpoints of runs: when they are saved, what is resumed, how signals and kills end a run."""

import json
import math
import multiprocessing
import os
import shutil
import signal
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.checkpoints.files import CheckpointError
from rlpyt.checkpoints.store import step_of
from rlpyt.checkpoints.tree import decode, encode
from rlpyt.processes import child
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.callbacks import Callback, SaveState, load_run_state
from rlpyt.runners.checkpointing import StopSignals
from rlpyt.runners.log import RunLog
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.rate_limiter import LEAD_ITRS
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context
from tests.forked import fork
from tests.runners import async_parts, parts
from tests.runners.parts import CountingAlgo, make_runner, read_rows
from tests.runners.sync_parts import ParallelQuietAgent
from tests.runners.test_minibatch_rl import values
from tests.samplers.parts import CountEnv
from tests.selection import FULL
from tests.waiting import wait_until


def train(runner, directory, **kwargs):
    with logger_context(directory, 0, "test", None, "last", override_prefix=True, resume=True):
        runner.train(**kwargs)
    return values(read_rows(directory), "Diagnostics/CumSteps")


def steps_of_checkpoints(directory):
    return sorted(map(step_of, (directory / "run_0" / "checkpoints").glob("checkpoint_*")))


# --- Intervals ------------------------------------------------------------------------------------


class Watch(Callback):
    """Notes which checkpoints are there after each iteration."""

    def __init__(self, directory):
        self.directory, self.seen = directory, set()

    def on_itr(self, runner, itr, traj_infos, opt_info):
        runner.checkpoints.wait()
        self.seen |= set(steps_of_checkpoints(self.directory))


def test_checkpoints_at_the_start_at_intervals_and_at_the_end(tmp_path):
    watch = Watch(tmp_path)
    train(make_runner(callbacks=[watch]), tmp_path, checkpoint_interval_steps=50)
    # Iterations of 20 steps: 60 is the first end of one that is not below 50, 100 not below 100.
    assert watch.seen == {0, 60, 100}
    assert steps_of_checkpoints(tmp_path) == [100, 120]


def test_an_interval_in_minutes(tmp_path, monkeypatch):
    watch = Watch(tmp_path)
    now = iter(range(0, 10**6, 25))
    # Only the name in this module: threads of other parts also read the clock.
    clock = SimpleNamespace(monotonic=lambda: next(now))
    monkeypatch.setattr("rlpyt.runners.checkpointing.time", clock)
    train(make_runner(callbacks=[watch]), tmp_path, checkpoint_interval_minutes=1)
    assert watch.seen >= {0, 60}
    assert 20 not in watch.seen


def test_without_arguments_nothing_is_saved(tmp_path):
    train(make_runner(), tmp_path)
    assert not (tmp_path / "run_0" / "checkpoints").exists()


# --- Resuming -------------------------------------------------------------------------------------


def test_values_since_the_last_row_are_saved_as_arrays():
    log, resumed = RunLog(), RunLog()
    for each in (log, resumed):
        each.start(["loss", "nothing", "user"])
    log.add_opt_info(SimpleNamespace(loss=[0.1, math.nan] * 5000, nothing=[], user=[1, None]))
    tree, arrays = encode(log.state_dict())
    assert len(json.dumps(tree)) < 1000
    resumed.load_state_dict(decode(tree, arrays.__getitem__))
    assert repr(resumed.opt_infos) == repr(log.opt_infos)


class FailAfter(Callback):
    """Fails in iteration ``itr``, after what it was told of it."""

    def __init__(self, itr):
        self.itr = itr

    def on_log(self, runner, itr, traj_infos):
        if itr == self.itr:
            raise ZeroDivisionError


@pytest.mark.parametrize("RunnerCls", [MinibatchRl, MinibatchRlEval])
def test_auto_begins_and_goes_on_without_gap_or_double_row(RunnerCls, tmp_path):
    whole = train(make_runner(RunnerCls, n_steps=200), tmp_path / "whole")
    runner = make_runner(RunnerCls, n_steps=200, callbacks=[FailAfter(7)])
    with pytest.raises(ZeroDivisionError):
        train(runner, tmp_path / "a", resume="auto", checkpoint_interval_steps=100)
    # The log is ahead of the checkpoint after 100 steps.
    assert values(read_rows(tmp_path / "a"), "Diagnostics/CumSteps")[-1] == 160
    assert steps_of_checkpoints(tmp_path / "a") == [0, 100]
    resumed = make_runner(RunnerCls, n_steps=200, seed=None)
    assert train(resumed, tmp_path / "a", resume="auto") == whole
    assert resumed.seed == 0
    assert train(make_runner(RunnerCls, n_steps=200), tmp_path / "a", resume="auto") == whole


def test_rows_before_the_first_checkpoint_are_written_anew(tmp_path):
    assert train(make_runner(), tmp_path) == [40, 80, 120]
    assert train(make_runner(), tmp_path, resume="auto") == [40, 80, 120]


def test_resume_from_a_path(tmp_path, monkeypatch):
    train(make_runner(n_steps=200), tmp_path, checkpoint_interval_steps=100)
    first = tmp_path / "run_0" / "checkpoints" / "checkpoint_000000100"
    rows = train(make_runner(n_steps=200), tmp_path / "b", resume=first)
    assert rows == [120, 160, 200]
    assert not (tmp_path / "b" / "run_0" / "checkpoints").exists()
    # In its own directory, what comes after is removed and repeated.
    monkeypatch.chdir(tmp_path)
    relative = first.relative_to(tmp_path)
    train(make_runner(n_steps=120), tmp_path, resume=relative, checkpoint_interval_steps=1000)
    assert steps_of_checkpoints(tmp_path) == [100, 120]
    with pytest.raises(CheckpointError):
        train(make_runner(), tmp_path, resume=tmp_path / "no such checkpoint")


def test_another_configuration_is_refused_before_anything_starts(tmp_path):
    train(make_runner(), tmp_path, checkpoint_interval_steps=100)
    other = make_runner(MinibatchRlEval)
    other.sampler.initialize = None
    with pytest.raises(CheckpointError, match="(?s)runner.*MinibatchRl.*MinibatchRlEval"):
        train(other, tmp_path, resume="auto")


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_another_number_of_processes_is_refused(before, after, tmp_path):
    # It used to begin a new run, and to drop the log.
    def make(n):
        runner = make_runner(SyncRl, affinity=[{}] * n)
        runner.agent = ParallelQuietAgent()
        return runner

    rows = train(make(before), tmp_path, checkpoint_interval_steps=100)
    with pytest.raises(CheckpointError, match=f"world_size is {before} in .* and {after} here"):
        train(make(after), tmp_path, resume="auto")
    assert values(read_rows(tmp_path), "Diagnostics/CumSteps") == rows


def test_checkpoints_that_only_one_rank_has_are_removed(tmp_path):
    # They used to be mixed with those of the new run, which may have another seed.
    def make():
        runner = make_runner(SyncRl, affinity=[{}, {}])
        runner.agent = ParallelQuietAgent()
        return runner

    rows = train(make(), tmp_path, checkpoint_interval_steps=1000)
    directory = tmp_path / "run_0" / "checkpoints"
    names = sorted(os.listdir(directory / "rank_0"))
    shutil.rmtree(directory / "rank_1")
    assert train(make(), tmp_path, resume="auto", checkpoint_interval_steps=1000) == rows
    for rank in (0, 1):
        assert sorted(os.listdir(directory / f"rank_{rank}")) == names


class Counts(Callback):
    """Counts iterations, also those before the run was resumed."""

    n_itrs = 0

    def on_itr(self, runner, itr, traj_infos, opt_info):
        self.n_itrs += 1

    def state_dict(self):
        return {"n_itrs": self.n_itrs}

    def load_state_dict(self, state):
        self.n_itrs = state["n_itrs"]


def test_callbacks_may_be_added_and_left_out(tmp_path):
    # Their states used to be loaded in order, into callbacks of other classes.
    train(make_runner(callbacks=[SaveState(), Counts()]), tmp_path, resume="auto")
    counts = Counts()
    train(make_runner(callbacks=[counts], n_steps=160), tmp_path, resume="auto")
    assert counts.n_itrs == 8
    added = [SaveState(), Counts(), Counts()]
    train(make_runner(callbacks=added, n_steps=200), tmp_path, resume="auto")
    assert [callback.n_itrs for callback in added[1:]] == [10, 2]


def test_a_train_method_of_a_subclass_goes_on_working(tmp_path):
    class Own(MinibatchRl):
        def train(self):
            super().train()

    assert train(make_runner(Own), tmp_path) == [40, 80, 120]


# --- Environments without a state -----------------------------------------------------------------


class Forgetful(CountEnv):
    def state_dict(self):
        raise NotImplementedError("Forgetful cannot save its state")


class TruncatingAlgo(CountingAlgo):
    truncated = None

    def truncate_trajectories(self, B_idxs):
        assert self.seen == []
        self.truncated = list(B_idxs)


def make_forgetful(**kwargs):
    runner = make_runner(algo=TruncatingAlgo(), **kwargs)
    runner.sampler.EnvCls = Forgetful
    return runner


def test_environments_without_a_state_are_told_of_at_the_start_and_truncated(tmp_path):
    first = make_forgetful(n_steps=40)
    train(first, tmp_path, checkpoint_interval_steps=40)
    assert first.algo.truncated is None
    text = (tmp_path / "run_0" / "debug.log").read_text()
    said = text.index("4 of 4 environments have no state")
    assert "Forgetful cannot save its state" in text[said:]
    assert said < text.index("itr #1")
    second = make_forgetful(n_steps=80)
    assert train(second, tmp_path, resume="auto") == [40, 80]
    assert second.algo.truncated == [0, 1, 2, 3]


def test_environments_that_begin_anew_do_not_repeat_their_episodes(tmp_path):
    seeds = []

    class Seeded(SerialSampler):
        def initialize(self, *args, seed, **kwargs):
            seeds.append(seed)
            return super().initialize(*args, seed=seed, **kwargs)

    for n_steps in (40, 80, 120):
        runner = make_runner(n_steps=n_steps)
        runner.sampler.__class__ = Seeded
        train(runner, tmp_path, resume="auto")
    assert len(set(seeds)) == 3


# --- Tensorboard ----------------------------------------------------------------------------------


def test_tensorboard_has_every_value_once(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator

    def go(**kwargs):
        context = dict(use_summary_writer=True, override_prefix=True, resume=True)
        with logger_context(tmp_path, 0, "test", **context):
            make_runner(n_steps=200, **kwargs).train(resume="auto", checkpoint_interval_steps=100)

    with pytest.raises(ZeroDivisionError):
        go(callbacks=[FailAfter(7)])
    go()
    events = accumulator(str(tmp_path / "run_0"))
    events.Reload()
    steps = [event.step for event in events.Scalars("Diagnostics/CumSteps")]
    assert steps == [1, 3, 5, 7, 9]


# --- Several processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("RunnerCls", [AsyncRlEval, *[AsyncRl] * FULL])
def test_an_asynchronous_run_goes_on_with_its_buffer_and_counters(RunnerCls, tmp_path):
    evaluation = {} if RunnerCls is AsyncRl else {"eval_n_envs": 2, "eval_max_steps": 20}

    def make(n_steps, **kwargs):
        return async_parts.make_runner(
            RunnerCls=RunnerCls, n_steps=n_steps, sampler_kwargs=evaluation, **kwargs
        )

    class Slow(Callback):
        def on_itr(self, runner, itr, traj_infos, opt_info):
            time.sleep(0.02)  # So that the last batch comes before the last updates.

    first = make(160, callbacks=[Slow()])
    # The first checkpoint has all steps, but not the last updates.
    rows = train(first, tmp_path, resume="auto", checkpoint_interval_steps=160)
    assert 80 <= rows[-2] <= 80 + 16 * LEAD_ITRS  # The sampler may be so far ahead.
    assert rows[-1] == 160
    assert "does not resume exactly" in (tmp_path / "run_0" / "debug.log").read_text()
    n_updates = first.algo.update_counter
    second = make(320)
    seen = []

    class See(Callback):
        def on_start(self, runner):
            buffer = runner.algo.replay_buffer
            seen.append((int(buffer.async_t.value), runner.algo.update_counter))

    second.callbacks = [See()]
    rows = train(second, tmp_path, resume="auto", checkpoint_interval_steps=64)
    assert seen == [(40, n_updates)]
    # A row may be a batch late, since the sampler goes on meanwhile.
    assert [row // 80 for row in rows[-4:]] == [1, 2, 3, 4]
    assert rows[-1] == 320
    assert rows == sorted(set(rows))
    assert second.algo.update_counter > n_updates
    again = make(320)
    assert train(again, tmp_path, resume="auto") == rows


def test_an_asynchronous_run_goes_on_with_the_batches_in_its_queue(tmp_path):
    def make(n_steps, callbacks=()):
        agent, algo = GenericFfAgent(**async_parts.SMALL), IMPALA()
        return async_parts.make_runner(algo=algo, agent=agent, n_steps=n_steps, callbacks=callbacks)

    def fail(runner):
        time.sleep(0.3)  # The sampler goes as far ahead as it may.
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(
            make(320, [async_parts.AtIteration(6, fail)]),
            tmp_path,
            resume="auto",
            checkpoint_interval_steps=16,
        )
    second, seen = make(320), []

    class See(Callback):
        def on_start(self, runner):
            queue = runner.algo.replay_buffer.state_dict()
            # Once, the queue held batches that were then sampled again.
            assert queue["n_written"] == runner.ctrl.sampler_itr.value + 1
            seen.append((queue["n_read"], runner.algo.update_counter))

    second.callbacks = [See()]
    rows = train(second, tmp_path, resume="auto", checkpoint_interval_steps=64)
    ((n_read, n_updates),) = seen
    assert 0 < n_updates <= 6  # A checkpoint needs new steps too.
    assert n_read == n_updates
    assert rows[-1] == 320
    assert second.algo.update_counter == 20


def test_an_asynchronous_run_resumes_from_a_file_of_save_state(tmp_path):
    parts.train(async_parts.make_runner(n_steps=160, callbacks=[SaveState()]), tmp_path)
    second = async_parts.make_runner(n_steps=240)
    second.load_state_dict(load_run_state(tmp_path / "run_0" / "run_state.pkl"))
    rows = parts.train(second, tmp_path / "second")
    assert async_parts.values(rows, "CumSteps") == [240]


# --- Signals and kills ----------------------------------------------------------------------------

WITH_CHECKPOINTS = {"resume": "auto", "checkpoint_interval_steps": 40}


class SlowAlgo(CountingAlgo):
    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        time.sleep(0.02)
        return super().optimize_agent(itr, samples)


def make_slow(RunnerCls):
    return make_runner(RunnerCls, algo=SlowAlgo(), n_steps=4000)


def make_slow_with_workers(RunnerCls):
    runner = make_slow(RunnerCls)
    runner.sampler = GpuSampler(CountEnv, {}, batch_T=5, batch_B=4, max_decorrelation_steps=0)
    runner.affinity = {"workers_cpus": 2}
    return runner


def make_slow_ranks(RunnerCls):
    runner = make_runner(RunnerCls, algo=SlowAlgo(), n_steps=8000, affinity=[{}, {}])
    runner.agent = ParallelQuietAgent()
    return runner


def make_slow_async(RunnerCls):
    return async_parts.make_runner("cpu", RunnerCls=RunnerCls, n_steps=1e6)


def start_run(directory, RunnerCls=MinibatchRl, make=make_slow, **kwargs):
    def work():
        train(make(RunnerCls), directory, **kwargs)

    before = n_rows_ever(directory)
    run = fork(work, output=output_of(directory))
    wait_until(lambda: n_rows_ever(directory) >= before + 2 or not run.is_alive())
    assert run.is_alive(), output_of(directory).read_text()
    return run


def output_of(directory):
    directory.mkdir(exist_ok=True)
    return directory / "output"


def n_rows_ever(directory):
    """Rows that were written, also those that were dropped since."""
    file = directory / "run_0" / "debug.log"
    return file.read_text().count("Optimizing over") if file.exists() else 0


def end(run, number, send=os.kill):
    """Send a signal; return the exit code and the processes of the run that are left."""
    children = psutil.Process(run.pid).children(recursive=True)
    send(run.pid, number)
    run.join(60)
    psutil.wait_procs(children, timeout=40)
    return run.exitcode, [child for child in children if child.is_running()]


RUNS = {
    "one": (MinibatchRl, make_slow),
    "ranks": (SyncRl, make_slow_ranks),
    "async": (AsyncRl, make_slow_async),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"),
    # Both signals have the same handler.
    [
        ("one", signal.SIGTERM),
        ("ranks", signal.SIGINT),
        *[("async", signal.SIGTERM)] * FULL,
    ],
)
def test_a_killed_run_goes_on_until_a_signal_ends_it_with_a_checkpoint(kind, number, tmp_path):
    run = start_run(tmp_path, *RUNS[kind], **WITH_CHECKPOINTS)
    assert end(run, signal.SIGKILL) == (-signal.SIGKILL, [])
    run = start_run(tmp_path, *RUNS[kind], **WITH_CHECKPOINTS)
    processes = [run.pid, *(child.pid for child in psutil.Process(run.pid).children(True))]
    assert end(run, number) == (128 + number, [])
    assert async_parts.shared_memory_of(processes) == []
    rows = values(read_rows(tmp_path), "Diagnostics/CumSteps")
    assert rows == sorted(set(rows))
    if kind != "async":
        assert rows == list(range(40, int(rows[-1]) + 1, 40))
    directory = tmp_path / "run_0" / "checkpoints"
    if kind == "ranks":
        names = [sorted(os.listdir(directory / f"rank_{rank}")) for rank in (0, 1)]
        assert names[0] == names[1]
        directory = directory / "rank_0"
    assert max(map(step_of, directory.iterdir())) >= rows[-1]


def test_a_signal_to_all_processes_of_a_run_is_left_to_the_main_one(tmp_path):
    # As job schedulers send it; workers used to end at once, and the run failed.
    run = start_run(tmp_path, make=make_slow_with_workers, **WITH_CHECKPOINTS)
    code, left = end(run, signal.SIGTERM, send=os.killpg)
    assert (code, left) == (128 + signal.SIGTERM, []), output_of(tmp_path).read_text()
    assert steps_of_checkpoints(tmp_path)[-1] >= 80


def test_without_checkpoints_sigint_interrupts_and_sigterm_ends_the_iteration(tmp_path):
    assert end(start_run(tmp_path / "int"), signal.SIGINT) == (1, [])
    assert "KeyboardInterrupt" in output_of(tmp_path / "int").read_text()
    assert end(start_run(tmp_path / "term"), signal.SIGTERM) == (128 + signal.SIGTERM, [])
    assert not (tmp_path / "term" / "run_0" / "checkpoints").exists()


class EndFork(Callback):
    """Ends a fork before it runs, as environments may end what they start."""

    def on_itr(self, runner, itr, traj_infos, opt_info):
        fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,))
        fork.start()
        fork.terminate()
        fork.join(20)
        assert fork.exitcode == -signal.SIGTERM


def test_forks_of_a_run_end_at_once(tmp_path):
    # They used to have the handler of the run, and forgot a signal that came too early.
    train(make_runner(n_steps=60, callbacks=[EndFork()]), tmp_path)


def test_a_signal_during_a_fork_leaves_none_blocked():
    # The mask was restored only while the handler of the run was there, which the signal removes.
    with StopSignals((signal.SIGTERM,)):
        child._block_sigterm()
    child._restore_mask()
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


class PressTwice(Callback):
    def on_itr(self, runner, itr, traj_infos, opt_info):
        if itr == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


def test_a_second_sigint_interrupts_at_once_and_handlers_are_restored(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        train(make_runner(callbacks=[PressTwice()]), tmp_path, checkpoint_interval_steps=40)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


class SignalAt(CountEnv):
    """Signals a process at one of its steps, and notes later steps; never again once it has."""

    def __init__(self, n_steps=10**9, pid=None, path=None):
        super().__init__()
        self.n_left, self.pid, self.path = n_steps, pid, path

    def step(self, action):
        self.n_left -= 1
        if self.n_left == 0 and not self.path.exists():
            self.path.touch()
            os.kill(self.pid, signal.SIGTERM)
            time.sleep(0.5)
        elif self.n_left < 0 and self.path.exists():
            self.path.write_text(self.path.read_text() + "step ")
        return super().step(action)


@pytest.mark.parametrize(
    ("RunnerCls", "SamplerCls", "n_steps"),  # In the first evaluation, or the second.
    [
        (MinibatchRlEval, SerialSampler, 3),
        (MinibatchRlEval, CpuSampler, 13),
        (MinibatchRlEval, GpuSampler, 3),
        (SyncRlEval, SerialSampler, 13),
    ],
)
def test_a_signal_ends_an_evaluation_which_is_repeated_later(
    RunnerCls, SamplerCls, n_steps, tmp_path
):
    def start(name, n_steps, eval_max_steps=20):
        affinity = {"workers_cpus": [None], "set_affinity": False}
        is_sync = RunnerCls is SyncRlEval
        runner = make_runner(RunnerCls, affinity=[affinity] * 2 if is_sync else affinity)
        runner.agent = ParallelQuietAgent()
        kwargs = {"n_steps": n_steps, "pid": os.getpid(), "path": tmp_path / "signalled"}
        runner.sampler = SamplerCls(
            SignalAt,
            {},
            batch_T=5,
            batch_B=4,
            max_decorrelation_steps=0,
            eval_n_envs=2,
            eval_env_kwargs=kwargs,
            eval_max_steps=eval_max_steps,
        )
        return train(runner, tmp_path / name, resume="auto")

    whole = start("whole", 10**9)
    with pytest.raises(SystemExit) as error:
        start("a", n_steps, eval_max_steps=1e8 if n_steps == 3 else 20)  # That is hours.
    assert error.value.code == 143
    assert len((tmp_path / "signalled").read_text().split()) <= 3
    assert len(read_rows(tmp_path / "a")) == (0 if n_steps == 3 else 1)
    assert start("a", n_steps) == whole


def test_a_signal_ends_the_first_evaluation_of_an_asynchronous_run(tmp_path):
    """It used to last until its end, here for hours."""

    class Press(Callback):
        def on_start(self, runner):
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()

    evaluation = {"eval_n_envs": 2, "eval_max_steps": 1e9}
    runner = async_parts.make_runner(
        RunnerCls=AsyncRlEval, sampler_kwargs=evaluation, callbacks=[Press()]
    )
    with pytest.raises(SystemExit) as error:
        runner.train()
    assert error.value.code == 143


class PressOnce(Callback):
    def on_itr(self, runner, itr, traj_infos, opt_info):
        if itr == 2:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("make", "RunnerCls"),
    [
        (make_runner, MinibatchRl),
        (make_runner, MinibatchRlEval),
        (async_parts.make_runner, AsyncRl),
    ],
)
def test_a_run_that_a_signal_ended_leaves_its_agent(make, RunnerCls, tmp_path):
    # All training since the last log row was lost, unless there were checkpoints.
    with pytest.raises(SystemExit):
        train(make(RunnerCls=RunnerCls, callbacks=[PressOnce()]), tmp_path)
    assert torch.load(tmp_path / "run_0" / "params.pkl")["itr"] == 2


@pytest.mark.parametrize("RunnerCls", [MinibatchRl, MinibatchRlEval])
def test_a_run_that_a_signal_ended_goes_on_as_if_it_had_not(RunnerCls, tmp_path):
    whole = train(make_runner(RunnerCls), tmp_path / "whole")
    with pytest.raises(SystemExit) as error:
        train(make_runner(RunnerCls, callbacks=[PressOnce()]), tmp_path / "a", resume="auto")
    assert error.value.code == 143
    assert steps_of_checkpoints(tmp_path / "a") == [0, 60]
    assert train(make_runner(RunnerCls, callbacks=[Callback()]), tmp_path / "a", resume="auto") == (
        whole
    )
    snapshots = [torch.load(tmp_path / name / "run_0" / "params.pkl") for name in ("whole", "a")]
    assert snapshots[0] == snapshots[1]

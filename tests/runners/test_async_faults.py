"""Asynchronous runs in which a process is killed, raises or is interrupted: by really doing so."""

import os
import signal
import time

import psutil
import pytest
import torch

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.toy import TMaze
from rlpyt.processes.supervisor import WorkerError
from rlpyt.runners.async_rl import AsyncRlEval
from tests.forked import fork
from tests.runners.async_parts import (
    SETTINGS,
    AtIteration,
    descendants,
    kill,
    make_runner,
    member,
    no_process_is_left,
    shared_memory_of,
    values,
)
from tests.runners.parts import read_rows, train
from tests.selection import FULL
from tests.waiting import wait_until

LIMIT_S = 40.0  # On a busy machine too; without an end, the run would go on for hours.


class AtIterationSix(AtIteration):
    """Does something once there are log rows and snapshots, and notes all processes and the time.

    A log row is written after 5 batches, that is after the second iteration.
    """

    def __init__(self, act):
        super().__init__(6, self._note_and_act)
        self._act = act
        self.before = descendants()  # Servers that start processes for other tests.

    def _note_and_act(self, runner):
        self.pids = sorted(descendants() - self.before)
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


def kill_a_worker(runner):
    kill(member(runner, "sampler").children(recursive=True)[-1])


def kill_an_action_server(runner):
    kill(member(runner, "sampler").children()[0])


def kill_who_has_the_replay_buffer(runner):
    runner.algo.replay_buffer.rw_lock.acquire_write()  # As the copier does.
    kill(member(runner, "memory copier 1"))


def interrupt(runner):
    os.kill(os.getpid(), signal.SIGINT)


KILLED, WORKER = ".* was ended by SIGKILL", r"worker \d \(environments"


@pytest.mark.parametrize(
    ("kind", "act", "match"),
    [
        ("served", kill_member("sampler"), "sampler" + KILLED),
        ("serial", kill_member("memory copier 0"), "memory copier 0" + KILLED),
        # The optimizer waited for the replay buffer for ever.
        ("serial", kill_who_has_the_replay_buffer, "memory copier 1" + KILLED),
        ("cpu", kill_a_worker, WORKER),
        ("served", kill_an_action_server, "action server 0 "),
        ("served", interrupt, None),
        *[
            *((kind, kill_member("sampler"), "sampler" + KILLED) for kind in ("serial", "cpu")),
            *((kind, kill_a_worker, WORKER) for kind in ("served", "alternating")),
            ("no_overlap", kill_an_action_server, "action server 0 "),
        ]
        * FULL,
    ],
)
def test_killed_process_ends_the_run_and_is_named(kind, act, match, tmp_path):
    # The run used to wait for it for ever.
    callback = AtIterationSix(act)
    runner = make_runner(kind, n_steps=1e6, log_interval_steps=80, callbacks=[callback])
    error = WorkerError if match else KeyboardInterrupt
    fails(runner, callback, tmp_path, error, match)


@pytest.mark.slow
def test_killed_optimizer_is_named_and_not_the_ones_that_waited(tmp_path):
    """Another rank lost contact, and its own error was taken for the cause."""
    callback = AtIterationSix(kill_member("optimizer 1"))
    runner = make_runner(n_steps=1e6, log_interval_steps=80, callbacks=[callback], n_optimizers=3)
    fails(runner, callback, tmp_path, WorkerError, "optimizer 1" + KILLED)


# --- Processes that hang -------------------------------------------------------------------------


class StuckTMaze(TMaze):
    n_steps = 0

    def step(self, action):
        StuckTMaze.n_steps += 1
        if StuckTMaze.n_steps > 200:
            time.sleep(1000)
        return super().step(action)


class StuckCopy(DQN):
    n_batches = 0

    def samples_to_buffer(self, samples):
        StuckCopy.n_batches += 1
        if StuckCopy.n_batches > 6:
            time.sleep(1000)
        return super().samples_to_buffer(samples)


class StuckUpdate(DQN):
    def _apply_optimization(self, samples, opt_info):
        if self.rank == 1 and self.update_counter == 8:
            time.sleep(1000)
        super()._apply_optimization(samples, opt_info)


class LastIteration(AtIteration):
    """Notes the last iteration that was made."""

    def __init__(self):
        self.before = descendants()

    def on_itr(self, runner, itr, traj_infos, opt_info):
        self.pids, self.time = sorted(descendants() - self.before), time.monotonic()


@pytest.mark.parametrize(
    ("AlgoCls", "EnvCls", "n_optimizers", "label", "place"),
    [
        (DQN, StuckTMaze, 1, "sampler", "in step"),
        *[
            (StuckCopy, TMaze, 1, "memory copier [01]", "in samples_to_buffer"),
            (StuckUpdate, TMaze, 2, "optimizer 1", "in _apply_optimization"),
        ]
        * FULL,
    ],
)
def test_hanging_process_ends_the_run(AlgoCls, EnvCls, n_optimizers, label, place, tmp_path):
    """There was no limit."""
    callback = LastIteration()
    limit_s = 3.0 if n_optimizers == 1 else 7.0  # To make an agent data-parallel takes seconds.
    runner = make_runner(
        algo=AlgoCls(batch_size=16, **SETTINGS),
        n_optimizers=n_optimizers,
        n_steps=1e6,
        log_interval_steps=80,
        callbacks=[callback],
        sampler_kwargs={"EnvCls": EnvCls},
        process_timeout_s=limit_s,
    )
    match = f"{label}, process .* sent no heartbeat for {limit_s:g} s.*process_timeout_s"
    caught = fails(runner, callback, tmp_path, WorkerError, match)
    assert place in str(caught.value)


class SlowTMaze(TMaze):
    """Slow in evaluation, of which there is one environment."""

    n_made = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        SlowTMaze.n_made += 1
        self.is_slow = SlowTMaze.n_made == 6  # After the one of the example, and four of training.

    def step(self, action):
        if self.is_slow:
            time.sleep(0.1)
        return super().step(action)


@pytest.mark.full
def test_a_long_evaluation_is_no_hanging(tmp_path):
    runner = make_runner(
        RunnerCls=AsyncRlEval,
        sampler_kwargs={"eval_n_envs": 1, "eval_max_steps": 30, "EnvCls": SlowTMaze},
        n_steps=80,
        process_timeout_s=2.5,
    )
    rows = train(runner, tmp_path)
    assert values(rows, "CumEvalTime")[0] > 2.8
    assert values(rows, "CumSteps") == [0, 80]


# --- Processes that raise ------------------------------------------------------------------------


class BrokenTMaze(TMaze):
    n_steps = 0

    def step(self, action):
        BrokenTMaze.n_steps += 1
        if BrokenTMaze.n_steps > 100:
            raise ZeroDivisionError("a bug of the user")
        return super().step(action)


@pytest.mark.parametrize("kind", ["served", *["serial", "cpu"] * FULL])
def test_environment_that_raises_shows_its_traceback(kind, tmp_path):
    runner = make_runner(kind, n_steps=1e6, sampler_kwargs={"EnvCls": BrokenTMaze})
    with pytest.raises(WorkerError, match="a bug of the user") as caught:
        train(runner, tmp_path)
    assert "in step" in str(caught.value)


class BrokenCopy(DQN):
    def samples_to_buffer(self, samples):
        raise ZeroDivisionError("a bug of the user")


def test_copier_that_raises_shows_its_traceback(tmp_path):
    runner = make_runner(algo=BrokenCopy(batch_size=16, **SETTINGS))
    with pytest.raises(WorkerError, match="(?s)memory copier .*a bug of the user"):
        train(runner, tmp_path)


class BrokenUpdate(DQN):
    """Raises an error, which may sound like a lost contact."""

    error = None

    def _apply_optimization(self, samples, opt_info):
        raise self.error


class OnStart(AtIteration):
    def __init__(self, pids):
        super().__init__(None, None)
        self.pids = pids

    def on_start(self, runner):
        self.pids |= descendants()


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a bug of the user"), RuntimeError("the service timed out")]
)
def test_algorithm_that_raises_shows_its_own_error(error, tmp_path):
    runner = make_runner(algo=BrokenUpdate(batch_size=16, **SETTINGS))
    runner.algo.error = error
    before, pids = descendants(), set()
    runner.callbacks = (OnStart(pids),)
    with pytest.raises(type(error), match=str(error)) as caught:
        train(runner, tmp_path)
    assert not isinstance(caught.value, WorkerError)
    assert len(pids - before) >= 3
    assert no_process_is_left(pids - before)


def test_nobody_outlives_a_runner_that_is_killed(tmp_path):
    mark = tmp_path / "training"
    tell = AtIteration(3, lambda runner: mark.touch())
    runner = make_runner("served", n_steps=1e6, callbacks=[tell])
    process = fork(train, runner, tmp_path, output=tmp_path / "output")

    def is_training():
        assert process.is_alive(), (tmp_path / "output").read_text()
        return mark.exists()

    wait_until(is_training)
    pids = [p.pid for p in psutil.Process(process.pid).children(recursive=True)]
    process.kill()
    process.join()
    assert len(pids) >= 3
    assert no_process_is_left(pids)

"""Whatever happens to a worker, the run ends soon, gives the reason, and leaves nothing behind."""

import faulthandler
import multiprocessing
import os
import re
import signal
import time
from multiprocessing import parent_process

import numpy as np
import psutil
import pytest

from rlpyt.core.records import TrajInfo
from rlpyt.processes import child, supervisor
from rlpyt.processes.supervisor import Supervisor, WorkerError
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from tests.resources import open_files, own_children
from tests.samplers.parallel_parts import PARALLEL, DiceEnv, FaultyEnv, hang_here, start
from tests.selection import FULL, selected
from tests.waiting import wait_until

AT_ONCE = 40.0  # Seconds in which a run has to end, on a busy machine too.

MESSAGES = {
    "raise": r"ended with code 1:\nTraceback(.|\n)*KeyError: 'the error of the environment'",
    "kill": "was ended by SIGKILL, as the system does when memory is short",
    "crash": r"was ended by SIGSEGV:\nFatal Python error(.|\n)*in _maybe_fail",
    "exit": "ended with code 0 without a traceback",
    "stop": r"sent no heartbeat for 1 s(.|\n)* was here:\n$",
    "hang": r"sent no heartbeat for 1 s(.|\n)*worker_timeout_s(.|\n)*in hang_here",
}
# "stop" takes long, since the worker does not even show where it is.
FAULTS = [(CpuSampler, "kill"), (GpuSampler, "raise"), (AlternatingSampler, "hang")]
if FULL:
    FAULTS = [
        *((SamplerCls, "kill") for SamplerCls in PARALLEL),
        *((CpuSampler, how) for how in ("raise", "crash", "exit")),
        *((SamplerCls, "hang") for SamplerCls in (CpuSampler, AlternatingSampler)),
        (GpuSampler, "raise"),
        (GpuSampler, "stop"),
    ]


def start_faulty(SamplerCls, how, where="step", **kwargs):
    """The last of four environments, which is the second of the second worker, fails."""
    env_kwargs = [{}, {}, {}, {"how": how, "where": where}]
    kwargs = {"EnvCls": FaultyEnv, "env_kwargs": env_kwargs, "max_decorrelation_steps": 0, **kwargs}
    if how in ("hang", "stop"):
        kwargs["worker_timeout_s"] = 1.0
    return start(SamplerCls, 2, **kwargs)[0]


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = own_children()
    yield
    assert own_children() <= before  # Those of other tests may end meanwhile.


def assert_fails(run, how):
    begin = time.monotonic()
    with pytest.raises(WorkerError) as info:
        run()
    assert time.monotonic() - begin < AT_ONCE
    who = r"worker 1 \(environments 2 to 3\), process \d+, busy with environment 3, "
    assert re.match(who + MESSAGES[how], str(info.value)), str(info.value)


@pytest.mark.parametrize(("SamplerCls", "how"), FAULTS)
def test_fault_in_a_step(SamplerCls, how):
    sampler = start_faulty(SamplerCls, how, "step")
    assert_fails(lambda: sampler.obtain_samples(0), how)
    with pytest.raises(WorkerError, match="have been shut down"):
        sampler.obtain_samples(1)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [CpuSampler, AlternatingSampler])
def test_all_files_are_closed_after_a_fault(SamplerCls):
    kept = []
    for _ in range(2):
        before = open_files()
        sampler = start_faulty(SamplerCls, "raise", eval_n_envs=4, eval_max_steps=40)
        with pytest.raises(WorkerError) as info:
            sampler.obtain_samples(0)
        sampler.shutdown()
        kept += [sampler, info]
    assert open_files() == before


def test_a_crash_has_a_traceback_where_another_library_handles_the_signal():
    """Ray does so, in a process that has enabled its faulthandler, as pytest has."""
    faulthandler.enable(file=2)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    try:
        sampler = start_faulty(CpuSampler, "crash", "step")
        assert_fails(lambda: sampler.obtain_samples(0), "crash")
        sampler.shutdown()
    finally:
        faulthandler.disable()
        faulthandler.enable(file=2)


@pytest.mark.parametrize(
    ("SamplerCls", "how", "where"),
    [
        (CpuSampler, "exit", "reset"),
        (GpuSampler, "crash", "init"),
        *[
            (CpuSampler, "raise", "init"),
            (CpuSampler, "hang", "init"),
            (GpuSampler, "kill", "reset"),
            (GpuSampler, "hang", "reset"),
        ]
        * FULL,
    ],
)
def test_fault_at_the_start(SamplerCls, how, where):
    assert_fails(lambda: start_faulty(SamplerCls, how, where), how)


@pytest.mark.parametrize("how", ["raise", *["kill", "crash", "exit"] * FULL])
def test_fault_in_the_example_step(how):
    begin = time.monotonic()
    with pytest.raises(WorkerError) as info:
        start(CpuSampler, EnvCls=FaultyEnv, env_kwargs={"how": how}, example_subprocess=True)
    assert time.monotonic() - begin < AT_ONCE
    who = r"the example step, in a temporary process, process \d+ "
    assert re.match(who + MESSAGES[how], str(info.value)), str(info.value)


def test_an_example_step_that_hangs(monkeypatch):
    monkeypatch.setattr("rlpyt.samplers.buffer.EXAMPLE_TIMEOUT_S", 0.5)
    with pytest.raises(RuntimeError, match="the example step took over"):
        start(CpuSampler, EnvCls=FaultyEnv, env_kwargs={"how": "hang"}, example_subprocess=True)


@pytest.mark.parametrize(
    ("SamplerCls", "how"), selected(FAULTS[:-1], aspects=set) if FULL else FAULTS[:1]
)
def test_fault_in_an_evaluation(SamplerCls, how):
    limit = {"eval_max_trajectories": 50} if how == "raise" else {}
    faults = [{}, {}, {}, {"how": how, "where": "step", "after": 5}]
    sampler = start_faulty(
        SamplerCls,
        how,
        env_kwargs={},
        eval_env_kwargs=faults,
        eval_n_envs=4,
        eval_max_steps=80,
        **limit,
    )
    sampler.obtain_samples(0)
    assert_fails(lambda: sampler.evaluate_agent(0), how)
    sampler.shutdown()


class BigTrajInfo(TrajInfo):
    """Larger than a pipe, so that it is still being sent when the worker goes on."""

    def terminate(self, observation):
        self.Frames = np.ones(4_000_000, dtype="uint8")
        return super().terminate(observation)


class LateFault(FaultyEnv):
    def reset(self):
        time.sleep(0.02)  # The sampler has begun to read.
        return super().reset()

    def step(self, action):
        step = super().step(action)
        return step._replace(done=step.env_info.traj_done)


@pytest.mark.parametrize("how", ["kill", *["raise"] * FULL])
def test_fault_while_a_trajectory_info_is_on_its_way(how):
    # The sampler waited for the rest of it for ever.
    kwargs = {"CollectorCls": "wait", "TrajInfoCls": BigTrajInfo, "batch_T": 60, "batch_B": 2}
    faults = {"how": how, "where": "reset", "after": 1}
    kwargs["max_decorrelation_steps"] = 0
    begin = time.monotonic()
    sampler, _ = start(CpuSampler, 2, EnvCls=LateFault, env_kwargs=faults, **kwargs)

    def run():
        for itr in range(2):
            sampler.obtain_samples(itr)

    with pytest.raises(WorkerError):
        run()
    assert time.monotonic() - begin < AT_ONCE
    sampler.shutdown()


class Unclosable(FaultyEnv):
    def close(self):
        if parent_process() is not None:  # In a worker.
            hang_here()


def test_an_environment_that_hangs_when_it_is_closed_after_its_fault(monkeypatch):
    # Its error was reported only after it was closed, that is, never.
    for module in (child, supervisor):
        monkeypatch.setattr(module, "TERMINATE_S", 0.5)

    def run():
        start_faulty(CpuSampler, "raise", EnvCls=Unclosable).obtain_samples(0)

    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"busy with environment 3, failed and hangs") as info:
        run()
    assert time.monotonic() - begin < AT_ONCE
    assert "KeyError: 'the error of the environment'" in str(info.value)


def test_an_environment_that_hangs_when_it_is_closed(monkeypatch):
    monkeypatch.setattr(Supervisor.join, "__defaults__", (1.0,))
    sampler, _ = start(CpuSampler, EnvCls=Unclosable)
    sampler.obtain_samples(0)
    begin = time.monotonic()
    sampler.shutdown()
    assert time.monotonic() - begin < AT_ONCE


class HelpedEnv(DiceEnv):
    """Starts two processes in every reset; ends one at once, and the other at the next reset."""

    helper = None

    def __init__(self, pids):
        super().__init__()
        self.pids = pids

    def reset(self):
        for _ in range(2):
            self.close()
            self.helper = multiprocessing.get_context("fork").Process(target=hang_here)
            self.helper.start()
            with open(self.pids, "a") as file:
                file.write(f"{self.helper.pid}\n")
        return super().reset()

    def close(self):
        if self.helper is not None:
            self.helper.terminate()
            self.helper.join()
            self.helper = None


@pytest.mark.parametrize("SamplerCls", [CpuSampler, *[GpuSampler] * FULL])
def test_environments_may_start_processes(SamplerCls, tmp_path):
    """They could not be terminated, and that of the example step was left behind."""
    pids = tmp_path / "pids"
    kwargs = {"EnvCls": HelpedEnv, "env_kwargs": {"pids": pids}, "worker_timeout_s": 20.0}
    sampler, _ = start(SamplerCls, **kwargs, example_subprocess=True)
    sampler.obtain_samples(0)
    sampler.shutdown()
    helpers = [int(pid) for pid in pids.read_text().split()]
    assert len(helpers) > 10
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in helpers))


@pytest.mark.parametrize("SamplerCls", [GpuSampler, *[CpuSampler] * FULL])
def test_a_worker_killed_between_batches(SamplerCls):
    sampler, _ = start(SamplerCls)
    sampler.obtain_samples(0)
    os.kill(sampler.workers[1].pid, signal.SIGKILL)
    sampler.workers[1].join()
    with pytest.raises(WorkerError, match="worker 1 .* was ended by SIGKILL"):
        sampler.obtain_samples(1)
    sampler.shutdown()


@pytest.mark.full
def test_a_long_pause_of_the_sampler_is_no_silence_of_the_workers():
    sampler, _ = start(CpuSampler, worker_timeout_s=1.5)
    sampler.obtain_samples(0)
    time.sleep(2.0)
    sampler.obtain_samples(1)
    sampler.shutdown()


class SlowEnv(FaultyEnv):
    def step(self, action):
        time.sleep(0.1)
        return super().step(action)


def test_a_long_batch_of_short_steps_is_no_silence():
    sampler, _ = start(CpuSampler, EnvCls=SlowEnv, worker_timeout_s=1.0, max_decorrelation_steps=0)
    sampler.obtain_samples(0)  # 7 * 2 * 0.1 s.
    sampler.shutdown()

"""Algorithms, agents and samplers for asynchronous runs that take a second."""

import signal
import time
from pathlib import Path

import numpy as np
import psutil
import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import TMaze
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.callbacks import Callback
from rlpyt.samplers.async_.alternating_sampler import (
    AsyncAlternatingSampler,
    AsyncNoOverlapAlternatingSampler,
)
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from tests.learning.aiming import Aiming

SAMPLERS = {
    "serial": AsyncSerialSampler,
    "cpu": AsyncCpuSampler,
    "served": AsyncGpuSampler,
    "alternating": AsyncAlternatingSampler,
    "no_overlap": AsyncNoOverlapAlternatingSampler,
}
WORKERS = {"workers_cpus": [None, None], "set_affinity": False}
SETTINGS = {"min_steps_learn": 64, "replay_size": 1000, "replay_ratio": 2}
SMALL = {"model_kwargs": {"hidden_sizes": [8]}}
ACTOR_CRITIC = {**SMALL, "q_model_kwargs": {"hidden_sizes": [8]}}
LSTM = {"model_kwargs": {"hidden_sizes": [8], "lstm_size": 8}}


def make_aiming():
    return GymEnvWrapper(Aiming())


def make_sampler(kind="serial", EnvCls=TMaze, batch_T=4, batch_B=4, **kwargs):
    kwargs = {"max_decorrelation_steps": 0, "env_kwargs": {}, **kwargs}
    sampler = SAMPLERS[kind](EnvCls=EnvCls, batch_T=batch_T, batch_B=batch_B, **kwargs)
    sampler.example_subprocess = False
    return sampler


def make_runner(
    kind="serial",
    algo=None,
    RunnerCls=AsyncRl,
    n_optimizers=1,
    sampler_affinity=None,
    sampler_kwargs=None,
    **kwargs,
):
    """Batches of 4 x 4 = 16 steps: 20 of them, of which the first 4 are not trained on."""
    algo = algo or DQN(batch_size=16, **SETTINGS)
    affinity = {
        "optimizer": [{"torch_threads": 1} for _ in range(n_optimizers)],
        "sampler": WORKERS if sampler_affinity is None else sampler_affinity,
    }
    kwargs = {
        "agent": MlpDqnAgent(**SMALL),
        "n_steps": 320,
        "log_interval_steps": 80,
        "seed": 3,
        **kwargs,
    }
    sampler = make_sampler(kind, **(sampler_kwargs or {}))
    return RunnerCls(algo=algo, sampler=sampler, affinity=affinity, **kwargs)


def values(rows, key):
    return [float(row["Diagnostics/" + key]) for row in rows]


# --- What is watched ------------------------------------------------------------------------------


class AtIteration(Callback):
    """Does something at one iteration of the optimizer."""

    def __init__(self, itr, act):
        self.itr, self.act = itr, act

    def on_itr(self, runner, itr, traj_infos, opt_info):
        if itr == self.itr:
            self.act(runner)


def member(runner, label):
    """The process of the run whose label starts like this."""
    (found,) = (m for m in runner.supervisor.children if m.label.startswith(label))
    return psutil.Process(found.process.pid)


def kill(process):
    process.send_signal(signal.SIGKILL)


def descendants():
    """All processes that were started by this one, and by those."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


def no_process_is_left(pids, within_s=40.0):
    """Whether none of these processes is alive any more, but maybe waits to be collected."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(_is_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def shared_memory_of(pids):
    """Names of shared memory that these processes have left; semaphores have none by fork."""
    names = [path.name for path in Path("/dev/shm").glob("*")]
    return [name for name in names for pid in pids if f"_{pid}_" in name or f"-{pid}-" in name]


class SlowTMaze(TMaze):
    """Slow enough for a loop to begin before the sampler has come to its end."""

    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


class RecordingDQN(DQN):
    """Writes into ``directory`` what each optimizer draws, and what becomes of its parameters."""

    directory = ""

    def sample_from_replay(self):
        samples = super().sample_from_replay()
        self._drawn = np.asarray(samples.return_).round(4).tolist()
        return samples

    def _apply_optimization(self, samples, opt_info):
        super()._apply_optimization(samples, opt_info)
        assert self.agent._mode == "train"
        total = sum(p.double().sum().item() for p in self.agent.parameters())
        with open(Path(self.directory) / f"rank_{self.rank}", "a") as file:
            file.write(f"{total!r}|{self._drawn}\n")


class BiasedDQN(DQN):
    """Instead of learning, makes the first action the preferred one."""

    def _apply_optimization(self, samples, opt_info):
        with torch.no_grad():
            list(self.agent.parameters())[-1].copy_(torch.tensor([1000.0, 0.0, 0.0]))
        self.update_counter += 1

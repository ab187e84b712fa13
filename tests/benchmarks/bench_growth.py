"""How time and memory grow with environments, workers, the replay buffer and parameters.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_growth.py [--json FILE] [--only WORD]

Times are CPU times of all processes, in microseconds: the smallest over rounds, since everything
else on a machine only adds to it. The exponent p of ``time ~ size^p`` is the slope between the
middle and the largest size, on logarithmic scales: 0 is constant, 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import psutil
import torch

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.core.records import BatchSpec, SamplesToBuffer
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.processes.allocator import tune_allocator
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import set_seed

ROUNDS = 5
N_OBSERVED, N_ACTIONS = 17, 6  # As HalfCheetah.


class Table(NamedTuple):
    """Figures of one kind of growth."""

    name: str
    unit: str
    sizes: list[int]
    figures: list[float]

    @property
    def exponent(self) -> float:
        """Slope between the middle and the largest size, on logarithmic scales."""
        middle = len(self.sizes) // 2
        ratio = self.figures[-1] / self.figures[middle]
        return math.log(ratio) / math.log(self.sizes[-1] / self.sizes[middle])


class Quick(gymnasium.Env[Any, Any]):
    """Environment that does nothing, for the time around its steps; or sleeps, as a robot would."""

    observation_space = gymnasium.spaces.Box(-1, 1, (N_OBSERVED,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (N_ACTIONS,), np.float32)

    def __init__(self, sleep_s: float = 0.0) -> None:
        self.sleep_s = sleep_s
        self.observation = np.zeros(N_OBSERVED, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation, {}

    def step(self, action: Any) -> Any:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        return self.observation, 0.0, False, False, {}


def make_quick(**kwargs: Any) -> Any:
    return GymEnvWrapper(Quick(**kwargs))


def cpu_seconds() -> float:
    """Return the CPU time of this process and its living children."""
    me = psutil.Process()
    times = [p.cpu_times() for p in (me, *me.children(recursive=True))]
    return time.process_time() + sum(t.user + t.system for t in times[1:])


def smallest_us(function: Callable[[], object], n: int) -> float:
    """Return the CPU time of one call, in microseconds: the smallest of several rounds."""
    function()
    rounds = []
    for _ in range(ROUNDS):
        start = cpu_seconds()
        for _ in range(n):
            function()
        rounds.append(1e6 * (cpu_seconds() - start) / n)
    return min(rounds)


@contextmanager
def started(SamplerCls: Any, B: int, n_workers: int = 0, **env_kwargs: Any) -> Iterator[Any]:
    """Start a sampler over ``B`` quick environments, with batches of 20 time steps."""
    sampler = SamplerCls(
        EnvCls=make_quick, env_kwargs=env_kwargs, batch_T=20, batch_B=B, max_decorrelation_steps=0
    )
    agent = MujocoFfAgent()
    affinity = {"workers_cpus": n_workers} if n_workers else None
    sampler.initialize(agent, affinity=affinity, seed=0)
    agent.sample_mode(0)
    yield sampler
    sampler.shutdown()


def of_environments() -> Iterator[Table]:
    """Time of an environment's step with more of them, in one process and with two workers."""
    sizes = [1, 4, 16, 64, 256]
    for name, SamplerCls, n in (("serial", SerialSampler, 0), ("CPU", CpuSampler, 2)):
        figures = []
        for B in sizes[1 if n else 0 :]:
            with started(SamplerCls, B, n) as sampler:
                n_batches = max(2, 200 // B)
                us = smallest_us(partial(sampler.obtain_samples, 0), n_batches)
                figures.append(us / 20)
        yield Table(
            f"time step, environments, {name} sampler", "us", sizes[-len(figures) :], figures
        )


def of_workers() -> Iterator[Table]:
    """Time and memory of a time step of 16 environments with more workers."""
    sizes = [1, 2, 4, 8, 16]
    for name, SamplerCls in (("CPU", CpuSampler), ("GPU", GpuSampler)):
        figures, memory = [], []
        for n_workers in sizes:
            with started(SamplerCls, 16, n_workers, sleep_s=0.001) as sampler:
                figures.append(smallest_us(partial(sampler.obtain_samples, 0), 5) / 20)
                children = psutil.Process().children(recursive=True)
                memory.append(sum(p.memory_full_info().uss for p in children) / 2**20)
        yield Table(f"time step, workers, {name} sampler", "us", sizes, figures)
        yield Table(f"memory of all workers, {name} sampler", "MiB", sizes, memory)


def of_replay() -> Iterator[Table]:
    """Time to store 16 steps and draw 256, and memory, with larger replay buffers."""
    sizes = [10_000, 100_000, 1_000_000, 10_000_000]
    samples = SamplesToBuffer(
        observation=torch.rand(1, 16, N_OBSERVED),
        action=torch.rand(1, 16, N_ACTIONS),
        reward=torch.rand(1, 16),
        done=torch.zeros(1, 16, dtype=torch.bool),
    )
    for name, BufferCls in (
        ("uniform", UniformReplayBuffer),
        ("prioritized", PrioritizedReplayBuffer),
    ):
        figures, memory = [], []
        for size in sizes:
            before = psutil.Process().memory_info().rss
            buffer: Any = BufferCls(example=samples[0, 0], size=size, B=16)
            rows = min(4096, size // 16)
            long = SamplesToBuffer(*(x.expand(rows, *x.shape[1:]).contiguous() for x in samples))
            for _ in range(-(-size // (16 * rows))):
                buffer.append_samples(long)
            memory.append((psutil.Process().memory_info().rss - before) / 2**20)

            def store_and_draw(buffer: Any = buffer) -> None:
                buffer.append_samples(samples)
                drawn = buffer.sample_batch(256)
                if "is_weights" in drawn._fields:
                    buffer.update_batch_priorities(torch.rand(256))

            figures.append(smallest_us(store_and_draw, 200))
            del buffer, store_and_draw
        yield Table(f"store 16 steps, draw 256, {name} replay", "us", sizes, figures)
        yield Table(f"memory, {name} replay", "MiB", sizes, memory)


def of_parameters() -> Iterator[Table]:
    """Time of an update of SAC, and of sending parameters to the sampler, with wider networks."""
    widths = [64, 128, 256, 512, 1024]
    updates, copies, numbers = [], [], []
    for width in widths:
        sizes = {"hidden_sizes": [width, width]}
        agent = SacAgent(model_kwargs=sizes, q_model_kwargs=sizes)
        sampler = SerialSampler(
            EnvCls=make_quick, env_kwargs={}, batch_T=1, batch_B=1, max_decorrelation_steps=0
        )
        examples = sampler.initialize(agent, seed=0)
        algo = SAC(batch_size=64, min_steps_learn=64, replay_size=1000, replay_ratio=64)
        algo.initialize(agent, 1000, BatchSpec(1, 1), True, examples)
        for itr in range(70):
            samples, _ = sampler.obtain_samples(itr)
            algo.optimize_agent(itr, samples)
        numbers.append(sum(p.numel() for p in agent.model.parameters()))
        updates.append(smallest_us(partial(algo.optimize_agent, 999, samples), 5))
        copies.append(smallest_us(partial(agent.update_target, 0.005), 20))
        sampler.shutdown()
    yield Table("update of SAC, batch 64, parameters of the policy", "us", numbers, updates)
    yield Table("move of SAC's target networks, parameters", "us", numbers, copies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--only", default="", help="part of the name of a group")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tune_allocator()
    set_seed(0)
    logger.disable()
    tables = []
    for group in (of_environments, of_workers, of_replay, of_parameters):
        for table in group() if args.only in group.__name__ else ():
            tables.append(table)
            row = "  ".join(f"{size:,}: {x:.4g}" for size, x in zip(table.sizes, table.figures))
            print(f"{table.name} ({table.unit}): {row}; exponent {table.exponent:.2f}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump([{**t._asdict(), "exponent": t.exponent} for t in tables], file, indent=1)


if __name__ == "__main__":
    main()

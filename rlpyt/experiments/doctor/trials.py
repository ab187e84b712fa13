"""Candidates, and short measurements in separate processes, which always end with this one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import psutil
import torch

from rlpyt.core.masks import random_action
from rlpyt.experiments.catalog import targets
from rlpyt.experiments.program import Call, runner_call
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.processes.supervisor import Supervisor
from rlpyt.runners.base import prepare_process
from rlpyt.samplers.vector.sampler import FirstEnv
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import set_seed

# Iteration to act and learn in: past every schedule of exploration and the start of learning.
LATE_ITR = 10**9
# Steps in a replay buffer before updates are measured, at most: in all, and of each environment.
_FILL_STEPS, _FILL_STEPS_PER_ENV = 2000, 256


class Candidate(NamedTuple):
    """Settings that affect the sampling speed of a run."""

    sampler: str
    workers: int  # 0 in samplers without
    batch_T: int
    batch_B: int
    threads: int = 1  # of torch in the process that learns
    gpu: int | None = None

    def words(self) -> dict[str, str]:
        """Return the settings as ``rlpyt train`` takes them, by section and name."""
        values = {
            "sampler": self.sampler,
            "sampler.batch_T": self.batch_T,
            "sampler.batch_B": self.batch_B,
            "affinity.workers": self.workers or None,
            "affinity.threads": self.threads,
            "affinity.gpus": self.gpu,
        }
        return {name: f"{name}={x}" for name, x in values.items() if x is not None}

    def describe(self) -> str:
        """Return the settings in a few words."""
        workers = f" with {self.workers} workers" if self.workers else ""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        device = threads if self.gpu is None else f"GPU {self.gpu}"
        return f"{self.sampler}{workers}, batch_B={self.batch_B}, {device}"

    def row(self) -> dict[str, Any]:
        """Return the settings as a row of a table."""
        row = {**self._asdict(), "workers": self.workers or ""}
        return row | {"threads": self.threads if row.pop("gpu") is None else "GPU"}


class StepTime(NamedTuple):
    """Time of one environment step, in seconds, and memory of an environment, in bytes."""

    seconds: float
    memory: int


def step_time(config: Config, seconds: float) -> StepTime:
    """Step one environment with random actions; with the vector sampler, a vector of one."""
    before = psutil.Process().memory_full_info().uss
    call = Call(targets(config)["env"], config["env"])
    is_vector = config["roles"].get("sampler") == "vector"
    env = FirstEnv(call.make(num_envs=1)) if is_vector else call.make()
    try:
        observation = env.reset()
        memory = psutil.Process().memory_full_info().uss - before
        n_steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds or n_steps < 2:
            step = env.step(random_action(env.action_space, observation))
            observation = env.reset() if step.done else step.observation
            n_steps += 1
        return StepTime((time.perf_counter() - begin) / n_steps, memory)
    finally:
        env.close()


class RunTime(NamedTuple):
    """Time of an environment step in a run, in seconds."""

    sampling: float
    optimizing: float  # 0 if it only samples


class Trial:
    """Run in a separate process, which samples and trains for some seconds when it is told to.

    With ``batch_T``, the length of its batches, it only samples.
    """

    def __init__(self, config: Config, batch_T: int | None = None) -> None:
        self._supervisor = Supervisor()
        self._pipe, pipe = self._supervisor.context.Pipe()
        self._supervisor.files.enter_context(self._pipe)
        self._is_busy = True
        kwargs = {"config": config, "batch_T": batch_T, "pipe": pipe}
        self._supervisor.start(_serve, kwargs, "candidate")
        pipe.close()

    def close(self) -> None:
        """End the process, and all processes that it started."""
        if not (self._is_busy or self._supervisor.is_over):
            with suppress(BrokenPipeError):
                self._pipe.send(None)
            self._supervisor.join()
        self._supervisor.terminate()

    def measure(self, seconds: float, limit_s: float) -> RunTime:
        """Let it iterate for some seconds, at least once; wait for the result up to a limit.

        Raises:
            WorkerError: if the process failed or died; with its traceback.
            TimeoutError: if it takes longer than the limit.
        """
        self._is_busy, end = True, time.monotonic() + limit_s
        with suppress(BrokenPipeError):  # The result will be the error.
            self._pipe.send(seconds)

        def is_there(block: bool, timeout: float | None) -> bool:
            return bool(self._pipe.poll(timeout)) or time.monotonic() > end

        self._supervisor.wait_for(is_there)
        if not self._pipe.poll():
            raise TimeoutError(f"took over {limit_s:.0f} s: give a larger --seconds")
        try:
            times = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._supervisor.children[0].error() from None
        self._is_busy = False
        return RunTime(*times)


def _serve(config: Config, batch_T: int | None, pipe: Any) -> None:
    """Iterate for the seconds that come through the pipe, until None comes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        os.dup2(nowhere, output)
    logger.disable()
    with _training(config) if batch_T is None else _sampling(config, batch_T) as (iterate, size):
        while (seconds := pipe.recv()) is not None:
            times: list[RunTime] = []
            while sum(map(sum, times)) < seconds or not times:
                times.append(iterate())
            pipe.send([sum(part) / (len(times) * size) for part in zip(*times)])


# A function that runs one iteration and returns its times, and the steps of an iteration.
Iteration = tuple[Callable[[], RunTime], int]


@contextmanager
def _sampling(config: Config, batch_T: int) -> Iterator[Iteration]:
    """Sample as a run does, without learning."""
    config = {**config, "sampler": {**config["sampler"], "batch_T": batch_T}}
    runner = runner_call(config, seed=0).make()
    agent, sampler = runner.agent, runner.sampler

    def iterate() -> RunTime:
        begin = time.perf_counter()
        agent.sample_mode(LATE_ITR)
        sampler.obtain_samples(LATE_ITR)
        return RunTime(time.perf_counter() - begin, 0.0)

    try:
        prepare_process(runner.affinity)
        set_seed(0)
        sampler.initialize(
            agent=agent,
            affinity=runner.affinity,
            seed=1,
            bootstrap_value=runner.algo.bootstrap_value,
            traj_info_kwargs=runner.get_traj_info_kwargs(),
        )
        agent.to_device(runner.affinity.get("cuda_idx"))
        yield iterate, sampler.batch_size
    finally:
        sampler.shutdown()


@contextmanager
def _training(config: Config) -> Iterator[Iteration]:
    """Sample and learn as a run does."""
    runner = runner_call(config, seed=0).make()
    agent, algo, sampler = runner.agent, runner.algo, runner.sampler
    itr = 0

    def iterate() -> RunTime:
        nonlocal itr
        begin = time.perf_counter()
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        middle = time.perf_counter()
        algo.optimize_agent(itr, samples)
        if agent.device.type == "cuda":
            torch.cuda.synchronize(agent.device)
        itr += 1
        return RunTime(middle - begin, time.perf_counter() - middle)

    try:
        runner.startup()
        samples, _ = sampler.obtain_samples(0)
        itr = algo.min_itr_learn
        if itr > 0:  # Before that, samples are only stored.
            n_steps = max(_FILL_STEPS, _FILL_STEPS_PER_ENV * sampler.batch_spec.B)
            for _ in range(min(itr, -(-n_steps // sampler.batch_size))):
                algo.optimize_agent(0, samples)
        yield iterate, sampler.batch_size
    finally:
        runner.shutdown()

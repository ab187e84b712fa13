"""Candidates, and short measurements in separate processes, which always end with this one.

A measurement is a generator. It first yields None, when ready. Each duration in seconds then sent
to it yields one result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
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

Measurement = Generator[Any, float, None]


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
        values: dict[str, Any] = {
            "sampler": self.sampler,
            "sampler.batch_T": self.batch_T,
            "sampler.batch_B": self.batch_B,
        }
        if self.workers:
            values["affinity.workers"] = self.workers
        values["affinity.threads"] = self.threads
        if self.gpu is not None:
            values["affinity.gpus"] = self.gpu
        return {name: f"{name}={value}" for name, value in values.items()}

    def describe(self) -> str:
        """Return the settings in a few words."""
        workers = f" with {self.workers} workers" if self.workers else ""
        device = f"{self.threads} threads" if self.gpu is None else f"GPU {self.gpu}"
        device = "1 thread" if device == "1 threads" else device
        return f"{self.sampler}{workers}, batch_B={self.batch_B}, {device}"

    def row(self) -> dict[str, Any]:
        """Return the settings as a row of a table."""
        row = {"sampler": self.sampler, "workers": self.workers or ""}
        row.update(batch_T=self.batch_T, batch_B=self.batch_B)
        return {**row, "threads": self.threads if self.gpu is None else "GPU"}


class Trial:
    """Measurement in a separate process, started by the constructor.

    Args:
        measurement: generator function.
        args: arguments of the function.
    """

    def __init__(self, measurement: Callable[..., Measurement], *args: Any) -> None:
        self._name = measurement.__name__
        self._supervisor = Supervisor()
        self._pipe, pipe = self._supervisor.context.Pipe()
        self._supervisor.files.enter_context(self._pipe)
        self._is_busy = True
        kwargs = {"measurement": measurement, "args": args, "pipe": pipe}
        self._supervisor.start(_serve, kwargs, self._name)
        pipe.close()

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def begin(self, seconds: float) -> None:
        """Begin to measure for some seconds; :meth:`result` returns the result."""
        self._is_busy = True
        with suppress(BrokenPipeError):  # The result will be the error.
            self._pipe.send(seconds)

    def result(self, limit_s: float) -> Any:
        """Return the result; the first result is None, when the measurement is ready.

        Args:
            limit_s: seconds to wait for it.

        Raises:
            WorkerError: if the process failed or died; with its traceback.
            TimeoutError: if it takes longer than the limit.
        """
        end = time.monotonic() + limit_s

        def is_there(block: bool, timeout: float | None) -> bool:
            return bool(self._pipe.poll(timeout)) or time.monotonic() > end

        self._supervisor.wait_for(is_there)
        if not self._pipe.poll():
            raise TimeoutError(f"{self._name} took over {limit_s:.0f} s")
        try:
            result = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._supervisor.children[0].error() from None
        self._is_busy = False
        return result

    def measure(self, seconds: float, limit_s: float) -> Any:
        """Measure for some seconds, and return the result, as :meth:`result` does."""
        self.begin(seconds)
        return self.result(limit_s)

    def close(self) -> None:
        """End the process, and all processes that it started."""
        if not (self._is_busy or self._supervisor.is_over):
            with suppress(BrokenPipeError):
                self._pipe.send(None)
            self._supervisor.join()
        self._supervisor.terminate()


def _serve(measurement: Callable[..., Measurement], args: Sequence[Any], pipe: Any) -> None:
    """Measure for the seconds that come through the pipe, until None comes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        os.dup2(nowhere, output)
    logger.disable()
    measuring = measurement(*args)
    try:
        pipe.send(next(measuring))
        while (seconds := pipe.recv()) is not None:
            pipe.send(measuring.send(seconds))
    finally:
        measuring.close()


# --- The environment -----------------------------------------------------------------------------


class StepTime(NamedTuple):
    """Time of one environment step, in seconds, and memory of its process, in bytes."""

    seconds: float
    memory: int


def stepping(config: Config) -> Measurement:
    """Step one environment with random actions; results are of type :class:`StepTime`."""
    before = psutil.Process().memory_full_info().uss
    env = _environment(config)
    observation = env.reset()
    memory = psutil.Process().memory_full_info().uss - before
    result = None
    try:
        while True:
            seconds = yield result
            n_steps, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < seconds or n_steps < 2:
                step = env.step(random_action(env.action_space, observation))
                observation = env.reset() if step.done else step.observation
                n_steps += 1
            result = StepTime((time.perf_counter() - begin) / n_steps, memory)
    finally:
        env.close()


def _environment(config: Config) -> Any:
    """Make an environment; with the vector sampler, a vector of one."""
    call = Call(targets(config)["env"], config["env"])
    if config["roles"].get("sampler") != "vector":
        return call.make()
    return FirstEnv(Call(call.name, {"num_envs": 1, **call.kwargs}).make())


# --- Whole runs ----------------------------------------------------------------------------------


class RunTime(NamedTuple):
    """Time of an environment step in a run, in seconds."""

    sampling: float
    optimizing: float  # 0 if it only samples


def sampling(config: Config, batch_T: int) -> Measurement:
    """Sample as a run does, without learning; results are of type :class:`RunTime`.

    Args:
        config: checked configuration of a run in one process.
        batch_T: number of time steps in a batch, which may be fewer than in the configuration.
    """
    config = {**config, "sampler": {**config["sampler"], "batch_T": batch_T}}
    runner = runner_call(config, seed=0).make()
    agent, algo, sampler, affinity = runner.agent, runner.algo, runner.sampler, runner.affinity
    try:
        prepare_process(affinity)
        set_seed(0)
        sampler.initialize(
            agent=agent,
            affinity=affinity,
            seed=1,
            bootstrap_value=algo.bootstrap_value,
            traj_info_kwargs=runner.get_traj_info_kwargs(),
        )
        agent.to_device(affinity.get("cuda_idx"))

        def iterate() -> RunTime:
            begin = time.perf_counter()
            agent.sample_mode(LATE_ITR)
            sampler.obtain_samples(LATE_ITR)
            return RunTime(time.perf_counter() - begin, 0.0)

        iterate()
        yield from _repeated(iterate, sampler.batch_size)
    finally:
        sampler.shutdown()


def training(config: Config) -> Measurement:
    """Sample and learn as a run does; results are of type :class:`RunTime`."""
    runner = runner_call(config, seed=0).make()
    agent, algo, sampler = runner.agent, runner.algo, runner.sampler
    try:
        runner.startup()
        samples, _ = sampler.obtain_samples(0)
        if algo.min_itr_learn > 0:  # Before that, samples are only stored.
            n_steps = max(_FILL_STEPS, _FILL_STEPS_PER_ENV * sampler.batch_spec.B)
            for _ in range(min(algo.min_itr_learn, -(-n_steps // sampler.batch_size))):
                algo.optimize_agent(0, samples)
        itr = algo.min_itr_learn

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

        iterate()
        yield from _repeated(iterate, sampler.batch_size)
    finally:
        runner.shutdown()


def _repeated(iterate: Callable[[], RunTime], batch_size: int) -> Measurement:
    """Receive seconds, iterate for that time (at least once), and yield the time of a step."""
    result = None
    while True:
        seconds = yield result
        times: list[RunTime] = []
        while sum(map(sum, times)) < seconds:
            times.append(iterate())
        n_steps = len(times) * batch_size
        result = RunTime(*(sum(part) / n_steps for part in zip(*times)))

"""Short measurements in separate processes, which always end with this one.

A measurement is a generator. It first yields None, when ready. Each duration in seconds then sent
to it yields one result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from rlpyt.core.masks import random_action
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs
from rlpyt.experiments.catalog import targets
from rlpyt.experiments.program import Call, agent_call, runner_call
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.processes.supervisor import Supervisor
from rlpyt.runners.base import prepare_process
from rlpyt.samplers.buffer import null_inputs
from rlpyt.samplers.vector.sampler import FirstOf
from rlpyt.utils.buffer import buffer_to, torchify_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import set_seed

# Iteration to act and learn in: past every schedule of exploration and the start of learning.
LATE_ITR = 10**9
# Steps in a replay buffer before updates are measured, at most: in all, and of each environment.
_FILL_STEPS, _FILL_STEPS_PER_ENV = 2000, 256

Measurement = Generator[Any, float, None]


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


# --- Parts of a run ------------------------------------------------------------------------------


class StepTime(NamedTuple):
    """Time of one environment step, in seconds, and memory of its process, in bytes."""

    running: float  # computing, or waiting for a CPU
    sleeping: float  # waiting for anything else
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
            n_steps, queued = 0, _queued()
            begin, cpu_begin = time.perf_counter(), time.process_time()
            while time.perf_counter() - begin < seconds or n_steps < 2:
                step = env.step(random_action(env.action_space, observation))
                observation = env.reset() if step.done else step.observation
                n_steps += 1
            wall, cpu = time.perf_counter() - begin, time.process_time() - cpu_begin
            sleeping = max(0.0, wall - cpu - (_queued() - queued))
            result = StepTime((wall - sleeping) / n_steps, sleeping / n_steps, memory)
    finally:
        env.close()


def _environment(config: Config) -> Any:
    """Make an environment; with the vector sampler, a vector of one."""
    call = Call(targets(config)["env"], config["env"])
    if config["roles"].get("sampler") != "vector":
        return call.make()
    return FirstOf(Call(call.name, {"num_envs": 1, **call.kwargs}).make())


def _queued() -> float:
    """Return the run-queue wait of this thread in seconds; 0 if the system does not report it."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0


class ActTime(NamedTuple):
    """Time of one agent step for a batch, in seconds."""

    total: float
    transfer: float  # of the observations to the GPU


def acting(
    config: Config, sizes: Sequence[int], threads: Sequence[int], gpu: int | None = None
) -> Measurement:
    """Let the agent act on batches.

    Results are dictionaries of :class:`ActTime` by device and size of the batch: the device is a
    number of threads, or "gpu".

    Args:
        config: checked configuration, of a sampler in one process.
        sizes: numbers of environments.
        threads: numbers of torch threads.
        gpu: index of a GPU to measure too.
    """
    env = _environment(config)
    example = env.reset()
    result: dict[tuple[int | str, int], ActTime] | None = None
    try:
        while True:
            seconds = yield result
            result = {}
            for size in sizes:
                agent = agent_call(config).make()
                agent.initialize(env.spaces, global_B=size, env_ranks=list(range(size)))
                agent.sample_mode(LATE_ITR)
                inputs = null_inputs(example, size, env.action_space)
                inputs.observation[:] = example
                for n_threads in threads:
                    torch.set_num_threads(n_threads)
                    result[n_threads, size] = _act(agent, torchify_buffer(inputs), seconds)
                if gpu is not None:
                    agent.to_device(gpu)
                    result["gpu", size] = _act(agent, torchify_buffer(inputs), seconds)
    finally:
        env.close()


def _act(agent: AgentLike, inputs: AgentInputs, seconds: float) -> ActTime:
    def transfer() -> None:
        buffer_to(inputs.observation, agent.device)
        _wait_for(agent)

    total = _mean_time(lambda: agent.step(*inputs), seconds)
    return ActTime(total, 0.0 if agent.device.type == "cpu" else _mean_time(transfer, seconds / 4))


def _mean_time(work: Callable[[], Any], seconds: float) -> float:
    """Return the mean time of a call, in seconds, after two calls to warm up."""
    work(), work()
    n_calls, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds or n_calls < 2:
        work()
        n_calls += 1
    return (now - begin) / n_calls


def _wait_for(agent: AgentLike) -> None:
    """Wait until the GPU, if there is one, has finished its work."""
    if agent.device.type == "cuda":
        torch.cuda.synchronize(agent.device)


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
            _wait_for(agent)
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

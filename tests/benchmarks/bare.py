"""Environments and networks with nothing around them, of which the floors consist."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import ale_py
import gymnasium
import numpy as np
import torch

from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging import logger

FRAME_SKIP, IMAGE, N_OBSERVED, N_ACTIONS = 4, (4, 104, 80), 17, 6

# How a loop acts, and how it learns from what that returns.
Parts = tuple[Callable[[], Any], Callable[[Any], None]]


class BarePong:
    """A step is one of an agent in the bare emulator: its frames, no screen."""

    def __init__(self, rng: np.random.Generator) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.rng, self.ale = rng, ale_py.ALEInterface()
        self.ale.loadROM(ale_py.roms.get_rom_path("pong"))
        self.actions = self.ale.getMinimalActionSet()

    def step(self) -> None:
        action = self.actions[self.rng.integers(len(self.actions))]
        for _ in range(FRAME_SKIP):
            self.ale.act(action)
        if self.ale.game_over():
            self.ale.reset_game()


class BareCheetah:
    """HalfCheetah as gymnasium makes it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.env = rng, gymnasium.make("HalfCheetah-v5")
        self.env.reset(seed=0)

    def step(self) -> None:
        *_, truncated, _ = self.env.step(self.rng.uniform(-1, 1, N_ACTIONS).astype(np.float32))
        if truncated:
            self.env.reset()


class Actor:
    """Some bare environments, and a network that sees as many random observations.

    Args:
        EnvCls: one of the classes above.
        n_envs: in this process.
        model: an actor-critic for Pong's images or HalfCheetah's vectors.
    """

    def __init__(self, EnvCls: type, n_envs: int, model: torch.nn.Module) -> None:
        self.rng = np.random.default_rng(0)
        self.is_pong = EnvCls is BarePong
        self.envs = [EnvCls(self.rng) for _ in range(n_envs)]
        self.model, self.inputs = model, self.random_inputs(n_envs)

    def random_inputs(self, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of the network: observation, previous action and reward."""
        if self.is_pong:
            observation = torch.from_numpy(self.rng.integers(0, 256, (n, *IMAGE), dtype=np.uint8))
        else:
            observation = torch.randn(n, N_OBSERVED)
        return observation, torch.zeros(n, N_ACTIONS), torch.zeros(n)

    @torch.no_grad()
    def forward(self) -> None:
        """The network's part of one time step."""
        self.model(*self.inputs)

    def step(self) -> None:
        """The environments' part."""
        for env in self.envs:
            env.step()

    def act(self) -> None:
        """One time step."""
        self.forward()
        self.step()


def seconds_per_call(function: Callable[[], object], n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        function()
    return (time.perf_counter() - start) / n


def calls_per_second(function: Callable[[], object], seconds: float, device: torch.device) -> float:
    """Return how often a function can be called; the clock stops when the device is done."""
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        function()
        n += 1
    if device.type == "cuda":
        torch.cuda.synchronize()
    return n / (time.perf_counter() - start)


def seconds_side_by_side(
    make_actors: Sequence[Callable[[], Actor]], part: str, seconds: float
) -> float:
    """Seconds of one call of a method of each actor, every one in a process of its own.

    Args:
        make_actors: called in the processes, which run on one CPU each.
        part: name of the method.
        seconds: to measure.
    """
    context = multiprocessing.get_context("fork")
    queue, barrier = context.Queue(), context.Barrier(len(make_actors))
    processes = [
        context.Process(target=_repeat, args=(make, part, seconds, i, barrier, queue))
        for i, make in enumerate(make_actors)
    ]
    for process in processes:
        process.start()
    slowest: float = max(queue.get() for _ in processes)
    for process in processes:
        process.join()
    return slowest


def _repeat(
    make: Callable[[], Actor], part: str, seconds: float, i: int, barrier: Any, queue: Any
) -> None:
    os.sched_setaffinity(0, [i % (os.cpu_count() or 1)])
    torch.set_num_threads(1)
    work, n = getattr(make(), part), 0
    work()
    barrier.wait()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        work()
        n += 1
    queue.put((time.perf_counter() - start) / n)


class Alternate(Callback):
    """Times the loop in rounds, and its floor between them; ends the run after the last.

    Args:
        make_floor: takes the agent and gives the floor, which has a method ``measure``.
        rounds: number of times that loop and floor are measured.
        itrs_per_round: number of iterations that are timed together.
        warm_up_itrs: number of iterations after the first update that are not timed.
    """

    def __init__(
        self,
        make_floor: Callable[[Any], Any],
        rounds: int,
        itrs_per_round: int,
        warm_up_itrs: int = 0,
    ) -> None:
        self.make_floor = make_floor
        self.rounds, self.itrs_per_round, self.warm_up_itrs = rounds, itrs_per_round, warm_up_itrs
        self.results: list[dict[str, float]] = []

    def on_start(self, runner: Any) -> None:
        self.first_itr = runner.algo.min_itr_learn + self.warm_up_itrs
        self.floor = self.make_floor(runner.agent)

    def on_itr(self, runner: Any, itr: int, traj_infos: object, opt_info: object) -> None:
        n_timed = itr - self.first_itr
        if n_timed < 0 or n_timed % self.itrs_per_round:
            return
        if n_timed:
            seconds = (time.perf_counter() - self.round_start) / self.itrs_per_round
            self.results.append({**self.floor.measure(), "iteration": seconds})
        if len(self.results) == self.rounds:
            runner.stop()
        self.round_start = time.perf_counter()


def trained(runner: Any) -> dict[str, Any]:
    """Train, without a log, until the callback that measures stops the run; the medians."""
    logger.disable()
    runner.train()
    logger.enable()
    (results,) = (c.results for c in runner.callbacks if isinstance(c, Alternate))
    medians = {name: statistics.median(r[name] for r in results) for name in results[0]}
    ratios = [r["floor"] / r["iteration"] for r in results]
    return {
        "seconds": medians,
        "floor_share": statistics.median(ratios),
        "floor_share_min_max": [min(ratios), max(ratios)],
    }

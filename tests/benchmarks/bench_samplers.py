"""How fast each sampler samples, without learning: Pong (AtariFfAgent) and HalfCheetah (MujocoFf).

Run it on a quiet machine; the samplers take turns, so that what disturbs one disturbs all, and each
round gives ratios of its own. On a busy machine the CPU time of all processes together says more:
the ceiling is what it allows, were all CPUs of the machine busy with nothing else:

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_samplers.py --json samplers.json

The floor of each sampler is measured in the same rounds: bare environments and forward passes in as
many processes on as many CPUs, with nothing around them. Two processes at a time are not twice as
fast as one on every machine, and a network takes longer for two batches than for one of twice the
size, so that the floor of a sampler with two workers is less than twice that of the serial one.

``--parts 1 8`` measures instead where a time step of the serial sampler goes, with these numbers of
environments: in the loop itself, since a part that is called in a row finds its code and data in
the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psutil
import torch
from bare import IMAGE, N_ACTIONS, N_OBSERVED, Actor, BareCheetah, BarePong, seconds_side_by_side

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.envs import gym
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.processes.allocator import tune_allocator
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger

N_CPUS = os.cpu_count() or 1


class Workload(NamedTuple):
    """What is sampled."""

    EnvCls: Callable[..., Any]
    env_kwargs: dict[str, Any]
    AgentCls: Callable[[], Any]
    batch_T: int
    batch_B: int


WORKLOADS = {
    "pong": Workload(AtariEnv, {"game": "pong"}, AtariFfAgent, 5, 16),
    "pong_32": Workload(AtariEnv, {"game": "pong"}, AtariFfAgent, 5, 32),
    "cheetah": Workload(gym.make, {"id": "HalfCheetah-v5"}, MujocoFfAgent, 50, 8),
}

# Sampler and number of workers, in the order of the table; the agent acts on the CPU in all.
SAMPLERS = {
    "serial": (SerialSampler, 0),
    "cpu": (CpuSampler, 2),
    "gpu": (GpuSampler, 2),
    "alternating": (AlternatingSampler, 4),
    "no_overlap": (NoOverlapAlternatingSampler, 4),
}


def label(name: str) -> str:
    """Of a sampler, with its number of workers."""
    n_workers = SAMPLERS[name][1]
    return f"{name}, {n_workers} workers" if n_workers else name


def workers_cpus(n_workers: int) -> list[int]:
    """One CPU for each worker, in turn."""
    return [i % N_CPUS for i in range(n_workers)]


def start(workload: Workload, SamplerCls: Any, n_workers: int, TrajInfoCls: Any = TrajInfo) -> Any:
    EnvCls, env_kwargs, AgentCls, batch_T, batch_B = workload
    sampler = SamplerCls(
        EnvCls, env_kwargs, batch_T, batch_B, TrajInfoCls=TrajInfoCls, max_decorrelation_steps=0
    )
    affinity = {"workers_cpus": workers_cpus(n_workers)}
    sampler.initialize(AgentCls(), affinity=affinity, seed=0)
    sampler.obtain_samples(0)
    return sampler


def bare_actor(workload: Workload, n_envs: int) -> Callable[[], Actor]:
    """How to make the bare environments and network of a process."""
    if workload.EnvCls is AtariEnv:
        return lambda: Actor(BarePong, n_envs, AtariFfModel(IMAGE, N_ACTIONS))
    return lambda: Actor(BareCheetah, n_envs, MujocoFfModel((N_OBSERVED,), N_ACTIONS))


def floor_speed(workload: Workload, SamplerCls: Any, n_workers: int, seconds: float) -> float:
    """Steps per second of what no arrangement of code avoids."""
    B, n = workload.batch_B, min(n_workers, N_CPUS)
    if issubclass(SamplerCls, SerialSampler):
        return B / seconds_side_by_side([bare_actor(workload, B)], "act", seconds)
    workers = [bare_actor(workload, B // n)] * n
    if issubclass(SamplerCls, CpuSampler):
        return B / seconds_side_by_side(workers, "act", seconds)
    stepping = seconds_side_by_side(workers, "step", seconds)
    if not SamplerCls.alternating:
        return B / (stepping + seconds_side_by_side([bare_actor(workload, B)], "forward", seconds))
    half = seconds_side_by_side([bare_actor(workload, B // 2)], "forward", seconds)
    return B / (stepping + 2 * half / N_CPUS)  # All CPUs are busy all the time.


class Measured(NamedTuple):
    """Result of sampling for a while."""

    speed: float  # environment steps per second
    cpu_s: float  # CPU seconds per time step of this process
    workers_cpu_s: float  # of all workers
    waits: float  # of this process per time step, as the kernel counts them
    worker_waits: float  # the mean over workers


def usage(sampler: Any) -> tuple[list[float], list[int]]:
    """CPU times of this process and the workers so far, and how often each of them waited."""
    pids = [None, *(worker.pid for worker in getattr(sampler, "workers", ()))]
    processes = [psutil.Process(pid) for pid in pids]
    waits = [process.num_ctx_switches().voluntary for process in processes]
    return [sum(process.cpu_times()[:2]) for process in processes], waits


def measure(sampler: Any, seconds: float) -> Measured:
    n_batches, begin, (cpu_before, before) = 0, time.perf_counter(), usage(sampler)
    while time.perf_counter() - begin < seconds:
        sampler.obtain_samples(1)
        n_batches += 1
    elapsed, (cpu, after) = time.perf_counter() - begin, usage(sampler)
    n_steps, n_times = n_batches * sampler.batch_size, n_batches * sampler.batch_spec.T
    cpu_s, *workers_cpu_s = ((y - x) / n_times for x, y in zip(cpu_before, cpu))
    own, *workers = ((y - x) / n_times for x, y in zip(before, after))
    mean = statistics.mean(workers) if workers else 0
    return Measured(n_steps / elapsed, cpu_s, sum(workers_cpu_s), own, mean)


def compare(names: list[str], workload: Workload, rounds: int, seconds: float) -> dict[str, Any]:
    samplers = {name: start(workload, *SAMPLERS[name]) for name in names}
    results: dict[str, list[Measured]] = {name: [] for name in names}
    floors: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, sampler in samplers.items():
            results[name].append(measure(sampler, seconds))
            floors[name].append(floor_speed(workload, *SAMPLERS[name], seconds / 2))
    for sampler in samplers.values():
        sampler.shutdown()
    first = [x.speed for x in results[names[0]]]
    table = {}
    for name, rows in results.items():
        medians = Measured(*map(statistics.median, zip(*rows)))
        table[name] = {
            "steps_per_second": medians.speed,
            "floor": statistics.median(floors[name]),
            "share": statistics.median(x.speed / f for x, f in zip(rows, floors[name])),
            "ratio": statistics.median(x.speed / serial for x, serial in zip(rows, first)),
            "cpu_us": 1e6 * medians.cpu_s,
            "workers_cpu_us": 1e6 * medians.workers_cpu_s,
            "ceiling": (1 if name == "serial" else N_CPUS)
            * workload.batch_B
            / (medians.cpu_s + medians.workers_cpu_s),
            "waits": medians.waits,
            "worker_waits": medians.worker_waits,
        }
    return table


class Timer:
    """Time that calls of functions take inside the step loop, in one process.

    A call's time is that of its own part: calls of other parts inside it are counted there.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = 0.0  # Of the call that runs.

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        self.seconds[part] = 0.0

        def timed(*args: Any, **kwargs: Any) -> Any:
            outer, self._inner = self._inner, 0.0
            start = time.perf_counter()
            result = function(*args, **kwargs)
            elapsed = time.perf_counter() - start
            self.seconds[part] += elapsed - self._inner
            self._inner = outer + elapsed
            return result

        return timed

    def attach(self, part: str, owner: Any, *names: str) -> None:
        for name in names:
            setattr(owner, name, self.wrap(part, getattr(owner, name)))


class TimedEmulator:
    """The emulator of an Atari game, whose frames are timed."""

    def __init__(self, ale: Any, timer: Timer) -> None:
        self._ale = ale
        self.act = timer.wrap("simulator", ale.act)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)


def time_parts(sampler: Any) -> Timer:
    """Attach a timer to the parts of a serial sampler's loop."""
    timer, loop, agent = Timer(), sampler.collector._loop, sampler.agent
    for env in loop.envs:
        if hasattr(env, "ale"):
            env.ale = TimedEmulator(env.ale, timer)
        else:
            timer.attach("simulator", env.env, "step")
        timer.attach("adapter", env, "step")
    timer.attach("network", agent.model, "forward")
    timer.attach("agent", agent, "step")
    TrajInfoCls: Any = loop.TrajInfoCls
    timer.attach("trajectories", TrajInfoCls, "step")
    timer.attach("batch", sampler.collector._batches[-1], "add_action", "add_step", "add_outcome")
    timer.attach("loop", sampler.collector, "collect_batch")
    return timer


def parts(workload: Workload, B: int, rounds: int, n_steps: int = 200) -> dict[str, float]:
    """Microseconds of a time step of B environments by part, medians of rounds, without learning.

    Timers are part of what they measure: each adds 0.2 us to the part around it.
    """
    TrajInfoCls = type("TimedTrajInfo", (TrajInfo,), {})
    workload = workload._replace(batch_T=n_steps, batch_B=B)
    plain, timed = (start(workload, SerialSampler, 0, TrajInfoCls) for _ in range(2))
    timer = time_parts(timed)
    rows = []
    for _ in range(rounds):
        timer.seconds = dict.fromkeys(timer.seconds, 0.0)
        timed.obtain_samples(1)
        begin = time.perf_counter()
        plain.obtain_samples(1)
        rows.append({**timer.seconds, "whole, without timers": time.perf_counter() - begin})
    return {part: 1e6 * statistics.median(r[part] for r in rows) / n_steps for part in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=SAMPLERS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="per sampler and round")
    parser.add_argument("--threads", type=int, default=1, help="torch threads of the master")
    parser.add_argument("--parts", type=int, nargs="+", help="measure a time step by part")
    parser.add_argument("--json", help="also write the result to this file")
    args = parser.parse_args()
    torch.set_num_threads(1 if args.parts else args.threads)
    tune_allocator()
    logger.disable()
    result: dict[str, Any] = {
        "machine": f"{platform.processor() or platform.machine()}, {N_CPUS} CPUs",
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
    }
    for name in args.workloads:
        workload = WORKLOADS[name]
        if args.parts:
            result[name] = {B: parts(workload, B, args.rounds) for B in args.parts}
            for B, row in result[name].items():
                print(f"\n{name}, serial, B={B}: microseconds of a time step")
                print("\n".join(f"  {part:<24} {value:9.1f}" for part, value in row.items()))
            continue
        result[name] = compare(args.samplers, workload, args.rounds, args.seconds)
        print(f"\n{name}, T={workload.batch_T} B={workload.batch_B}, medians of rounds")
        for sampler, row in result[name].items():
            print(
                f"  {label(sampler):<24} {row['steps_per_second']:8.0f} steps/s {row['ratio']:6.2f}"
                f", floor {row['floor']:7.0f}, {100 * row['share']:4.0f} % of it"
                f", CPU {row['cpu_us']:.0f} us + workers {row['workers_cpu_us']:.0f} us a time step"
                f", ceiling {row['ceiling']:.0f}"
                f", waits {row['waits']:.2f}, of a worker {row['worker_waits']:.2f}"
            )
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()

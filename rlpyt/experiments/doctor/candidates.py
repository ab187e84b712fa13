"""Settings of a sampler, and the work of environment and agent in one of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rlpyt.experiments.doctor.trials import ActTime, StepTime


class Candidate(NamedTuple):
    """Settings that affect the sampling speed of a run."""

    sampler: str
    workers: int  # 0 in samplers without
    batch_T: int
    batch_B: int
    threads: int = 1  # of torch in the process that learns
    gpu: int | None = None
    cpus: tuple[int, ...] = ()  # CPUs that the workers are pinned to

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
        if self.cpus:
            values["affinity.cpus"] = str(list(self.cpus)).replace(" ", "")
        return {name: f"{name}={value}" for name, value in values.items()}

    def describe(self) -> str:
        """Return the settings in a few words."""
        workers = f" with {self.workers} workers" if self.workers else ""
        pinned = f" on CPUs {', '.join(map(str, self.cpus))}" if self.cpus else ""
        device = f"{self.threads} threads" if self.gpu is None else f"GPU {self.gpu}"
        device = "1 thread" if device == "1 threads" else device
        return f"{self.sampler}{workers}{pinned}, batch_B={self.batch_B}, {device}"

    def row(self) -> dict[str, Any]:
        """Return the settings as a row of a table."""
        row = {"sampler": self.sampler, "workers": self.workers or ""}
        row.update(batch_T=self.batch_T, batch_B=self.batch_B)
        return {**row, "threads": self.threads if self.gpu is None else "GPU"}


class StepCost(NamedTuple):
    """Time of an environment step in seconds, divided into its parts."""

    environment: float
    network: float
    transfer: float
    waiting: float
    optimization: float = 0.0


class PartTimes(NamedTuple):
    """Times of environment and agent alone.

    Args:
        step: time of an environment step.
        slowdown: factor of this time while all CPUs are busy with environments.
        act: times of an agent step, by device and number of environments: the device is a
            number of threads, or "gpu".
        n_cpus: number of processes that run at the same time.
    """

    step: StepTime
    slowdown: float
    act: dict[tuple[int | str, int], ActTime]
    n_cpus: int

    def acting(self, candidate: Candidate, size: int) -> ActTime:
        """Return the time of an agent step, interpolated between measured times."""
        device = candidate.threads if candidate.gpu is None else "gpu"
        times = {batch: time for (where, batch), time in self.act.items() if where == device}
        parts = zip(*times.values())
        return ActTime(*(float(np.interp(size, list(times), part)) for part in parts))

    def work(self, candidate: Candidate) -> StepCost:
        """Return the work in an environment step of a sampler, without waiting times."""
        B, at_once = candidate.batch_B, max(1, min(candidate.workers, self.n_cpus))
        running = self.step.running * (self.slowdown if at_once > 1 else 1.0) / at_once
        sleeping = self.step.sleeping / max(1, candidate.workers)
        if candidate.sampler == "cpu":  # Each worker acts for its own environments.
            n = -(-B // candidate.workers)
            return StepCost(running, self.acting(candidate, n).total / n / at_once, 0.0, sleeping)
        total, transfer = self.acting(candidate, B)
        return StepCost(running, (total - transfer) / B, transfer / B, sleeping)

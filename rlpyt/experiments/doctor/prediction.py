"""Speed of a sampler, predicted from that of the environment and of the agent alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rlpyt.experiments.doctor.trials import ActTime, StepTime

# Seconds for which a process that acts waits for its workers in a time step, and more for each.
_MEETING_S, _MEETING_PER_WORKER_S = 40e-6, 30e-6


class Candidate(NamedTuple):
    """Settings of a run that decide how fast it samples."""

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


class Parts(NamedTuple):
    """Time of an environment step in seconds, and whose it is."""

    environment: float
    network: float
    transfer: float
    waiting: float
    optimization: float = 0.0


class PartTimes(NamedTuple):
    """Times of environment and agent alone.

    Args:
        step: time of a step of an environment.
        slowdown: factor by which it takes longer while all CPUs are busy with environments.
        act: times of a step of the agent, by device and number of environments: the device is a
            number of threads, or "gpu".
        n_cpus: number of processes that run at the same time.
    """

    step: StepTime
    slowdown: float
    act: dict[tuple[int | str, int], ActTime]
    n_cpus: int

    def acting(self, candidate: Candidate, size: int) -> ActTime:
        """Return the time of a step of the agent, interpolated between those measured."""
        device = candidate.threads if candidate.gpu is None else "gpu"
        times = {batch: time for (where, batch), time in self.act.items() if where == device}
        parts = zip(*times.values())
        return ActTime(*(float(np.interp(size, list(times), part)) for part in parts))

    def predict(self, candidate: Candidate) -> Parts:
        """Return the time of an environment step of a sampler, composed of that of its parts."""
        running, sleeping, _ = self.step
        B, workers = candidate.batch_B, candidate.workers
        total, transfer = self.acting(candidate, B)
        if not workers:
            return Parts(running, (total - transfer) / B, transfer / B, sleeping)
        each = -(-B // workers)  # environments of a worker
        if candidate.sampler == "cpu":
            act = self.acting(Candidate("cpu", workers, 1, B), each).total
            busy = each * running + act
            slow = self._slow(workers * busy / (busy + each * sleeping))
            return Parts(each * running * slow / B, act * slow / B, 0.0, each * sleeping / B)
        meeting = _MEETING_S + _MEETING_PER_WORKER_S * workers
        slow = self._slow(workers * running / (running + sleeping))
        step, sleep = each * running * slow, each * sleeping
        if candidate.sampler == "gpu":
            return Parts(step / B, (total - transfer) / B, transfer / B, (sleep + meeting) / B)
        # Alternating: one half steps while the agent acts for the other one; the slower hides it.
        slow = self._slow(1 + workers / 2 * running / (running + sleeping))
        act, transfer = (slow * part for part in self.acting(candidate, B // 2))
        if each * (running * slow + sleeping) >= act:
            parts = each * running * slow, 0.0, 0.0, each * sleeping + meeting
        else:
            parts = 0.0, act - transfer, transfer, meeting
        return Parts(*(2 * part / B for part in parts))

    def _slow(self, busy: float) -> float:
        """Return how much longer work takes while so many processes are busy on average."""
        n = self.n_cpus
        if busy > n:
            return self.slowdown * busy / n
        return 1 + (self.slowdown - 1) * max(0.0, busy - 1) / max(1, n - 1)

"""The machine as a process sees it: usable CPUs, limits of its cgroups, memory, GPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import psutil
import torch


class Machine(NamedTuple):
    """CPUs, memory and GPUs that this process may use."""

    cpus: list[int]
    cpu_limit: float | None  # CPUs' worth of time that the cgroup allows
    memory: int  # bytes available now
    n_gpus: int

    @property
    def n_cpus(self) -> int:
        """Number of processes that run at the same time."""
        limit = len(self.cpus) if self.cpu_limit is None else round(self.cpu_limit)
        return max(1, min(len(self.cpus), limit))

    def describe(self) -> str:
        """Return a line about the machine, and a warning if it is busy."""
        limit = "" if self.cpu_limit is None else f", of which the cgroup allows {self.cpu_limit:g}"
        text = (
            f"{len(self.cpus)} CPUs{limit}; {self.memory / 2**30:.1f} GiB of memory free; "
            f"{self.n_gpus or 'no'} GPU{'s' if self.n_gpus > 1 else ''}"
        )
        load = psutil.getloadavg()[0]
        if load > 0.5 * self.n_cpus:
            text += f"\nLoad {load:.1f}: other programs run, and the advice is for what they leave."
        return text


def look_at_machine(root: str | os.PathLike[str] = "/") -> Machine:
    """Return what this process may use.

    Args:
        root: directory that has ``proc`` and ``sys``.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = sorted(os.sched_getaffinity(0)) if has_affinity else list(range(os.cpu_count() or 1))
    cpu_limit, memory_limit = cgroup_limits(Path(root))
    memory = psutil.virtual_memory().available
    if memory_limit is not None:
        memory = min(memory, memory_limit)
    return Machine(cpus, cpu_limit, memory, torch.cuda.device_count())


def cgroup_limits(root: Path) -> tuple[float | None, int | None]:
    """Return the limits of the cgroups of this process: CPUs, and bytes of memory; None for none.

    Args:
        root: directory that has ``proc`` and ``sys``.
    """
    cpus: list[float] = []
    memory: list[int] = []
    file, mount = root / "proc/self/cgroup", root / "sys/fs/cgroup"
    lines = file.read_text().splitlines() if file.exists() else []
    for controllers, path in (line.split(":", 2)[1:] for line in lines):
        names = controllers.split(",")
        for name in names:  # An empty name: version 2.
            group = mount / name / path.strip("/")
            for directory in (group, *group.parents):
                if not directory.is_relative_to(mount / name):
                    break
                quota = _numbers(directory / "cpu.max") or [
                    *_numbers(directory / "cpu.cfs_quota_us"),
                    *_numbers(directory / "cpu.cfs_period_us"),
                ]
                if len(quota) == 2 and quota[0] > 0:
                    cpus.append(quota[0] / quota[1])
                for limit in ("memory.max", "memory.limit_in_bytes"):
                    memory += _numbers(directory / limit)
    return min(cpus, default=None), min(memory, default=None)


def _numbers(file: Path) -> list[int]:
    """Return the numbers in a file; none if it does not exist or says "max"."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []

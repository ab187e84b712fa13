"""The resources that a process may use: CPUs, limits of its cgroups, memory, GPUs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import psutil
import torch


class Machine(NamedTuple):
    """CPUs, memory and GPUs that this process may use."""

    cpus: list[int]
    cpu_limit: float | None  # CPU time that the cgroup allows, in CPUs
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
            text += f"\nLoad {load:.1f}: other programs run; the advice is for the remaining CPUs."
        return text


# Environment variable with the CPUs of a launcher, for the runs that it pins to some of them.
LAUNCHER_CPUS = "RLPYT_CPUS"


def numbered_cpus() -> list[int]:
    """Return the CPUs that an affinity code numbers from 0: those of the launcher, if there is one.

    Otherwise they are the CPUs that this process may use.
    """
    of_launcher = os.environ.get(LAUNCHER_CPUS)
    return look_at_machine().cpus if of_launcher is None else [*map(int, of_launcher.split(","))]


def look_at_machine(root: str | os.PathLike[str] = "/") -> Machine:
    """Return the resources that this process may use.

    Args:
        root: directory that has ``proc`` and ``sys``.
    """
    process, n_cpu = psutil.Process(), psutil.cpu_count() or 1
    cpus = process.cpu_affinity() if hasattr(process, "cpu_affinity") else range(n_cpu)
    cpu_limit, left = cgroup_limits(Path(root))
    memory = psutil.virtual_memory().available
    if left is not None:
        memory = min(memory, left)
    return Machine(sorted(cpus), cpu_limit, memory, torch.cuda.device_count())


def cgroup_limits(root: Path) -> tuple[float | None, int | None]:
    """Return the limits of this process's cgroups: CPUs, and remaining bytes of memory.

    Either is None without a limit.

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
                memory += _memory_left(directory)
    return min(cpus, default=None), min(memory, default=None)


def _memory_left(group: Path) -> list[int]:
    """Return the bytes that a cgroup may still allocate; none without a limit."""
    limit = _numbers(group / "memory.max") or _numbers(group / "memory.limit_in_bytes")
    used = _numbers(group / "memory.current") or _numbers(group / "memory.usage_in_bytes")
    if not (limit and used):
        return limit
    # Cached files are dropped when a process needs memory.
    statistics = group / "memory.stat"
    text = statistics.read_text() if statistics.exists() else ""
    cached = re.findall(r"^(?:total_)?inactive_file (\d+)$", text, re.MULTILINE)
    return [max(0, limit[0] - used[0] + max(map(int, cached), default=0))]


def _numbers(file: Path) -> list[int]:
    """Return the numbers in a file; none if it does not exist or contains "max"."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []

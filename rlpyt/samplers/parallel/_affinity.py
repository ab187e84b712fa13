"""What an affinity says about workers: how many there are, and on which CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.utils.processes.launch import check_cpus


def check_affinity(affinity: Any) -> None:
    """Raise ``ValueError`` unless ``affinity`` says how many workers there are, on usable CPUs."""
    if affinity is not None and not isinstance(affinity, Mapping):
        raise ValueError(
            f"affinity is {affinity!r}: give a dict, as in dict(workers_cpus=[0, 1]); a list of "
            "affinities is for asynchronous sampling only"
        )
    workers_cpus = None if affinity is None else affinity.get("workers_cpus")
    if workers_cpus is None or (isinstance(workers_cpus, Sequence) and not workers_cpus):
        raise ValueError(
            f"the affinity has workers_cpus {workers_cpus}: give a list with the CPU (or list "
            "of CPUs) of each worker, as in dict(workers_cpus=[0, 1]), or the number of workers"
        )
    if _is_pinned(affinity):
        named = {int(cpu) for cpus in workers_cpus for cpu in _as_list(cpus)}
        check_cpus(sorted(named))


def count_workers(affinity: Any) -> int:
    """Number of workers."""
    workers_cpus = affinity["workers_cpus"]
    return workers_cpus if isinstance(workers_cpus, int) else len(workers_cpus)


def cpus_of_worker(affinity: Any, rank: int) -> Any:
    """The CPU of worker ``rank``, or a list of them; None if it may run anywhere."""
    return affinity["workers_cpus"][rank] if _is_pinned(affinity) else None


def _is_pinned(affinity: Any) -> bool:
    return affinity.get("set_affinity", True) and not isinstance(affinity["workers_cpus"], int)


def _as_list(cpus: Any) -> list[Any]:
    if cpus is None:
        return []
    return [cpus] if isinstance(cpus, int) else list(cpus)

"""How the process of a runner is prepared: CPU affinity, threads, allocator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psutil
import torch

from rlpyt.utils.allocator import tune_allocator
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.launch import can_be_pinned, check_cpus, pin_process

# Where the processes of a run find the CPUs they shall use.
_CPUS = ("cpus", "master_cpus", "workers_cpus")


def check_affinity(affinity: Any) -> None:
    """Refuse an affinity which cannot be kept, before anything of a run is started.

    Args:
        affinity: of any runner: one mapping, a list of them, or one with the halves ``optimizer``
            and ``sampler``. Where ``set_affinity`` is False its CPUs are not looked at.

    Raises:
        ValueError: if a CPU does not exist or may not be used; names all of them, where they are
            named, and those which may be used.
    """
    wrong = [
        f"CPU {cpu} in {place}"
        for place, cpus in _named_cpus(affinity, "affinity")
        for cpu in dict.fromkeys(cpus)
        if not _is_usable(cpu)
    ]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: there is no such CPU, or this process may not use it. It may use "
            f"{_usable_cpus()}: name some of them, or pass set_affinity=False"
        )


def _is_usable(cpu: int) -> bool:
    try:
        check_cpus([cpu])
    except ValueError:
        return False
    return True


def _usable_cpus() -> list[int]:
    return [cpu for cpu in range(psutil.cpu_count() or 1) if _is_usable(cpu)]


def _named_cpus(affinity: Any, place: str) -> Iterator[tuple[str, list[int]]]:
    """Every list of CPUs in an affinity, with the path which leads there."""
    if isinstance(affinity, (list, tuple)):
        for i, one in enumerate(affinity):
            yield from _named_cpus(one, f"{place}[{i}]")
        return
    for half in ("optimizer", "sampler"):
        if affinity.get(half) is not None:
            yield from _named_cpus(affinity[half], f"{place}[{half!r}]")
    if not affinity.get("set_affinity", True):
        return
    for key in _CPUS:
        cpus = affinity.get(key)
        if cpus is not None and not (key == "workers_cpus" and isinstance(cpus, int)):
            yield f"{place}[{key!r}]", list(_flat(cpus))


def _flat(cpus: Any) -> Iterator[int]:
    """The CPUs in a number, None, or nested lists of these."""
    if isinstance(cpus, (list, tuple)):
        for part in cpus:
            yield from _flat(part)
    elif cpus is not None:
        yield int(cpus)


def prepare_process(affinity: Mapping[str, Any]) -> None:
    """Set CPU affinity and torch threads as ``affinity`` says, and tune the memory allocator.

    Args:
        affinity: ``master_cpus`` (used unless ``set_affinity`` is False) and
            ``master_torch_threads``, each optional. Without the latter torch gets no more threads
            than there are ``master_cpus``.

    Raises:
        ValueError: as :func:`check_affinity` does.
    """
    check_affinity(affinity)
    cpus = affinity.get("master_cpus")
    threads = affinity.get("master_torch_threads")
    if cpus and affinity.get("set_affinity", True):
        if can_be_pinned():
            pin_process(cpus)
            logger.log(f"Runner master CPU affinity: {sorted(cpus)}.")
        else:
            logger.log("Runner master CPU affinity: not available on this system.")
        threads = min(torch.get_num_threads(), len(set(cpus))) if threads is None else threads
    if threads is not None:
        torch.set_num_threads(int(threads))
    logger.log(f"Runner master Torch threads: {torch.get_num_threads()}.")
    tune_allocator()

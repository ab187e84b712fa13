"""How processes are started, and which CPUs they may use."""

from __future__ import annotations

import ctypes
import multiprocessing as mp
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

START_METHOD_VARIABLE = "RLPYT_START_METHOD"

_PAUSE_HARD = 2  # omp_pause_hard of OpenMP 5.0.

_sharing: ContextVar[str | None] = ContextVar("start method of processes to share with")


def default_start_method() -> str:
    """The start method where nobody asks for one: as the environment says, or else as is usual.

    Processes fork on Linux, which hands them everything without pickling, and are spawned on other
    systems, whose libraries do not survive a fork. Python's own default, which differs between its
    versions, plays no part.
    """
    chosen = os.environ.get(START_METHOD_VARIABLE)
    if chosen:
        return _checked(chosen, f"the environment variable {START_METHOD_VARIABLE}")
    return "fork" if sys.platform.startswith("linux") else "spawn"


def get_context(start_method: str | None = None) -> Any:
    """The module-like object which makes processes, locks and queues for one start method.

    Args:
        start_method: "fork", "forkserver" or "spawn"; None for :func:`default_start_method`.

    Raises:
        ValueError: if this system does not have the start method.
    """
    if start_method is not None:
        _checked(start_method, "start_method")
    return mp.get_context(start_method or default_start_method())


def _checked(start_method: str, name: str) -> str:
    available = mp.get_all_start_methods()
    if start_method not in available:
        raise ValueError(f"{name} is {start_method!r}: this system has {available}")
    return start_method


@contextmanager
def shared_memory_for(start_method: str) -> Iterator[None]:
    """Make shared arrays such that processes started by ``start_method`` can be handed them."""
    token = _sharing.set(start_method)
    try:
        yield
    finally:
        _sharing.reset(token)


def shared_memory_start_method() -> str | None:
    """The start method to make shared arrays for, where somebody has chosen one."""
    return _sharing.get(None) or os.environ.get(START_METHOD_VARIABLE) or None


class TorchrunRanks(NamedTuple):
    """Which of the processes that ``torchrun`` started this one is; local: on this machine."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def torchrun_ranks() -> TorchrunRanks | None:
    """The place which ``torchrun`` or a launcher like it gave this process; None without one."""
    if "MASTER_ADDR" not in os.environ:
        return None
    try:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except KeyError:
        return None
    return TorchrunRanks(
        rank,
        world_size,
        int(os.environ.get("LOCAL_RANK", rank)),
        int(os.environ.get("LOCAL_WORLD_SIZE", world_size)),
    )


def start_process(process: Any) -> None:
    """Start a process, without Python's warning that forking a process with threads is a risk.

    The threads are those of numerical libraries, which wait for work and hold no lock. A child
    makes its own, unless it inherits the record of those which it does not have.
    """
    release_openmp_threads()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        process.start()


def use_batch_scheduling() -> None:
    """Never take the CPU from a process which wakes this one, where the system knows how (Linux).

    A scheduler likes to run at once who is woken. Where a sampler and its workers share CPUs, the
    first worker that it releases would run in its place, while the others wait to be released
    (measured with two CPUs: 6 to 19% of what a GpuSampler samples). Does nothing where somebody
    chose another scheduling policy than that of all processes.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    with suppress(OSError):  # Containers may forbid it.
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def can_be_pinned() -> bool:
    """Whether this system lets a process choose its CPUs; macOS does not."""
    return hasattr(psutil.Process, "cpu_affinity")


def pin_process(cpus: Sequence[int]) -> None:
    """Let this process, all its threads, and those it starts, run on ``cpus`` only.

    Raises:
        ValueError: if there are none, or one of them does not exist or is not allowed.
    """
    wanted = sorted({int(cpu) for cpu in cpus})
    if not wanted:
        raise ValueError("cpus is empty: name at least one, or leave the affinity alone")
    check_cpus(wanted)
    _pinned_to(wanted)
    if hasattr(os, "sched_setaffinity"):
        for thread in psutil.Process().threads():
            with suppress(ProcessLookupError):  # It may have ended meanwhile.
                os.sched_setaffinity(thread.id, wanted)


def check_cpus(cpus: Sequence[int]) -> None:
    """Raise ``ValueError`` if a process could not be pinned to ``cpus``; changes nothing.

    The CPUs this process is pinned to at present do not matter: its children may use others.
    """
    if not cpus or not can_be_pinned():
        return
    wanted = sorted({int(cpu) for cpu in cpus})
    before = psutil.Process().cpu_affinity()
    is_possible = _pinned_to(wanted)
    _pinned_to(before)
    if not is_possible:
        raise ValueError(
            f"CPUs {wanted} are named in the affinity, but this process may not use all of them "
            f"(this machine has {os.cpu_count()}, numbered from 0): name others, or pass "
            "set_affinity=False"
        )


def _pinned_to(cpus: Sequence[int]) -> bool:
    """Pin the main thread of this process; False if the system does not allow all of the CPUs."""
    process = psutil.Process()
    try:
        process.cpu_affinity(list(cpus))
    except (OSError, ValueError, psutil.Error):
        return False
    return set(process.cpu_affinity()) == set(cpus)


def release_openmp_threads() -> None:
    """End the idle threads which the OpenMP of GNU keeps for this thread; it makes new ones itself.

    A process which forks from this one inherits the record of them, but not the threads: its first
    computation with several threads would wait for them for ever. Does nothing where the library
    cannot do so, as that of torch 1.13: processes which compute with several threads have to be
    spawned there, if this one has done so before.
    """
    library = gnu_openmp()
    if library is not None:
        library.omp_pause_resource_all(_PAUSE_HARD)


@cache
def gnu_openmp() -> Any:
    """The library, of torch or of the system; None if there is none which can end its threads."""
    bundled = sorted(Path(torch.__file__).parent.glob("lib/libgomp*.so*"))
    try:
        library = ctypes.CDLL(str(bundled[0]) if bundled else None)
    except (OSError, TypeError):  # Windows has no handle of everything that is loaded.
        return None
    return library if hasattr(library, "omp_pause_resource_all") else None

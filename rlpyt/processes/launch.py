"""Start of a process: safe forks, OpenMP threads, CPU affinity, free ports."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import torch

_FIRST_PORT, _LAST_PORT, _PORT_STEP = 29500, 65000, 100
_OMP_PAUSE_HARD = 2  # Constant omp_pause_hard of OpenMP 5.0.


# --- Start ----------------------------------------------------------------------------------------


def start_process(process: Any) -> None:
    """Start a process in such a way that a forked child works too.

    Python warns that a fork of a process with threads is a risk. These threads belong to numerical
    libraries, wait for work and hold no lock. A child makes new ones, unless it inherits a record
    of threads that it does not have. Its garbage collection starts switched off, see
    :func:`~rlpyt.processes.child.run_child`.
    """
    release_openmp_threads()
    collects_garbage = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
            process.start()
    finally:
        if collects_garbage:
            gc.enable()


def check_cuda_after_fork(start_method: str) -> None:
    """Raise ``ValueError`` if processes started by ``start_method`` cannot use CUDA."""
    if torch.cuda.is_initialized() and start_method == "fork":
        raise ValueError(
            "CUDA was used in this process already, so processes that fork from it cannot "
            "use it: pass start_method='spawn' to the runner"
        )


# --- Threads of OpenMP ----------------------------------------------------------------------------


def release_openmp_threads() -> None:
    """End the idle threads that GNU OpenMP keeps for this thread; it starts new ones when needed.

    A forked process inherits the record of these threads but not the threads, so its first
    computation with several threads would wait forever. Does nothing if the library cannot end
    them.
    """
    library = gnu_openmp()
    if library is not None:
        library.omp_pause_resource_all(_OMP_PAUSE_HARD)


@cache
def gnu_openmp() -> Any:
    """Return the GNU OpenMP library of torch or of the system; None if it cannot end threads."""
    bundled = sorted(Path(torch.__file__).parent.glob("lib/libgomp*.so*"))
    try:
        library = ctypes.CDLL(str(bundled[0]) if bundled else None)
    except OSError:
        return None
    return library if hasattr(library, "omp_pause_resource_all") else None


# --- CPUs -----------------------------------------------------------------------------------------


def use_batch_scheduling() -> None:
    """Keep this process from preempting the process that wakes it, if the system can (Linux).

    Schedulers tend to run a woken process at once. If a sampler and its workers share CPUs, the
    first released worker would run instead of the sampler while the others wait for their release
    (measured with two CPUs: 6 to 19% of a GpuSampler's speed). A scheduling policy that the user
    chose is kept.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    with suppress(OSError):  # Containers may forbid it.
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def can_be_pinned() -> bool:
    """Return whether this system lets a process choose its CPUs; macOS does not."""
    return hasattr(psutil.Process, "cpu_affinity")


def pin_process(cpus: Sequence[int]) -> None:
    """Pin this process, all its threads, and the processes that it starts, to ``cpus``.

    Raises:
        ValueError: if ``cpus`` is empty, or one of them does not exist or is not allowed.
    """
    wanted = sorted({int(cpu) for cpu in cpus})
    if not wanted:
        raise ValueError("cpus is empty: name at least one, or leave the affinity alone")
    check_cpus(wanted)
    _pin_main_thread(wanted)
    if hasattr(os, "sched_setaffinity"):
        for thread in psutil.Process().threads():
            with suppress(ProcessLookupError):  # It may have ended meanwhile.
                os.sched_setaffinity(thread.id, wanted)


def check_cpus(cpus: Sequence[int]) -> None:
    """Raise ``ValueError`` if a process could not be pinned to ``cpus``; changes nothing.

    The current affinity of this process does not matter: its children may use other CPUs.
    """
    if not cpus or not can_be_pinned():
        return
    wanted = sorted({int(cpu) for cpu in cpus})
    before = psutil.Process().cpu_affinity()
    is_possible = _pin_main_thread(wanted)
    _pin_main_thread(before)
    if not is_possible:
        raise ValueError(
            f"CPUs {wanted} are named in the affinity, but this process may not use all of them "
            f"(this machine has {os.cpu_count()}, numbered from 0): name others, or pass "
            "set_affinity=False"
        )


def _pin_main_thread(cpus: Sequence[int]) -> bool:
    """Return False if the system does not allow all of the CPUs."""
    process = psutil.Process()
    try:
        process.cpu_affinity(list(cpus))
    except (OSError, ValueError, psutil.Error):
        return False
    return set(process.cpu_affinity()) == set(cpus)


# --- Ports ----------------------------------------------------------------------------------------


def find_port(offset: int) -> int:
    """Return a free TCP port, the first of 29500 + offset, 29600 + offset, ... below 65000.

    Args:
        offset: number that keeps runs on one machine apart, e.g. a CPU; taken modulo 100.

    Raises:
        RuntimeError: if none is free.
    """
    first = _FIRST_PORT + offset % _PORT_STEP
    for port in range(first, _LAST_PORT, _PORT_STEP):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port {first}, {first + _PORT_STEP}, ... is free: use another offset")

"""The threads of OpenMP, which compute for torch on CPUs, where processes fork."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch

_PAUSE_HARD = 2  # omp_pause_hard of OpenMP 5.0.


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

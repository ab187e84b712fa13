"""Compiled loops: the few places where a loop over time or over a tree is the algorithm itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile ``function`` with numba on its first call; the machine code is cached on disk.

    Releases the interpreter lock while it runs, and never uses fast-math: results are those of the
    Python code.
    """
    compiled: Any = numba.njit(cache=True, nogil=True)(function)
    typed: Function = compiled
    return typed

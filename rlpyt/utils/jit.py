"""Compilation of loops over time or over a tree that cannot be vectorized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile ``function`` with numba on its first call; the machine code is cached on disk.

    It releases the interpreter lock while it runs, and never uses fast-math, so that results equal
    Python's. If no directory for the cache is writable, every process compiles again.
    """
    compiled: Any
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:
        # numba looks for the directory at import: in an image without a writable installation or
        # home, importing the library would fail.
        if "no locator available" not in str(error):
            raise
        compiled = numba.njit(nogil=True)(function)
    typed: Function = compiled
    return typed

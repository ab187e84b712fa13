"""Compiled loops: the few places where a loop over time or over a tree is the algorithm itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile ``function`` with numba on its first call; the machine code is cached on disk.

    Releases the interpreter lock while it runs, and never uses fast-math: results are those of the
    Python code. Where no directory for the cache is writable, every process compiles anew.
    """
    compiled: Any
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:
        # numba looks for the directory now, when the module is imported: in an image with neither
        # a writable installation nor a writable home the library could not even be imported.
        if "no locator available" not in str(error):
            raise
        compiled = numba.njit(nogil=True)(function)
    typed: Function = compiled
    return typed

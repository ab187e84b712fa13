"""Arrays in memory that processes share; its kind depends on the start method."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing as mp
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.context import assert_spawning
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np

from rlpyt.utils.types import NDArray

START_METHOD_VARIABLE = "RLPYT_START_METHOD"

_memory_start_method: ContextVar[str | None] = ContextVar("start method to make shared memory for")


# --- Start methods --------------------------------------------------------------------------------


def default_start_method() -> str:
    """Return the start method in ``RLPYT_START_METHOD``, or else the system's usual one.

    On Linux processes fork, which needs no pickling. On other systems they are spawned, because
    libraries there do not survive a fork. Python's own default is ignored, since it differs between
    versions.
    """
    chosen = os.environ.get(START_METHOD_VARIABLE)
    if chosen:
        return _checked(chosen, f"the environment variable {START_METHOD_VARIABLE}")
    return "fork" if sys.platform.startswith("linux") else "spawn"


def get_context(start_method: str | None = None) -> Any:
    """Return the multiprocessing context of a start method; it makes processes and locks.

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
        raise ValueError(f"{name} is {start_method!r}: choose one of {', '.join(available)}")
    return start_method


@contextmanager
def shared_memory_for(start_method: str) -> Iterator[None]:
    """Make shared arrays in a form that processes started by ``start_method`` can receive."""
    token = _memory_start_method.set(start_method)
    try:
        yield
    finally:
        _memory_start_method.reset(token)


def shared_memory_start_method() -> str:
    """Return the start method to make shared arrays for."""
    chosen = _memory_start_method.get(None) or os.environ.get(START_METHOD_VARIABLE)
    # With allow_none, since the call would otherwise fix Python's default.
    return chosen or mp.get_start_method(allow_none=True) or default_start_method()


# --- Arrays ---------------------------------------------------------------------------------------


def np_mp_array(shape: int | Sequence[int], dtype: Any) -> NDArray:
    """Return an array of zeros whose memory is shared with the processes started afterwards.

    Where processes start by fork it is a plain array over an anonymous mapping: not limited by the
    size of /dev/shm, and no memory is taken before it is written. Otherwise it is a
    :class:`np_mp_array_spawn`, to be passed as an argument to the process.

    Args:
        shape: shape of the array.
        dtype: data type, as for numpy.
    """
    if shared_memory_start_method() != "fork":
        return np_mp_array_spawn(shape, dtype)
    return np.ndarray(shape, dtype, buffer=mmap.mmap(-1, _n_bytes(shape, dtype)))


def _n_bytes(shape: int | Sequence[int], dtype: Any) -> int:
    """Return the size in memory, at least one byte: shared memory cannot be empty."""
    return max(1, int(np.prod(shape)) * int(np.dtype(dtype).itemsize))


class np_mp_array_spawn(np.ndarray):
    """Array that is passed to a spawned or forkserver process without a copy.

    It can be pickled only as part of a process start; so can views of it.

    Args:
        shape: shape of the array, as for ``numpy.ndarray``.
        dtype: data type of the elements, as for ``numpy.ndarray``.
        buffer: shared ctypes array; None for a new one of zeros.
        offset: bytes before the first element, as for ``numpy.ndarray``.
        strides: bytes between elements along each axis, as for ``numpy.ndarray``.
        order: "C" or "F", memory layout, as for ``numpy.ndarray``.
    """

    _shmem: Any

    def __new__(
        cls,
        shape: int | Sequence[int],
        dtype: Any = None,
        buffer: Any = None,
        offset: int | None = None,
        strides: Sequence[int] | None = None,
        order: Any = None,
    ) -> np_mp_array_spawn:
        dtype = np.dtype(dtype)
        if buffer is None:
            buffer = RawArray(ctypes.c_char, _n_bytes(shape, dtype))
        self = super().__new__(cls, shape, dtype, buffer, offset or 0, strides, order)
        self._shmem = buffer
        return self

    def __array_finalize__(self, obj: Any) -> None:
        self._shmem = getattr(obj, "_shmem", None)

    def __reduce__(self) -> Any:
        offset = self._offset()
        if offset is None:  # A result of arithmetic: its memory is its own.
            return np.asarray(self).__reduce__()
        assert_spawning(self)
        order = "F" if self.flags.fnc else "C"
        return type(self), (self.shape, self.dtype, self._shmem, offset, self.strides, order)

    def _offset(self) -> int | None:
        """Return the place of the first element in the shared block, in bytes; None if outside."""
        if self._shmem is None:
            return None
        offset = self.ctypes.data - ctypes.addressof(self._shmem)
        return offset if 0 <= offset < ctypes.sizeof(self._shmem) else None

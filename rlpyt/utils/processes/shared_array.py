"""Arrays in memory that processes share, for each start method.

All names here are public in :mod:`rlpyt.utils.buffer`.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from multiprocessing.context import assert_spawning
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np

from rlpyt.utils.processes.launch import shared_memory_start_method
from rlpyt.utils.types import NDArray


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
    """Return the size in memory, at least one byte: there is no empty shared memory."""
    n_elements = shape if isinstance(shape, int) else math.prod(shape)
    return max(1, n_elements * int(np.dtype(dtype).itemsize))


class np_mp_array_spawn(np.ndarray):
    """Array that the start of a process by spawn or forkserver hands over without a copy.

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

"""Arrays in named shared memory, kept for programs of rlpyt 0.1.2.

Nothing here uses them: see :mod:`rlpyt.utils.shared_array`.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from string import ascii_letters, digits
from typing import Any

import numpy as np

from rlpyt.utils.types import NDArray

valid_chars = frozenset("/-_. " + ascii_letters + digits)

typecode_to_type: dict[str, Any] = {
    "c": ctypes.c_char,
    "u": ctypes.c_wchar,
    "b": ctypes.c_byte,
    "B": ctypes.c_ubyte,
    "h": ctypes.c_short,
    "H": ctypes.c_ushort,
    "i": ctypes.c_int,
    "I": ctypes.c_uint,
    "l": ctypes.c_long,
    "L": ctypes.c_ulong,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
}


def address_of_buffer(buf: Any) -> tuple[int, int]:
    """Return address and size in bytes of a writable buffer."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buf)), len(buf)


class ShmemBufferWrapper:
    """Named block of shared memory; the name goes when the object that made it is collected.

    Before Python 3.13 the name also goes when a process that opened it exits, unless that process
    is related to the maker. Wherever the block is open, the memory stays.

    Args:
        tag: name of the block.
        size: size in bytes.
        create: whether to make a new block rather than open one.

    Raises:
        ValueError: if ``tag`` contains characters outside ``valid_chars``.
        FileExistsError: if the block to create exists.
        FileNotFoundError: if the block to open does not.
    """

    def __init__(self, tag: str, size: int, create: bool = True) -> None:
        self._shmem: SharedMemory | None = None
        if not tag or not valid_chars.issuperset(tag):
            raise ValueError(f"tag {tag!r} must be of letters, digits, and the characters '/-_. '")
        self._created = create
        kwargs: dict[str, Any] = {"track": create} if sys.version_info >= (3, 13) else {}
        self._shmem = SharedMemory(name=tag, create=create, size=max(1, size), **kwargs)
        self.size = size

    def get_address(self) -> int:
        """Return the address of the block in this process."""
        assert self._shmem is not None
        return address_of_buffer(self._shmem.buf)[0]

    def __del__(self) -> None:
        if self._shmem is None:  # The constructor failed.
            return
        self._shmem.close()
        if self._created:
            with suppress(FileNotFoundError):
                self._shmem.unlink()


def ShmemRawArray(
    typecode_or_type: Any,
    size_or_initializer: int | Iterable[Any],
    tag: str,
    create: bool = True,
) -> Any:
    """Return a ctypes array in the shared memory called ``tag``.

    Args:
        typecode_or_type: key of ``typecode_to_type``, or a ctypes type.
        size_or_initializer: length of an array of zeros, or its values; to open an array, its
            length, or values that overwrite it.
        tag: name of the memory.
        create: whether to make a new array rather than open one.
    """
    ctype = typecode_to_type.get(typecode_or_type, typecode_or_type)
    values = None if isinstance(size_or_initializer, int) else tuple(size_or_initializer)
    length = size_or_initializer if isinstance(size_or_initializer, int) else len(values or ())
    array_type = ctype * length
    wrapper = ShmemBufferWrapper(tag, ctypes.sizeof(array_type), create)
    array = array_type.from_address(wrapper.get_address())
    array._wrapper = wrapper  # Lives as long as the array.
    if values:
        array[:] = values
    return array


def NpShmemArray(shape: Any, dtype: Any, tag: str, create: bool = True) -> NDArray:
    """Return an array [*shape] in the shared memory called ``tag``; zeros if it is created."""
    n_bytes = int(np.prod(shape)) * int(np.dtype(dtype).itemsize)
    block = ShmemRawArray(ctypes.c_char, max(1, n_bytes), tag, create)
    return np.ndarray(shape, dtype, buffer=block)


def get_random_tag() -> str:
    """Return nine digits of the clock, to be used as a tag."""
    return str(time.time_ns() // 1000)[-9:]

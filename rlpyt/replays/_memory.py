"""Memory for storage that is large and read at random."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

from rlpyt.utils.buffer import buffer_from_example, map_buffer
from rlpyt.utils.types import NDArray, Nested

# Makes arrays [*leading_dims, ...] for an example of one entry, in whatever memory it likes.
Allocate = Callable[[Nested, tuple[int, ...]], Any]

_HUGE_PAGE = 2 << 20


def allocate(example: Nested, leading_dims: tuple[int, ...], share_memory: bool = False) -> Any:
    """Make arrays of zeros [*leading_dims, ...] for ``example``; no memory is taken before use."""
    buffer = buffer_from_example(example, leading_dims, share_memory=share_memory)
    map_buffer(prefer_huge_pages, buffer)
    return buffer


def prefer_huge_pages(array: NDArray) -> None:
    """Ask Linux to back a fresh ``array`` with pages of 2 MiB where it can.

    One fault instead of 512 when it is filled, and fewer misses of address translation when it is
    read at random (measured: 10% of the time to sample a batch of images).
    """
    if array.nbytes < 2 * _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    length = array.ctypes.data + array.nbytes - start
    madvise = ctypes.CDLL(None).madvise
    # Only advice: it is of no consequence where the kernel declines.
    madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)

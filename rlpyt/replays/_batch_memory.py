"""Memory for batches which are so large that asking the kernel for it takes most of the time."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from rlpyt.replays._memory import prefer_huge_pages
from rlpyt.replays._stream import LINE
from rlpyt.utils.types import NDArray

# Below this the C library has memory at hand, see rlpyt/utils/allocator.py.
_LARGE = 16 << 20


class BatchMemory:
    """Gives out arrays, and their memory again once nothing refers to them.

    The kernel clears every page it hands out: 15 ms for 133 MB, three times what it takes to fill
    them. An array is never used again while it, a view of it or a tensor made from it exists.

    Args:
        n_kept: blocks of free memory which are kept; a loop that holds one batch while it asks for
            the next takes turns with two.
    """

    def __init__(self, n_kept: int = 2) -> None:
        self.n_kept = n_kept
        self._free: list[NDArray] = []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """An array with anything in it; a large one begins at a line of memory."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if n_bytes < _LARGE:
            return np.empty(shape, dtype)
        block = self._take(n_bytes)
        start = -block.ctypes.data % LINE
        # Views hold on to the first array on the way to the memory which is not made of another:
        # it is what must have gone. ``np.ndarray(buffer=...)`` would be made of ``block``.
        flat: NDArray = np.frombuffer(block.data[start : start + n_bytes], dtype)
        weakref.finalize(flat, self._give_back, block).atexit = False
        return flat.reshape(shape)

    def _take(self, n_bytes: int) -> NDArray:
        while self._free:
            block = self._free.pop()
            if n_bytes + LINE <= block.nbytes <= 2 * n_bytes:
                return block
        block = np.empty(n_bytes + LINE, np.uint8)
        prefer_huge_pages(block)
        return block

    def _give_back(self, block: NDArray) -> None:
        if len(self._free) < self.n_kept:
            self._free.append(block)

    def __reduce__(self) -> Any:
        return type(self), (self.n_kept,)

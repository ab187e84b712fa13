"""Memory of storage and of large batches, and copies from one to the other at random indexes.

Storage is made of numpy arrays in host memory, or of tensors on the device of a buffer.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import buffer_from_example, leaves, map_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Array, NDArray, Nested

# Function that makes arrays [*leading_dims, ...] for an example of one entry, in any memory.
Allocate = Callable[[Nested, tuple[int, ...]], Any]
# Function that makes an uninitialized array of a shape and dtype.
Empty = Callable[["tuple[int, ...]", "np.dtype[Any]"], NDArray]

_HUGE_PAGE = 2 << 20
# Below this the C library keeps freed memory, see rlpyt/processes/allocator.py.
_LARGE = 16 << 20


def allocate(example: Nested, leading_dims: tuple[int, ...], share_memory: bool = False) -> Any:
    """Make arrays of zeros [*leading_dims, ...] for ``example``; no memory is taken before use."""
    buffer = buffer_from_example(example, leading_dims, share_memory=share_memory)
    for array in leaves(buffer):
        prefer_huge_pages(array)
    return buffer


def allocate_on(device: torch.device, example: Nested, leading_dims: tuple[int, ...]) -> Any:
    """Make tensors of zeros [*leading_dims, ...] for ``example`` on ``device``."""

    def zeros(entry: NDArray) -> torch.Tensor:
        dtype = torch.from_numpy(entry).dtype
        return torch.zeros((*leading_dims, *entry.shape[1:]), dtype=dtype, device=device)

    return map_buffer(zeros, buffer_from_example(example, 1))


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can be allocated on ``device``, or None where torch does not count."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def require(device: torch.device, n_bytes: int, size: int) -> None:
    """Log how much memory of ``device`` a buffer will take.

    Args:
        device: device of the storage.
        n_bytes: number of bytes in the storage.
        size: number of transitions in it.

    Raises:
        ValueError: if fewer bytes are free.
    """
    free = free_memory(device)
    of_free = "" if free is None else f" of {free:,} free ones"
    logger.log(f"Replay storage: {n_bytes:,} bytes{of_free} on {device}, {size:,} steps")
    if free is not None and n_bytes > free:
        raise ValueError(
            f"size is {size:,} steps, which take {n_bytes:,} bytes, but {device} has {free:,} "
            f"free: make replay_size at most {int(size * free / n_bytes):,}, or store in host "
            "memory (replay_device=None)"
        )


def numpy_dtype(array: Array) -> np.dtype[Any]:
    """Return the numpy dtype of an array or tensor."""
    if isinstance(array, np.ndarray):
        return array.dtype
    dtype: np.dtype[Any] = torch.empty(0, dtype=array.dtype).numpy().dtype
    return dtype


def as_mask(flags: Any) -> Any:
    """Return ``flags`` as booleans, without a copy if possible."""
    is_tensor = isinstance(flags, torch.Tensor)
    return flags.bool() if is_tensor else flags.astype(bool, copy=False)


def fill(buffer: Nested, mask: Any, entry: Nested = None) -> None:
    """Set ``buffer`` [m,...] to ``entry`` [...], by default to zero, where ``mask`` [m] is True."""
    if isinstance(mask, np.ndarray):
        buffer[mask] = 0 if entry is None else entry
        return
    parts = itertools.repeat(None) if entry is None else leaves(entry)
    for tensor, part in zip(leaves(buffer), parts):
        # An index by the mask would wait for the number of its entries.
        rows = mask.reshape(-1, *[1] * (tensor.dim() - 1))
        if part is None:
            tensor.masked_fill_(rows, 0)
        else:
            tensor.copy_(torch.where(rows, torch.as_tensor(part).to(tensor), tensor))


def concatenate(arrays: tuple[Any, ...]) -> Any:
    """Return arrays, or tensors, one after the other."""
    return (torch.cat if isinstance(arrays[0], torch.Tensor) else np.concatenate)(arrays)


def prefer_huge_pages(array: NDArray) -> None:
    """Ask Linux to back a fresh ``array`` with pages of 2 MiB where it can.

    Filling then takes one page fault instead of 512, and random reads miss the TLB less often
    (measured: 10% of the time to sample a batch of images).
    """
    if array.nbytes < 2 * _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    length = array.ctypes.data + array.nbytes - start
    madvise = ctypes.CDLL(None).madvise
    # Only advice, which the kernel may ignore.
    madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)


def gather(buffers: Iterable[Nested], flat_idxs: Any, empty: Empty | None = None) -> list[Nested]:
    """Copy the entries at ``flat_idxs`` [...] = t * B + b of each of ``buffers`` [T,B,...].

    Args:
        buffers: arrays, tensors, records of them, or None.
        flat_idxs: places, each from 0 to T * B - 1; a tensor for tensors.
        empty: function that makes the arrays to copy to.
    """
    copies: list[Nested] = []
    for buffer in buffers:
        if buffer is None:
            copies.append(None)
        elif isinstance(buffer, np.ndarray):
            entries = buffer.reshape(-1, *buffer.shape[2:])
            if empty is None:
                copies.append(entries.take(flat_idxs, axis=0))
            else:
                out = empty((*flat_idxs.shape, *entries.shape[1:]), buffer.dtype)
                # Any mode but "raise", which copies to a buffer first.
                copies.append(entries.take(flat_idxs, axis=0, out=out, mode="clip"))
        elif isinstance(buffer, torch.Tensor):
            copy = buffer.flatten(0, 1).index_select(0, flat_idxs.reshape(-1))
            copies.append(copy.reshape(*flat_idxs.shape, *buffer.shape[2:]))
        else:
            copies.append(buffer._make(gather(buffer, flat_idxs, empty)))
    return copies


class BatchMemory:
    """Allocator of arrays that reuses their memory once nothing refers to them.

    The kernel clears every page it hands out: 15 ms for 133 MB, three times what it takes to fill
    them. An array is never used again while it, a view of it or a tensor made from it exists.

    Args:
        n_kept: blocks of free memory to keep; a loop that holds one batch while it draws the
            next alternates between two.
    """

    def __init__(self, n_kept: int = 2) -> None:
        self.n_kept = n_kept
        self._free: list[NDArray] = []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """Return an array that is not initialized."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if n_bytes < _LARGE:
            return np.empty(shape, dtype)
        block = self._take(n_bytes)
        # All views refer to ``flat``, so the block is free once ``flat`` is gone. They would refer
        # to ``block`` if ``flat`` were made by ``np.ndarray(buffer=...)``.
        flat: NDArray = np.frombuffer(block.data[:n_bytes], dtype)
        weakref.finalize(flat, self._give_back, block).atexit = False
        return flat.reshape(shape)

    def _take(self, n_bytes: int) -> NDArray:
        while self._free:
            block = self._free.pop()
            if n_bytes <= block.nbytes <= 2 * n_bytes:
                return block
        block = np.empty(n_bytes, np.uint8)
        prefer_huge_pages(block)
        return block

    def _give_back(self, block: NDArray) -> None:
        if len(self._free) < self.n_kept:
            self._free.append(block)

    def __reduce__(self) -> Any:
        return type(self), (self.n_kept,)

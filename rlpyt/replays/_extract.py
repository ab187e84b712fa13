"""Reading entries at random places of [T,B] storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import BoolArray, IntArray, NDArray, Nested

# Makes an array which is not filled, of a shape and dtype.
Empty = Callable[["tuple[int, ...]", "np.dtype[Any]"], NDArray]


def gather(buffer: Nested, flat_idxs: IntArray, empty: Empty | None = None) -> Nested:
    """Copy the entries at ``flat_idxs`` [...] = t * B + b of every array [T,B,...].

    Args:
        buffer: array or record of arrays.
        flat_idxs: places, each from 0 to T * B - 1.
        empty: makes the arrays to copy to.
    """
    if isinstance(buffer, tuple):
        return map_buffer(lambda rows: gather(rows, flat_idxs, empty), buffer)
    if buffer is None:
        return None
    entries = buffer.reshape(-1, *buffer.shape[2:])
    if empty is None:
        return entries.take(flat_idxs, axis=0)
    out = empty((*flat_idxs.shape, *entries.shape[1:]), buffer.dtype)
    # Any mode but "raise", which copies to a buffer first.
    return entries.take(flat_idxs, axis=0, out=out, mode="clip")


def without(samples: Any, field: str, name: str) -> Any:
    """The record of all other fields, of a class ``name``; ``samples`` if it has no such field."""
    if field not in samples._fields:
        return samples
    rest = {key: getattr(samples, key) for key in samples._fields if key != field}
    return record_class(name, tuple(rest))(**rest)


def cut(buffer: Nested, n_parts: int) -> list[Nested]:
    """Views of the equal parts of every array or tensor [n,...] along its first dimension."""
    if isinstance(buffer, tuple) and not buffer:
        return [buffer] * n_parts
    if isinstance(buffer, tuple):
        parts = zip(*(cut(part, n_parts) for part in buffer))
        make: Callable[..., Nested] = getattr(buffer, "_make", tuple)
        return [make(part) for part in parts]
    if buffer is None:
        return [None] * n_parts
    n = len(buffer) // n_parts
    return [buffer[i * n : (i + 1) * n] for i in range(n_parts)]


def blank(buffer: Nested, mask: BoolArray) -> None:
    """Set the entries where ``mask`` [n] is true to zero, in every array [n,...]."""

    def zero(rows: NDArray) -> None:
        rows[mask] = 0

    if mask.any():
        map_buffer(zero, buffer)

"""Reading entries at random places of [T,B] storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import BoolArray, IntArray, NDArray, Nested


def gather(buffer: Nested, flat_idxs: IntArray) -> Nested:
    """Copy the entries [n,...] at ``flat_idxs`` [n] = t * B + b of every array [T,B,...]."""
    if isinstance(buffer, tuple):
        return map_buffer(lambda rows: gather(rows, flat_idxs), buffer)
    return None if buffer is None else buffer.reshape(-1, *buffer.shape[2:]).take(flat_idxs, axis=0)


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


def extended(cls: Any, names: tuple[str, ...], suffix: str = "") -> Any:
    """The record class ``cls`` with more fields; the same class for every call.

    Raises:
        ValueError: if a name is taken.
    """
    if not names:
        return cls
    taken = sorted(set(names) & set(cls._fields))
    if taken:
        raise ValueError(
            f"fields {taken} of the stored samples are the names of fields of {cls.__name__}: give "
            "them other names"
        )
    return record_class(cls.__name__ + suffix, cls._fields + names)

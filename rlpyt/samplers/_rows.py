"""Copies between rows of buffers, with everything that can be looked up looked up once.

A step loop writes the same few arrays again and again. Taking the records apart beforehand leaves
nothing but the copies of numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.utils.types import NDArray, Nested


def leaves(record: Nested) -> list[Any]:
    """The arrays, tensors and numbers of a record in order, without those which are None."""
    if record is None:
        return []
    if not isinstance(record, tuple):
        return [record]
    found: list[Any] = []
    for part in record:
        if isinstance(part, tuple):
            found += leaves(part)
        elif part is not None:
            found.append(part)
    return found


def plain(buffer: Nested) -> Nested:
    """The same buffer as plain arrays: views of shared ones, which are slower, are none."""
    if isinstance(buffer, tuple):
        return buffer._make([plain(part) for part in buffer])  # type: ignore[attr-defined]
    return np.asarray(buffer) if isinstance(buffer, np.ndarray) else buffer


class Rows:
    """Writes records of one structure into a buffer of this structure.

    Args:
        buffer: of arrays, or None, or a record without arrays.
    """

    def __init__(self, buffer: Nested) -> None:
        self._buffer = buffer
        self._leaves: list[NDArray] = leaves(buffer)
        self._n_leaves = len(self._leaves)
        self._only = buffer if isinstance(buffer, np.ndarray) else None

    def __bool__(self) -> bool:
        return self._n_leaves > 0

    def write(self, loc: Any, record: Nested) -> None:
        """Write ``record`` of arrays, CPU tensors or numbers into ``[loc]`` of every array."""
        if self._only is not None:
            self._only[loc] = record
            return
        parts = leaves(record)
        if len(parts) != self._n_leaves:
            self._buffer[loc] = record  # Knows holes, and names the field which does not fit.
            return
        for leaf, part in zip(self._leaves, parts):
            # The same as for an array, but ten times faster.
            leaf[loc] = part.numpy() if type(part) is torch.Tensor else part

    def fill(self, loc: Any, value: float) -> None:
        """Write one number into ``[loc]`` of every array."""
        for leaf in self._leaves:
            leaf[loc] = value


class RowCopy:
    """Copies the same arrays [...] into rows of buffers [T,...].

    Args:
        destination: buffers.
        source: arrays of the same structure, whose present contents are copied.
    """

    def __init__(self, destination: Nested, source: Nested) -> None:
        self._pairs = list(zip(leaves(destination), leaves(source)))

    def to(self, t: int) -> None:
        """Write row ``t``."""
        for destination, source in self._pairs:
            destination[t] = source

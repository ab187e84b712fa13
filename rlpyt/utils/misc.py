"""Kept for programs of rlpyt 0.1.2; nothing here uses it.

Minibatches, arrays of numpy or torch, and sequences from a ring buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.utils.types import Array, IntArray


def iterate_mb_idxs(
    data_length: int, minibatch_size: int, shuffle: bool = False
) -> Iterator[slice | IntArray]:
    """Yield the indexes of the ``data_length // minibatch_size`` full minibatches of an epoch.

    Args:
        data_length: number of data.
        minibatch_size: number of data in a minibatch; an incomplete last one is dropped.
        shuffle: whether to draw without replacement, in an order from numpy's global generator.

    Yields:
        A slice of the data in order or, shuffled, an array [minibatch_size] of indexes.

    Raises:
        ValueError: if ``minibatch_size`` is not positive.
    """
    if minibatch_size < 1:
        raise ValueError(f"minibatch_size must be at least 1, but is {minibatch_size}")
    order = np.arange(data_length) if shuffle else None
    if order is not None:
        np.random.shuffle(order)
    for start in range(0, data_length - minibatch_size + 1, minibatch_size):
        minibatch = slice(start, start + minibatch_size)
        yield minibatch if order is None else order[minibatch]


def zeros(shape: int | Sequence[int], dtype: Any) -> Array:
    """Return zeros [*shape]: a tensor if ``dtype`` belongs to torch, else a numpy array."""
    if isinstance(dtype, torch.dtype):
        return torch.zeros(shape, dtype=dtype)
    return np.zeros(shape, dtype=dtype)


def empty(shape: int | Sequence[int], dtype: Any) -> Array:
    """Return memory [*shape], not filled: a tensor if ``dtype`` belongs to torch, else an array."""
    if isinstance(dtype, torch.dtype):
        return torch.empty(shape, dtype=dtype)
    return np.empty(shape, dtype=dtype)


def extract_sequences(array_or_tensor: Any, T_idxs: Any, B_idxs: Any, T: int) -> Any:
    """Copy sequences of ``T`` time steps from a ring buffer.

    Args:
        array_or_tensor: ring [T_ring,B,...] in time: after the last row comes the first.
        T_idxs: times [n] of the first steps, from -T_ring to T_ring - 1; negative ones count from
            the end.
        B_idxs: columns [n] of the sequences, from -B to B - 1.
        T: length of a sequence.

    Returns:
        [T, n, ...] of the same type.

    Raises:
        ValueError: if an index is out of range, or the numbers of indexes differ.
    """
    ring_T, ring_B = array_or_tensor.shape[:2]
    starts = _checked_indexes("T_idxs", T_idxs, ring_T)
    columns = _checked_indexes("B_idxs", B_idxs, ring_B) % ring_B
    if len(starts) != len(columns):
        raise ValueError(
            f"T_idxs has length {len(starts)}, B_idxs has length {len(columns)}: give one for one"
        )
    rows = (starts[None, :] + np.arange(T)[:, None]) % ring_T
    if isinstance(array_or_tensor, torch.Tensor):
        device = array_or_tensor.device
        at = (torch.from_numpy(rows).to(device), torch.from_numpy(columns).to(device))
        return array_or_tensor[at]
    if not array_or_tensor.flags.c_contiguous:
        return array_or_tensor[rows, columns]
    # One index per entry: numpy copies in two thirds of the time.
    flat = array_or_tensor.reshape((ring_T * ring_B,) + array_or_tensor.shape[2:])
    return flat.take(rows * ring_B + columns, axis=0)


def _checked_indexes(name: str, indexes: Any, limit: int) -> IntArray:
    checked: IntArray = np.asarray(indexes)
    checked = checked if checked.size else checked.astype(np.int64)  # A list that is empty.
    wrong = checked[(checked < -limit) | (checked >= limit)]
    if wrong.size:
        raise ValueError(f"{name} contains {wrong[0]}: choose from {-limit} to {limit - 1}")
    return checked

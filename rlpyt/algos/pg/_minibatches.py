"""Dividing a batch into random minibatches, of which none loses or repeats a sample."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.types import Nested


def shuffled_parts(
    rows: torch.Tensor, n_parts: int, rng: np.random.Generator
) -> tuple[torch.Tensor, list[int]]:
    """Shuffle ``rows`` and divide them into parts whose sizes differ by one at most.

    Args:
        rows: [n] indexes. Where they are fewer than the parts, some come several times.
        n_parts: number of parts, at least 1.
        rng: draws the order.

    Returns:
        The indexes of all parts, one part after the other, and the sizes of the parts.
    """
    order = rng.permutation(len(rows))
    if len(order) < n_parts:
        order = np.resize(order, n_parts)
    quotient, remainder = divmod(len(order), n_parts)
    sizes = [quotient + 1] * remainder + [quotient] * (n_parts - remainder)
    return rows[torch.from_numpy(order)], sizes


def flatten_time(batch: Nested) -> Nested:
    """[T,B,...] as [T*B,...], without a copy where memory allows."""
    return map_buffer(lambda x: x.reshape(-1, *x.shape[2:]), batch)


def iterate_parts(
    batch: Nested, order: torch.Tensor, sizes: list[int], dim: int = 0
) -> Iterator[Nested]:
    """Copy ``batch`` in a new order, once, and yield views of one part after the other.

    Args:
        batch: record of tensors.
        order: indexes of all parts along ``dim``, one part after the other.
        sizes: of the parts.
        dim: of every tensor.
    """
    on_device: dict[torch.device, torch.Tensor] = {}

    def select(x: torch.Tensor) -> torch.Tensor:
        if x.device not in on_device:
            on_device[x.device] = order.to(x.device)
        return x.index_select(dim, on_device[x.device])

    return _split(map_buffer(select, batch), sizes, dim)


def _split(batch: Nested, sizes: list[int], dim: int) -> Iterator[Nested]:
    if batch is None:
        return itertools.repeat(None, len(sizes))
    if isinstance(batch, torch.Tensor):
        return iter(batch.split(sizes, dim))
    return map(batch._make, zip(*(_split(part, sizes, dim) for part in batch)))

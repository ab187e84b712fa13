from __future__ import annotations

import numpy as np
import pytest
import torch

from rlpyt.algos.pg._minibatches import flatten_time, iterate_parts, shuffled_parts
from rlpyt.utils.collections import namedarraytuple

Pair = namedarraytuple("Pair", ["a", "b"])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("n", "n_parts", "sizes"),
    [(8, 4, [2, 2, 2, 2]), (10, 4, [3, 3, 2, 2]), (7, 3, [3, 2, 2]), (4, 4, [1] * 4), (5, 1, [5])],
)
def test_every_row_is_in_one_part(n: int, n_parts: int, sizes: list[int]) -> None:
    # What did not fill a minibatch was dropped.
    order, found = shuffled_parts(torch.arange(n) * 10, n_parts, rng())
    assert found == sizes
    assert sorted(order.tolist()) == [10 * i for i in range(n)]
    assert n < 7 or order.tolist() != sorted(order.tolist())


def test_fewer_rows_than_parts_come_several_times() -> None:
    order, sizes = shuffled_parts(torch.tensor([3, 5]), 5, rng())
    assert sizes == [1] * 5
    assert set(order.tolist()) == {3, 5}


def test_parts_of_nested_records() -> None:
    batch = Pair(torch.arange(6).reshape(3, 2), Pair(None, torch.arange(12.0).reshape(3, 2, 2)))
    flat = flatten_time(batch)
    assert flat.a.tolist() == list(range(6))
    assert flat.b.b.shape == (6, 2)
    order = torch.tensor([5, 0, 3, 1, 2, 4])
    parts = list(iterate_parts(flat, order, [4, 2]))
    assert [part.a.tolist() for part in parts] == [[5, 0, 3, 1], [2, 4]]
    assert parts[1].b.a is None
    assert parts[1].b.b.tolist() == [[4, 5], [8, 9]]
    assert isinstance(parts[0].b, Pair)


def test_parts_of_environments() -> None:
    batch = Pair(torch.arange(6).reshape(2, 3), None)
    parts = list(iterate_parts(batch, torch.tensor([2, 0, 1]), [2, 1], dim=1))
    assert [part.a.tolist() for part in parts] == [[[2, 0], [5, 3]], [[1], [4]]]
    assert [part.b for part in parts] == [None, None]

"""Stores in host memory and on a device do the same to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.replays._store import DeviceStore, HostStore
from rlpyt.utils.buffer import as_numpy, numpy_leaves, torchify_buffer
from rlpyt.utils.collections import namedarraytuple

T, B = 6, 2
Part = namedarraytuple("Part", ["a", "nothing"])
Steps = namedarraytuple("Steps", ["part", "flag"])

each_store = pytest.mark.parametrize(
    "store", [HostStore(), DeviceStore(torch.device("cpu"))], ids=["host", "device"]
)


def steps(first: int, n_rows: int) -> Any:
    number = np.arange(first * B, (first + n_rows) * B).reshape(n_rows, B)
    return Steps(Part(np.stack([number, -number], -1), None), number % 3 == 0)


def filled(store: HostStore) -> tuple[Any, Any]:
    """Rows of the store, and the arrays that they should be."""
    rows, expected = store.allocate(steps(0, 1)[0, 0], (T, B)), steps(0, T)
    store.write(rows, 0, expected)
    return rows, expected


def assert_equal(rows: Any, expected: Any) -> None:
    np.testing.assert_equal(numpy_leaves(rows), numpy_leaves(expected))


@each_store
@pytest.mark.parametrize("n_rows", [0, 1, 3, 6])
@pytest.mark.parametrize("is_torch", [False, True])
def test_rows_are_written_around_the_circle(store: HostStore, n_rows: int, is_torch: bool) -> None:
    for t in range(T):
        rows, expected = filled(store)
        given = steps(10, n_rows)
        assert store.write(rows, t, torchify_buffer(given) if is_torch else given) == n_rows
        expected[(t + np.arange(n_rows)) % T] = given
        assert_equal(rows, expected)


@each_store
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (steps(9, 7), "cannot append 7 rows.*size at least 14"),
        (steps(9, 2)._replace(flag=np.zeros((3, B))), "samples.flag has shape"),
        (steps(9, 2)._replace(flag=None), "missing: .'flag'"),
        (steps(9, 2)._replace(part=np.zeros((2, B, 2))), "fields of the example"),
        (Part(*steps(9, 2)), "another|unknown: "),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    store: HostStore, given: Any, message: str
) -> None:
    rows, expected = filled(store)
    with pytest.raises(ValueError, match=message):
        store.write(rows, 1, given)
    assert_equal(rows, expected)


@each_store
def test_entries_are_read_changed_and_written_back(store: HostStore) -> None:
    rows, expected = filled(store)
    T_idxs, B_idxs = np.array([5, -1, 2]), np.array([1, -1, 0])
    offsets = store.arange(0, 2)[:, None]
    places = store.places((T, B), T_idxs, B_idxs, offsets)
    index = (T_idxs + np.arange(2)[:, None]) % T, B_idxs
    part, flag = store.read(rows, places)
    assert part.nothing is None
    assert_equal((part, flag), (expected.part.a[index], expected.flag[index]))
    drawn = store.places((T, B), *store.local(T_idxs % T, B_idxs % B), offsets)
    np.testing.assert_equal(as_numpy(drawn), as_numpy(places))

    store.put(rows, np.array([0, 4]), np.array([1, 0]), (np.full((2, 2), 7.0), np.ones(2, bool)))
    expected.part.a[[0, 4], [1, 0]] = 7
    expected.flag[[0, 4], [1, 0]] = True
    assert_equal(rows, expected)


@each_store
def test_entries_are_filled_and_replaced_where_flags_are_set(store: HostStore) -> None:
    flags = np.array([0, 1, 1, 0], np.uint8)
    (flags_there, zeroed, filled_) = store.local(flags, np.ones((4, 2)), np.ones((4, 2)))
    store.fill(flags_there, (zeroed, filled_), (None, np.array([3.0, 4.0])))
    np.testing.assert_equal(as_numpy(zeroed), np.where(flags[:, None], [0.0, 0.0], 1.0))
    np.testing.assert_equal(as_numpy(filled_), np.where(flags[:, None], [3.0, 4.0], 1.0))

    batch = store.tensors(store.local(np.arange(4.0), np.ones(4, bool)))
    (new,) = store.local(10 * np.arange(4.0))
    store.replace(torch.from_numpy(flags), batch, lambda hits: (new[hits], False))
    assert batch[0].tolist() == [0, 10, 20, 3]
    assert batch[1].tolist() == [True, False, False, True]
    store.replace(torch.zeros(4), batch, lambda hits: (new[hits], True))
    assert batch[0].tolist() == [0, 10, 20, 3]


@each_store
def test_rows_that_cannot_be_named(store: HostStore) -> None:
    with pytest.raises(IndexError, match="choose from -2 to 1"):
        store.places((T, B), [0, 1], [0, 2])
    with pytest.raises(ValueError, match="rnn_state_interval=3"):
        store.places((T, B), [0, 4], [0, 1], stride=3)

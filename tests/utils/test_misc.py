"""Minibatch indexes, memory of either library, and sequences out of a ring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.utils.misc import empty, extract_sequences, iterate_mb_idxs, zeros


@pytest.mark.parametrize(
    ("n", "size", "n_minibatches"), [(10, 3, 3), (9, 3, 3), (2, 3, 0), (3, 1, 3)]
)
def test_minibatches(n: int, size: int, n_minibatches: int) -> None:
    data = np.arange(n)
    ordered = [data[idxs] for idxs in iterate_mb_idxs(n, size)]
    assert np.concatenate([*ordered, []]).tolist() == list(range(n_minibatches * size))
    shuffled = [data[idxs] for idxs in iterate_mb_idxs(n, size, shuffle=True)]
    assert [len(mb) for mb in shuffled] == [size] * n_minibatches
    assert len(np.unique(np.concatenate([*shuffled, []]))) == n_minibatches * size


def test_minibatches_are_slices_or_arrays_from_the_global_stream() -> None:
    assert list(iterate_mb_idxs(4, 2)) == [slice(0, 2), slice(2, 4)]
    np.random.seed(3)
    first = [idxs.tolist() for idxs in iterate_mb_idxs(50, 10, shuffle=True)]
    again = [idxs.tolist() for idxs in iterate_mb_idxs(50, 10, shuffle=True)]
    np.random.seed(3)
    same = [idxs.tolist() for idxs in iterate_mb_idxs(50, 10, shuffle=True)]
    assert first == same
    assert first != again


@pytest.mark.parametrize("size", [0, -1])
def test_minibatches_need_a_size(size: int) -> None:
    with pytest.raises(ValueError, match="minibatch_size"):
        list(iterate_mb_idxs(10, size))


@pytest.mark.parametrize("dtype", [np.float32, "int32", bool, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(2, 3), 4, (0,)], ids=str)
def test_zeros_and_empty(dtype: Any, shape: Any) -> None:
    for x in (zeros(shape, dtype), empty(shape, dtype)):
        assert isinstance(x, torch.Tensor if isinstance(dtype, torch.dtype) else np.ndarray)
        assert x.dtype == dtype
        assert tuple(x.shape) == np.zeros(shape).shape
    assert not zeros(shape, dtype).any()


def naive_sequences(ring: Any, T_idxs: Any, B_idxs: Any, T: int) -> Any:
    columns = [
        np.stack([np.asarray(ring)[(t + i) % len(ring), b] for i in range(T)])
        for t, b in zip(T_idxs, B_idxs, strict=True)
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [0, 1, 2, 3]),
        (6, [6, 7, 8, 9]),
        (8, [8, 9, 0, 1]),
        (-1, [9, 0, 1, 2]),
        (-4, [6, 7, 8, 9]),
    ],
)
def test_a_run_wraps_at_both_ends(start: int, expected: list[int]) -> None:
    """What lies before row 0 used to be put at the end of the run: -1 gave 0, 1, 2, 9."""
    ring = np.arange(10)[:, None]
    assert extract_sequences(ring, [start], [0], 4)[:, 0].tolist() == expected
    assert extract_sequences(torch.from_numpy(ring), [start], [0], 4)[:, 0].tolist() == expected


@pytest.mark.parametrize("kind", ["array", "strided", "tensor"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 4, 4)])
@pytest.mark.parametrize("idx_type", [list, np.asarray, torch.as_tensor])
def test_extract_sequences_is_the_naive_loop(kind: str, shape: Any, idx_type: Any) -> None:
    rng = np.random.default_rng(0)
    ring = rng.integers(256, size=(12, 5) + shape).astype(np.uint8)
    T_idxs, B_idxs = rng.integers(-6, 12, size=8).tolist(), rng.integers(-1, 5, size=8).tolist()
    source: Any = {
        "array": ring,
        "strided": np.asfortranarray(ring),
        "tensor": torch.from_numpy(ring),
    }
    y = extract_sequences(source[kind], idx_type(T_idxs), idx_type(B_idxs), 7)
    assert type(y) is type(source[kind])
    assert y.shape == (7, 8) + shape
    assert (np.asarray(y) == naive_sequences(ring, T_idxs, B_idxs, 7)).all()
    y[:] = 0
    assert ring.any()


@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize(
    ("T_idxs", "B_idxs", "message"),
    [
        ([0, 12], [0, 0], "T_idxs contains 12, expected -12 to 11"),
        ([-13, 0], [0, 0], "T_idxs contains -13, expected -12 to 11"),
        ([0, 0], [0, 5], "B_idxs contains 5, expected -5 to 4"),
        ([0, 0], [-6, 0], "B_idxs contains -6, expected -5 to 4"),
        ([0, 1, 2], [0, 1], "T_idxs has length 3, but B_idxs has length 2"),
        ([0, 1, 2], [0], "T_idxs has length 3, but B_idxs has length 1"),
    ],
)
def test_extract_sequences_refuses_wrong_indexes(
    kind: str, T_idxs: Any, B_idxs: Any, message: str
) -> None:
    """Indexes past the end used to wrap to other rows and columns."""
    ring: Any = np.zeros((12, 5))
    with pytest.raises(ValueError, match=message):
        extract_sequences(ring if kind == "array" else torch.from_numpy(ring), T_idxs, B_idxs, 3)

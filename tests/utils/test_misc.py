"""Minibatch indexes, memory of either library, and sequences out of a ring."""

import numpy as np
import pytest
import torch

from rlpyt.utils.misc import empty, extract_sequences, iterate_mb_idxs, zeros


@pytest.mark.parametrize(
    ("n", "size", "n_minibatches"), [(10, 3, 3), (9, 3, 3), (2, 3, 0), (3, 1, 3)]
)
def test_minibatches(n, size, n_minibatches):
    data = np.arange(n)
    ordered = [data[idxs] for idxs in iterate_mb_idxs(n, size)]
    assert np.concatenate([*ordered, []]).tolist() == list(range(n_minibatches * size))
    shuffled = [data[idxs] for idxs in iterate_mb_idxs(n, size, shuffle=True)]
    assert [len(mb) for mb in shuffled] == [size] * n_minibatches
    assert len(np.unique(np.concatenate([*shuffled, []]))) == n_minibatches * size


def test_minibatches_are_slices_or_arrays_from_the_global_stream():
    assert list(iterate_mb_idxs(4, 2)) == [slice(0, 2), slice(2, 4)]
    runs = []
    for seed in (3, 3, 4):
        np.random.seed(seed)
        runs.append([idxs.tolist() for idxs in iterate_mb_idxs(50, 10, shuffle=True)])
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("dtype", [np.float32, "int32", bool, torch.float16, torch.int64], ids=str)
def test_zeros_and_empty(dtype):
    for shape in ((2, 3), 4, (0,)):
        for x in (zeros(shape, dtype), empty(shape, dtype)):
            assert isinstance(x, torch.Tensor if isinstance(dtype, torch.dtype) else np.ndarray)
            assert x.dtype == dtype
            assert tuple(x.shape) == np.zeros(shape).shape
        assert not zeros(shape, dtype).any()


def naive_sequences(ring, T_idxs, B_idxs, T):
    columns = [
        np.stack([np.asarray(ring)[(t + i) % len(ring), b] for i in range(T)])
        for t, b in zip(T_idxs, B_idxs, strict=True)
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("shape", [(), (2, 4, 4)])
@pytest.mark.parametrize("make", [np.array, np.asfortranarray, torch.as_tensor])
def test_extract_sequences_is_the_naive_loop(make, shape):
    # What lies before row 0 used to be put at the end of the run.
    rng = np.random.default_rng(0)
    ring = rng.integers(256, size=(12, 5) + shape).astype(np.uint8)
    T_idxs, B_idxs = rng.integers(-6, 12, size=8).tolist(), rng.integers(-1, 5, size=8).tolist()
    source = make(ring.copy())
    for as_idxs in (list, np.asarray, torch.as_tensor):
        y = extract_sequences(source, as_idxs(T_idxs), as_idxs(B_idxs), 7)
        assert type(y) is type(source)
        assert (np.asarray(y) == naive_sequences(ring, T_idxs, B_idxs, 7)).all()
        y[:] = 0
        assert source.any()
    assert extract_sequences(source, [], [], 7).shape == (7, 0, *shape)

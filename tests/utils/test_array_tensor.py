"""Numpy and torch versions of the same helpers, against hand-written values and each other."""

import numpy as np
import pytest
import torch

from rlpyt.utils import array, tensor

np_or_torch = pytest.mark.parametrize("mod", [array, tensor], ids=["numpy", "torch"])


def to(mod, x):
    return np.asarray(x) if mod is array else torch.as_tensor(np.asarray(x))


@np_or_torch
@pytest.mark.parametrize("trail", [(), (2, 5)])
def test_select_at_indexes(mod, trail):
    rng = np.random.default_rng(0)
    for lead, dtype in (((), np.int64), ((4,), np.int32), ((3, 4), np.int64)):
        x = rng.normal(size=lead + (6,) + trail)
        indexes = rng.integers(6, size=lead).astype(dtype)
        y = mod.select_at_indexes(to(mod, indexes), to(mod, x))
        assert y.shape == lead + trail
        for i in np.ndindex(*lead):
            assert (np.asarray(y)[i] == x[i][indexes[i]]).all()


@np_or_torch
@pytest.mark.parametrize("indexes", [2, [0, 2], [[1, 1], [0, 2]]], ids=str)
def test_onehot_there_and_back(mod, indexes):
    x = to(mod, indexes)
    onehot = mod.to_onehot(x, 3)
    assert onehot.dtype == x.dtype
    assert (np.asarray(onehot) == np.eye(3)[np.asarray(indexes)]).all()
    assert (np.asarray(mod.from_onehot(onehot)) == indexes).all()
    dtypes = (np.float32, np.uint8) if mod is array else (torch.float32, torch.uint8)
    assert mod.to_onehot(x, 3, dtype=dtypes[0]).dtype == dtypes[0]
    back = mod.from_onehot(onehot, dtype=dtypes[1])
    assert (back.dtype, back.shape) == (dtypes[1], x.shape)


def test_from_onehot_along_another_dim():
    assert tensor.from_onehot(torch.eye(3)[:, [2, 0]], dim=0).tolist() == [2, 0]


X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
VALID = [[1, 1, 0], [1, 0, 0]]


@np_or_torch
@pytest.mark.parametrize(
    ("axis", "expected"), [(None, 7 / 3), (0, [2.5, 2, np.nan]), (1, [1.5, 4]), (-1, [1.5, 4])]
)
def test_valid_mean(mod, axis, expected):
    x = to(mod, np.float32(X))
    for dtype in (np.bool_, np.float64, np.int64):
        mean = mod.valid_mean(x, to(mod, np.asarray(VALID, dtype=dtype)), axis)
        np.testing.assert_allclose(np.asarray(mean), expected, rtol=1e-6)
        assert mean.dtype == x.dtype
    np.testing.assert_allclose(np.asarray(mod.valid_mean(x, None, axis)), np.mean(X, axis=axis))


@np_or_torch
def test_valid_mean_of_whole_axes(mod):
    # Each flag counted once, whatever it stood for; one too few axes gave all pairs.
    x, rows = to(mod, np.float32(X)), to(mod, np.array([[1.0], [0.0]]))
    assert mod.valid_mean(x, rows) == 2
    with pytest.raises(ValueError, match=r"shape"):
        mod.valid_mean(x[:, :1], to(mod, np.ones(2)))


@np_or_torch
def test_valid_mean_of_nothing_is_nan(mod):
    assert np.isnan(np.asarray(mod.valid_mean(to(mod, X), to(mod, np.zeros((2, 3))))))
    assert mod.valid_mean(to(mod, X), to(mod, VALID), (0, 1)) == pytest.approx(7 / 3)


@pytest.mark.parametrize(
    ("lead", "T", "B"), [((), 1, 1), ((5,), 1, 5), ((4, 5), 4, 5)], ids=["[]", "[B]", "[T,B]"]
)
@pytest.mark.parametrize("shape", [(), (1, 8, 9)])
def test_leading_dims_there_and_back(lead, T, B, shape):
    x = torch.arange(np.prod(lead + shape, dtype=int)).reshape(lead + shape)
    assert tensor.infer_leading_dims(x, len(shape)) == (len(lead), T, B, torch.Size(shape))
    expected = (T, B, shape, len(lead) == 2, len(lead) > 0)
    assert array.infer_leading_dims(x.numpy(), len(shape)) == expected
    flat = x.reshape((T * B,) + shape)
    assert tensor.restore_leading_dims(flat, len(lead), T, B).equal(x)
    for several in ((flat, 2 * flat), [flat, 2 * flat]):
        first, second = tensor.restore_leading_dims(several, len(lead), T, B)
        assert first.equal(x)
        assert second.equal(2 * x)

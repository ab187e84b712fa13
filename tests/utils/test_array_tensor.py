"""Numpy and torch versions of the same helpers, against hand-written values and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.utils import array, tensor

np_or_torch = pytest.mark.parametrize("mod", [array, tensor], ids=["numpy", "torch"])


def to(mod: Any, x: Any) -> Any:
    return np.asarray(x) if mod is array else torch.as_tensor(np.asarray(x))


def numpy(x: Any) -> Any:
    return np.asarray(x)


@np_or_torch
@pytest.mark.parametrize("lead", [(), (4,), (3, 4)])
@pytest.mark.parametrize("trail", [(), (2,), (2, 5)])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_select_at_indexes(mod: Any, lead: Any, trail: Any, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=lead + (6,) + trail)
    indexes = rng.integers(6, size=lead).astype(dtype)
    y = mod.select_at_indexes(to(mod, indexes), to(mod, x))
    assert y.shape == lead + trail
    for i in np.ndindex(*lead):
        assert (numpy(y)[i] == x[i][indexes[i]]).all()


@np_or_torch
@pytest.mark.parametrize(
    ("i_shape", "x_shape"), [((3,), (4, 2)), ((3,), (3,)), ((3, 1), (3, 2, 5))]
)
def test_select_at_indexes_refuses_other_shapes(mod: Any, i_shape: Any, x_shape: Any) -> None:
    with pytest.raises(ValueError, match="indexes"):
        mod.select_at_indexes(to(mod, np.zeros(i_shape, np.int64)), to(mod, np.zeros(x_shape)))


@pytest.mark.parametrize("trail", [(), (4,), (2, 3)])
def test_select_at_indexes_has_a_gradient(trail: Any) -> None:
    x = torch.zeros(2, 3, *trail, requires_grad=True)
    tensor.select_at_indexes(torch.tensor([2, 0]), x).sum().backward()
    expected = torch.tensor([[0.0, 0, 1], [1, 0, 0]]).reshape((2, 3) + (1,) * len(trail))
    assert x.grad is not None
    assert (x.grad == expected).all()


@np_or_torch
@pytest.mark.parametrize("indexes", [2, [0, 2], [[1, 1], [0, 2]]], ids=str)
def test_onehot_there_and_back(mod: Any, indexes: Any) -> None:
    x = to(mod, indexes)
    onehot = mod.to_onehot(x, 3)
    assert onehot.dtype == x.dtype
    assert (numpy(onehot) == np.eye(3)[np.asarray(indexes)]).all()
    assert (numpy(mod.from_onehot(onehot)) == indexes).all()
    dtypes: Any = (np.float32, np.uint8) if mod is array else (torch.float32, torch.uint8)
    assert mod.to_onehot(x, 3, dtype=dtypes[0]).dtype == dtypes[0]
    back = mod.from_onehot(onehot, dtype=dtypes[1])
    assert back.dtype == dtypes[1]
    assert back.shape == x.shape


def test_from_onehot_along_another_dim() -> None:
    assert tensor.from_onehot(torch.eye(3)[:, [2, 0]], dim=0).tolist() == [2, 0]


X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
VALID = [[1, 1, 0], [1, 0, 0]]


@np_or_torch
@pytest.mark.parametrize("dtype", [np.bool_, np.float64, np.int64])
@pytest.mark.parametrize(
    ("axis", "expected"), [(None, 7 / 3), (0, [2.5, 2, np.nan]), (1, [1.5, 4]), (-1, [1.5, 4])]
)
def test_valid_mean(mod: Any, dtype: Any, axis: Any, expected: Any) -> None:
    x, valid = to(mod, np.float32(X)), to(mod, np.asarray(VALID, dtype=dtype))
    np.testing.assert_allclose(numpy(mod.valid_mean(x, valid, axis)), expected, rtol=1e-6)
    np.testing.assert_allclose(numpy(mod.valid_mean(x, None, axis)), np.mean(X, axis=axis))
    assert mod.valid_mean(x, valid, axis).dtype == x.dtype


@np_or_torch
def test_valid_mean_of_nothing_is_nan(mod: Any) -> None:
    assert np.isnan(numpy(mod.valid_mean(to(mod, X), to(mod, np.zeros((2, 3))))))
    assert mod.valid_mean(to(mod, X), to(mod, VALID), (0, 1)) == pytest.approx(7 / 3)


@pytest.mark.parametrize(
    ("lead", "T", "B"), [((), 1, 1), ((5,), 1, 5), ((4, 5), 4, 5)], ids=["[]", "[B]", "[T,B]"]
)
@pytest.mark.parametrize("shape", [(), (3,), (1, 8, 9)])
def test_leading_dims_there_and_back(lead: Any, T: int, B: int, shape: Any) -> None:
    x = torch.arange(np.prod(lead + shape, dtype=int)).reshape(lead + shape)
    got = tensor.infer_leading_dims(x, len(shape))
    assert got == (len(lead), T, B, torch.Size(shape))
    assert array.infer_leading_dims(x.numpy(), len(shape)) == (
        (T, B, shape, len(lead) == 2, len(lead) > 0)
    )
    flat = x.reshape((T * B,) + shape)
    restored = tensor.restore_leading_dims(flat, len(lead), T, B)
    assert restored.equal(x)
    for several in ((flat, 2 * flat), [flat, 2 * flat]):
        first, second = tensor.restore_leading_dims(several, len(lead), T, B)
        assert first.equal(x)
        assert second.equal(2 * x)
    assert type(tensor.restore_leading_dims([flat], len(lead), T, B)) is tuple


@np_or_torch
@pytest.mark.parametrize(("shape", "dim"), [((2, 3, 4), 0), ((2,), 2)])
def test_too_many_or_too_few_leading_dims(mod: Any, shape: Any, dim: int) -> None:
    with pytest.raises(ValueError, match="data dimensions"):
        mod.infer_leading_dims(to(mod, np.zeros(shape)), dim)


def test_a_batch_cannot_lose_its_dimension() -> None:
    with pytest.raises(ValueError, match="B is 3"):
        tensor.restore_leading_dims(torch.zeros(3, 2), lead_dim=0, B=3)

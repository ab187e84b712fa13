"""Nested structures of arrays within one process."""

from __future__ import annotations

import pickle
from collections import namedtuple
from multiprocessing.context import set_spawning_popen
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.utils.buffer import (
    buffer_from_example,
    buffer_func,
    buffer_method,
    buffer_to,
    build_array,
    get_leading_dims,
    map_buffer,
    np_mp_array_spawn,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import (
    NamedArrayTuple,
    NamedArrayTupleSchema,
    NamedTupleSchema,
    is_namedarraytuple,
    is_namedtuple,
    namedarraytuple,
)

Info = namedarraytuple("Info", ["value", "empty", "missing"])
NoInfo = namedtuple("NoInfo", [])
Obs = namedtuple("Obs", ["image", "info"])
ObsSchema = NamedTupleSchema("Obs", ["image", "info"])


def example(cls: Any = Obs) -> Any:
    return cls(np.ones((2, 3), dtype=np.uint8), Info(np.float32(1), NoInfo(), None))


@pytest.mark.parametrize("share_memory", [False, True])
@pytest.mark.parametrize("cls", [Obs, ObsSchema], ids=["namedtuple", "schema"])
def test_buffer_from_example(cls: Any, share_memory: bool) -> None:
    x = buffer_from_example(example(cls), (4, 5), share_memory)
    assert isinstance(x, NamedArrayTuple) if cls is ObsSchema else is_namedarraytuple(x)
    assert x._fields == ("image", "info")
    assert (x.image.shape, x.image.dtype) == ((4, 5, 2, 3), np.uint8)
    assert (x.info.value.shape, x.info.value.dtype) == ((4, 5), np.float32)
    assert type(x.info) is Info
    assert not x.info.empty
    assert is_namedarraytuple(x.info.empty)
    assert x.info.missing is None
    assert not x.image.any()
    x[2, 3] = example()
    assert x.image.sum() == 6
    assert x.info.value[2, 3] == 1
    assert pickle.loads(pickle.dumps(x)).image.sum() == 6


def test_the_style_of_records_can_be_chosen() -> None:
    for cls in (Obs, ObsSchema):
        assert isinstance(buffer_from_example(example(cls), 3, use_NatSchema=True), NamedArrayTuple)
        nat = buffer_from_example(example(cls), 3, use_NatSchema=False)
        assert is_namedarraytuple(nat)
        assert is_namedarraytuple(nat.info)
    assert isinstance(buffer_from_example(example(), 3, use_NatSchema=True).info, NamedArrayTuple)


@pytest.mark.parametrize(
    ("leaf", "shape", "dtype"),
    [
        (1.0, (), np.float64),
        (1, (), np.int64),
        (True, (), np.bool_),
        (np.int32(2), (), np.int32),
        ((1.0, 2.0), (2,), np.float64),
        ([[1], [2]], (2, 1), np.int64),
        (torch.zeros(3, dtype=torch.float16), (3,), np.float16),
        (torch.ones(2, requires_grad=True), (2,), np.float32),
        (np.zeros((2, 0)), (2, 0), np.float64),
    ],
    ids=str,
)
@pytest.mark.parametrize("share_memory", [False, True])
def test_build_array(leaf: Any, shape: Any, dtype: Any, share_memory: bool) -> None:
    """Shared arrays of size zero could not be made."""
    for leading_dims in (4, np.int64(4), (4,), [4, 5], (4, 0), ()):
        x = build_array(leaf, leading_dims, share_memory)
        dims = (4,) if np.ndim(leading_dims) == 0 else tuple(leading_dims)
        assert (x.shape, x.dtype) == (dims + shape, dtype)
        assert not x.any()
        assert x.flags.writeable
        assert x.flags.c_contiguous


def test_torchify_and_numpify_share_memory() -> None:
    x = buffer_from_example(example(), (4, 5))
    t = torchify_buffer(x)
    assert type(t) is type(x)
    assert isinstance(t.image, torch.Tensor)
    assert t.info.missing is None
    t[1] = 3
    assert (x.image[1] == 3).all()
    assert torchify_buffer(t).image is t.image
    back = numpify_buffer(t)
    back.image[2] = 5
    assert (t.image[2] == 5).all()
    assert numpify_buffer(x).image is x.image


@pytest.mark.parametrize("scalar", [3, 2.5, True, np.float32(1), np.int64(7)], ids=repr)
def test_scalars_become_arrays_without_dimensions(scalar: Any) -> None:
    """A plain number, e.g. the observation of a discrete space, could not be converted."""
    t = torchify_buffer(Obs(scalar, None))
    assert t.image.shape == ()
    assert t.image.item() == scalar
    n = numpify_buffer((scalar,))
    assert isinstance(n[0], np.ndarray)
    assert n[0] == scalar


def test_structures_keep_their_types() -> None:
    schema = NamedArrayTupleSchema("S", "a b")
    x = (np.zeros(2), (None, Obs(np.ones(2), ())), schema(np.zeros(1), None))
    y = map_buffer(lambda a: a + 1, x)
    assert type(y) is tuple
    assert type(y[1]) is tuple
    assert y[1][0] is None
    assert is_namedtuple(y[1][1])
    assert y[1][1].image.tolist() == [2, 2]
    assert y[1][1].info == ()
    assert isinstance(y[2], NamedArrayTuple)
    assert y[2].a.tolist() == [1]
    assert map_buffer(lambda a: a, None) is None


def test_buffer_to() -> None:
    t = torchify_buffer(example())
    for device in (None, "cpu", torch.device("cpu")):
        moved = buffer_to(t, device=device)
        assert type(moved) is type(t)
        assert moved.image is t.image
    assert buffer_to(t, "meta").image.device.type == "meta"
    assert buffer_to(None) is None


def test_buffer_method_and_func() -> None:
    x = example()
    assert buffer_method(x, "astype", np.float32).image.dtype == np.float32
    assert buffer_method(x, "sum", axis=0).image.tolist() == [2, 2, 2]
    assert buffer_func(x, np.full_like, 3).image.sum() == 18
    assert buffer_func(x.image, np.sum, axis=1).tolist() == [3, 3]
    assert buffer_func(None, np.sum) is None
    t = buffer_method(torchify_buffer(x), "unsqueeze", 0)
    assert t.image.shape == (1, 2, 3)


def test_get_leading_dims() -> None:
    """A record without fields, such as an empty env_info, used to raise."""
    x = buffer_from_example(example(), (4, 5))
    assert get_leading_dims(x) == (4,)
    assert get_leading_dims(torchify_buffer(x), n_dim=2) == (4, 5)
    assert get_leading_dims((np.zeros((3, 2)), NoInfo(), (), None)) == (3,)
    assert get_leading_dims(None) is None
    assert get_leading_dims(NoInfo()) is None


def test_the_array_for_spawn_has_its_place() -> None:
    x = np_mp_array_spawn((4, 6), np.int32)
    x[:] = np.arange(24).reshape(4, 6)
    set_spawning_popen(object())
    for view in (x, x[1:], x[:, 2], x[::2, ::-1], x.T, x.view(np.int16), x[2:2]):
        cls, (shape, dtype, block, offset, strides, order) = view.__reduce__()
        again = cls(shape, dtype, block, offset, strides, order)
        assert again.dtype == view.dtype
        assert (again == view).all()
        assert np.shares_memory(again, x) == (view.size > 0)
    set_spawning_popen(None)
    with pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(x)


def test_results_of_arithmetic_are_ordinary_arrays() -> None:
    x = np_mp_array_spawn(3, np.float64)
    y = pickle.loads(pickle.dumps(x + 1))
    assert type(y) is np.ndarray
    assert y.tolist() == [1, 1, 1]

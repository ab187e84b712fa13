"""Arrays in named shared memory."""

from __future__ import annotations

import gc
import multiprocessing as mp
from typing import Any

import numpy as np
import pytest

from rlpyt.utils.shmemarray import (
    NpShmemArray,
    ShmemRawArray,
    get_random_tag,
    typecode_to_type,
)


def child(tag: str, shape: tuple[int, ...]) -> None:
    x = NpShmemArray(shape, np.float32, tag, create=False)
    x[1] = x[0] + 1


def test_another_process_opens_it_by_name() -> None:
    tag = get_random_tag()
    x = NpShmemArray((2, 3), np.float32, tag)
    assert not x.any()
    x[0] = 4
    process = mp.get_context("fork").Process(target=child, args=(tag, (2, 3)))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert (x[1] == 5).all()


def test_the_creator_removes_the_name_and_views_keep_the_memory() -> None:
    tag = get_random_tag()
    x = NpShmemArray((4,), np.int64, tag)
    view = x[1:]
    del x
    gc.collect()
    view[:] = 3
    assert NpShmemArray((4,), np.int64, tag, create=False).tolist() == [0, 3, 3, 3]
    del view
    gc.collect()
    with pytest.raises(FileNotFoundError):
        NpShmemArray((4,), np.int64, tag, create=False)


def test_a_name_cannot_be_created_twice() -> None:
    tag = get_random_tag()
    x = ShmemRawArray("i", 3, tag)
    with pytest.raises(FileExistsError):
        ShmemRawArray("i", 3, tag)
    assert list(x) == [0, 0, 0]


@pytest.mark.parametrize("typecode", ["i", "d", "B", typecode_to_type["f"]], ids=str)
def test_raw_arrays_have_types_and_initial_values(typecode: Any) -> None:
    tag = get_random_tag()
    x = ShmemRawArray(typecode, [1, 2, 3], tag)
    assert list(x) == [1, 2, 3]
    assert isinstance(x, typecode_to_type.get(typecode, typecode) * 3)
    y = ShmemRawArray(typecode, 3, tag, create=False)
    y[0] = 9
    assert x[0] == 9


def test_size_zero_and_wrong_names() -> None:
    assert NpShmemArray((3, 0), np.float32, get_random_tag()).shape == (3, 0)
    with pytest.raises(ValueError, match="tag"):
        ShmemRawArray("i", 3, "no:colons")


def test_random_tags_are_nine_digits() -> None:
    assert len(get_random_tag()) == 9
    assert get_random_tag().isdigit()

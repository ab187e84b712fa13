"""Arrays in named shared memory."""

import gc
import multiprocessing as mp

import numpy as np
import pytest

from rlpyt.utils.shmemarray import NpShmemArray, ShmemRawArray, get_random_tag, typecode_to_type


def child(tag):
    x = NpShmemArray((2, 3), np.float32, tag, create=False)
    x[1] = x[0] + 1


def test_another_process_opens_it_by_name_and_views_keep_the_memory():
    tag = get_random_tag()
    assert len(tag) == 9
    x = NpShmemArray((2, 3), np.float32, tag)
    assert not x.any()
    x[0] = 4
    process = mp.get_context("fork").Process(target=child, args=(tag,))
    process.start()
    process.join(30)
    assert (x[1] == 5).all()
    view = x[1:]
    del x
    gc.collect()
    view[:] = 3
    assert NpShmemArray((2, 3), np.float32, tag, create=False)[1].tolist() == [3, 3, 3]
    del view
    gc.collect()
    with pytest.raises(FileNotFoundError):  # The name went with its creator.
        NpShmemArray((2, 3), np.float32, tag, create=False)


@pytest.mark.parametrize("typecode", ["i", typecode_to_type["f"]], ids=str)
def test_raw_arrays_have_types_and_initial_values(typecode):
    tag = get_random_tag()
    x = ShmemRawArray(typecode, [1, 2, 3], tag)
    assert isinstance(x, typecode_to_type.get(typecode, typecode) * 3)
    with pytest.raises(FileExistsError):
        ShmemRawArray("i", 3, tag)
    y = ShmemRawArray(typecode, 3, tag, create=False)
    y[0] = 9
    assert list(x) == [9, 2, 3]


def test_size_zero():
    assert NpShmemArray((3, 0), np.float32, get_random_tag()).shape == (3, 0)

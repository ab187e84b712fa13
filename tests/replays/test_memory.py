"""Memory of batches is used again, but never while anybody may look at it."""

import gc
import pickle

import numpy as np
import pytest
import torch

from rlpyt.replays import _memory
from rlpyt.replays._memory import BatchMemory

SHAPE = (3, 100, 8192)  # 2.4 MiB.


@pytest.fixture(autouse=True)
def _batches_are_large(monkeypatch):
    monkeypatch.setattr(_memory, "LARGE", 1 << 20)


def address(array):
    return array.ctypes.data


def test_free_memory_is_used_again():
    memory = BatchMemory()
    first = memory.empty(SHAPE, np.uint8)
    at = address(first)
    del first
    again = memory.empty((1, 100, 3000), np.float32)
    assert address(again) != at, "much smaller batches leave large blocks alone"
    del again
    memory = BatchMemory()
    at = address(memory.empty(SHAPE, np.uint8))
    assert address(memory.empty((3, 100, 2048), np.float32)) == at


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x,
        lambda x: x[1:, 5],
        lambda x: x.reshape(-1).view(np.int64)[::7],
        lambda x: torch.from_numpy(x),
        lambda x: torch.from_numpy(x)[0].transpose(0, 1),
        lambda x: torch.from_numpy(x[2]).numpy()[1:],
        lambda x: memoryview(x),
    ],
)
def test_memory_in_use_is_not_given_out(use):
    memory = BatchMemory()
    array = memory.empty(SHAPE, np.uint8)
    array[:] = 1
    held = use(array)
    at = address(array)
    del array
    others = [memory.empty(SHAPE, np.uint8) for _ in range(3)]
    for other in others:
        assert address(other) != at
        other[:] = 2
    assert np.asarray(held).astype(np.uint8).max() == 1
    del held, other
    gc.collect()
    assert address(memory.empty(SHAPE, np.uint8)) == at


def test_no_more_than_two_blocks_are_kept():
    memory = BatchMemory()
    arrays = [memory.empty(SHAPE, np.uint8) for _ in range(5)]
    assert len({address(array) for array in arrays}) == 5
    arrays.clear()
    assert len(memory._free) == 2


def test_small_arrays_are_ordinary():
    array = BatchMemory().empty((3, 4), np.float32)
    assert array.flags.owndata


def test_a_copy_in_another_process_has_memory_of_its_own():
    memory = BatchMemory(n_kept=3)
    memory.empty(SHAPE, np.uint8)
    state = pickle.dumps(memory)
    assert len(state) < 1000
    assert pickle.loads(state).n_kept == 3

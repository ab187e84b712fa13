"""Arrays, locks and records passed to processes, for each start method."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rlpyt.processes.rwlock import ReadWriteLock
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.collections import AttrDict, namedarraytuple, namedarraytuple_like, record_class
from rlpyt.utils.synchronize import drain_queue

Local = namedarraytuple("Local", ["a", "nothing", "inner"])
N_INCREMENTS = 200


@pytest.fixture(params=["fork", "forkserver"])
def context(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The default context, set to each start method."""
    before = mp.get_start_method(allow_none=True)
    mp.set_start_method(request.param, force=True)
    yield mp.get_context()
    mp.set_start_method(before, force=True)


def child(buffer: Any, view: Any, record: Any, lock: ReadWriteLock, queue: Any) -> None:
    """Write into shared arrays, count under the lock, and send records of every kind."""
    buffer[1] = 3
    torchify_buffer(view)[:] = 7
    for _ in range(N_INCREMENTS):
        with lock.write_lock:
            buffer.inner.p[2] += 1
    queue.put(record[0])
    queue.put(record_class("MadeInChild", "x y")(1, Local(np.arange(2), None, None)))
    queue.put(AttrDict(Return=1.5))
    queue.put(None)


def test_arrays_locks_and_records_cross(context: Any) -> None:
    example = Local(np.float32(0), None, record_class("Dynamic", "p e")(0, np.zeros((2, 0))))
    buffer = buffer_from_example(example, (4, 3), share_memory=True)
    record = namedarraytuple_like(record_class("Info", "i"))(np.arange(3))
    lock, queue = ReadWriteLock(), context.Queue()
    args = (buffer, buffer.a[3, ::2], record, lock, queue)
    process = context.Process(target=child, args=args)
    process.start()
    for _ in range(N_INCREMENTS):
        with lock.write_lock:
            buffer.inner.p[2] += 1
    received = drain_queue(queue, n_sentinel=1)
    process.join(60)

    assert process.exitcode == 0
    assert (buffer.a[1] == 3).all()
    assert buffer.a[3].tolist() == [7, 0, 7]
    assert (buffer.inner.p[2] == 2 * N_INCREMENTS).all()
    assert buffer.inner.e.shape == (4, 3, 2, 0)
    info, made, traj_info = received
    assert type(info) is record_class("Info", "i")
    assert info.i == 0
    assert type(made) is record_class("MadeInChild", "x y")
    assert type(made.y) is Local
    assert made.y[1].a == 1
    assert traj_info.Return == 1.5

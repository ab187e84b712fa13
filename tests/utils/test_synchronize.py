"""Locks between real processes, queues and ports."""

from __future__ import annotations

import multiprocessing as mp
import queue
import socket
from typing import Any

import pytest

from rlpyt.utils import synchronize
from rlpyt.utils.synchronize import PipeLock, RWLock, drain_queue, find_port

FORK = mp.get_context("fork")
SOON, LATE = 0.05, 30


def run(target: Any, *args: Any) -> Any:
    process = FORK.Process(target=target, args=args)
    process.start()
    return process


def free(lock: RWLock) -> bool:
    """Whether a writer could enter now."""
    entered = lock.write_lock.acquire(block=False)
    if entered:
        lock.write_lock.release()
    return entered


def read(lock: RWLock, entered: Any, leave: Any) -> None:
    with lock:
        entered.release()
        leave.acquire()


def write(lock: RWLock, entered: Any) -> None:
    lock.acquire_write()
    entered.release()
    lock.release_write()


def count(lock: PipeLock, counter: Any, n: int) -> None:
    for _ in range(n):
        with lock:
            counter.value += 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_lock_goes_to_processes_of_any_kind(method: str) -> None:
    # A lock of multiprocessing that was made for fork cannot be handed to a spawned process.
    lock, context = PipeLock(), mp.get_context(method)
    counter = context.RawValue("l", 0)
    process = context.Process(target=count, args=(lock, counter, 2000))
    process.start()
    count(lock, counter, 2000)
    process.join(LATE)
    assert counter.value == 4000


def test_a_lock_is_had_by_one_and_given_back_once() -> None:
    lock = PipeLock()
    with lock:
        assert not lock.acquire(block=False)
        assert not lock.acquire(timeout=SOON)
    assert lock.acquire(timeout=SOON)
    lock.release()
    with pytest.raises(ValueError, match="released a lock that nobody had"):
        lock.release()


def test_readers_overlap_and_keep_a_writer_out() -> None:
    lock = RWLock()
    entered, leave, written = FORK.Semaphore(0), FORK.Semaphore(0), FORK.Semaphore(0)
    readers = [run(read, lock, entered, leave) for _ in range(2)]
    for _ in readers:
        assert entered.acquire(timeout=LATE)
    writer = run(write, lock, written)
    leave.release()
    assert not written.acquire(timeout=SOON)
    assert not free(lock)
    leave.release()
    assert written.acquire(timeout=LATE)
    for process in (*readers, writer):
        process.join(LATE)
        assert process.exitcode == 0
    assert free(lock)


def test_a_writer_keeps_readers_out() -> None:
    lock = RWLock()
    entered, leave = FORK.Semaphore(0), FORK.Semaphore(1)
    with lock.write_lock:
        reader = run(read, lock, entered, leave)
        assert not entered.acquire(timeout=SOON)
    assert entered.acquire(timeout=LATE)
    reader.join(LATE)
    assert free(lock)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_another_process_may_release(kind: str) -> None:
    lock = RWLock()
    getattr(lock, f"acquire_{kind}")()
    run(getattr(lock, f"release_{kind}")).join(LATE)
    assert free(lock)


def test_a_release_too_many_is_an_error() -> None:
    lock = RWLock()
    with pytest.raises(ValueError, match="release_read"):
        lock.release_read()
    with lock:
        pass
    assert free(lock)


def full(*items: Any) -> Any:
    q: Any = queue.Queue()
    for item in items:
        q.put(item)
    return q


@pytest.mark.parametrize(
    ("items", "kwargs", "taken", "left"),
    [
        ((), {}, [], 0),
        ((1, 2), {}, [1, 2], 0),
        ((1, None, 2, None), {}, [1, 2], 0),
        ((1, None, 2), {"guard_sentinel": True}, [1], 2),
        ((1, 2), {"guard_sentinel": True}, [1, 2], 0),
        ((1, None, 2), {"n_sentinel": 1}, [1], 1),
        ((None, 1, None, 2), {"n_sentinel": 2}, [1], 1),
        ((0, False, None), {"n_sentinel": 1}, [0, False], 0),
    ],
)
def test_drain_queue(items: Any, kwargs: Any, taken: list[Any], left: int) -> None:
    q = full(*items)
    assert drain_queue(q, **kwargs) == taken
    assert q.qsize() == left


def put_all(q: Any, items: list[Any]) -> None:
    for item in items:
        q.put(item)


def test_drain_queue_waits_for_the_sentinels_of_all_producers() -> None:
    q = FORK.Queue()
    producers = [run(put_all, q, [i, i + 10, None]) for i in range(2)]
    assert sorted(drain_queue(q, n_sentinel=2)) == [0, 1, 10, 11]
    for producer in producers:
        producer.join(LATE)
    assert drain_queue(q) == []


def test_find_port_skips_ports_in_use() -> None:
    first = find_port(57)
    assert first % 100 == 57
    assert 29500 <= first < 65000
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        second = find_port(57)
    assert second > first
    assert second % 100 == 57


def test_find_port_takes_any_offset() -> None:
    """On machines with more than 100 CPUs the offset, a CPU, used to be refused."""
    assert find_port(40_057) % 100 == 57


def test_find_port_says_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "_LAST_PORT", 29600)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", find_port(58)))
        with pytest.raises(RuntimeError, match="29558"):
            find_port(58)

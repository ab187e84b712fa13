"""Semaphores, barriers and queues between real processes."""

import queue

import pytest

from rlpyt.utils.processes.primitives import Barrier, CountedQueue, Semaphore
from rlpyt.utils.processes.supervisor import Supervisor
from rlpyt.utils.synchronize import drain_queue

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture
def supervisor():
    supervisor = Supervisor("fork", time_limit_s=1.0)
    yield supervisor
    supervisor.terminate()


def count_and_wait(barrier, counts, rank, n):
    for i in range(n):
        counts[rank] += 1
        barrier.wait()
        assert set(counts) == {i + 1}, list(counts)
        barrier.wait()


@pytest.mark.parametrize("method", METHODS)
def test_no_process_passes_a_barrier_early(method):
    n, parties = 300, 4
    supervisor = Supervisor(method)
    barrier, counts = Barrier(supervisor, parties), supervisor.context.RawArray("l", parties)
    for rank in range(1, parties):
        kwargs = dict(barrier=barrier, counts=counts, rank=rank, n=n)
        supervisor.start(count_and_wait, kwargs, f"counter {rank}")
    count_and_wait(barrier, counts, 0, n)
    assert not barrier.is_complete()
    supervisor.join()
    assert list(counts) == [n] * parties
    assert [child.process.exitcode for child in supervisor.children] == [0] * 3


def put_all(items, barrier, rank):
    for i in range(100):
        items.put((rank, i, bytes(2000)))
    barrier.wait()


def test_what_was_put_before_a_barrier_is_there_after_it(supervisor):
    items, barrier = CountedQueue(supervisor, 2), Barrier(supervisor, 3)
    for rank in range(2):
        supervisor.start(put_all, dict(items=items, barrier=barrier, rank=rank), f"{rank}")
    barrier.wait()
    received = [item[:2] for item in drain_queue(items)]
    with pytest.raises(queue.Empty):
        items.get(block=False)
    assert sorted(received) == [(rank, i) for rank in range(2) for i in range(100)]


def test_what_cannot_be_sent_is_refused_where_it_is_put(supervisor):
    # It used to be counted and dropped, so that the reader waited for ever.
    items = CountedQueue(supervisor)
    with pytest.raises(TypeError, match="cannot be sent to another process .*at the top of a mod"):
        items.put(lambda: None)
    items.put((1, 2))
    assert items.get() == (1, 2)


def answer(question, reply, n):
    for _ in range(n):
        question.acquire()
        reply.release()


@pytest.mark.parametrize("method", METHODS)
def test_semaphores(method):
    supervisor = Supervisor(method)
    question, reply = Semaphore(supervisor), Semaphore(supervisor, released_by=0)
    supervisor.start(answer, dict(question=question, reply=reply, n=3), "echo")
    for _ in range(3):
        assert not reply.acquire(block=False)
        question.release()
        reply.acquire()
    supervisor.join()

"""Semaphores, barriers and queues between real processes."""

import os
import queue
import signal
import time

import pytest

from rlpyt.processes.primitives import Barrier, CountedQueue, Semaphore
from rlpyt.processes.supervisor import Supervisor, WorkerError
from rlpyt.utils.synchronize import drain_queue
from tests.processes.test_supervisor import supervisor as supervisor
from tests.selection import FULL


def count_and_wait(barrier, counts, rank, n):
    for i in range(n):
        counts[rank] += 1
        barrier.wait()
        assert set(counts) == {i + 1}, list(counts)
        barrier.wait()


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.full)])
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


@pytest.mark.parametrize("method", ["fork", *["spawn"] * FULL])  # test_sync_rl spawns.
def test_semaphores(method):
    supervisor = Supervisor(method)
    question, reply = Semaphore(supervisor), Semaphore(supervisor, released_by=0)
    supervisor.start(answer, dict(question=question, reply=reply, n=3), "echo")
    for _ in range(3):
        assert not reply.acquire(block=False)
        question.release()
        reply.acquire()
    supervisor.join()


# --- Restarts ------------------------------------------------------------------------------------


class Crew:
    """Two processes that send items and meet; the second dies at a place, once."""

    def __init__(self, supervisor, where):
        self.supervisor, self.where = supervisor, where
        self.barrier, self.items = Barrier(supervisor, 3), CountedQueue(supervisor, 2)
        self.n_starts = [0, 0]
        for index in range(2):
            self.start(index)
        supervisor.allow_restarts(self.start, 3)

    def start(self, index):
        fails = index == 1 and self.n_starts[1] == 0
        self.n_starts[index] += 1
        kwargs = dict(
            barrier=self.barrier.at(index),
            items=self.items.at(index),
            name=(index, self.n_starts[index]),
            where=self.where if fails else None,
        )
        self.supervisor.start(send_and_meet, kwargs, f"{index}", index=index)


def die_at(place, where):
    if place == where:
        os.kill(os.getpid(), signal.SIGKILL)


def send_and_meet(barrier, items, name, where):
    die_at("start", where)
    items.put((name, bytes(3_000_000)))  # Larger than a pipe.
    die_at("sending", where)
    items.put((name, b""))
    barrier.wait()
    die_at("barrier", where)
    barrier.wait()


@pytest.mark.parametrize("where", ["start", "sending", "barrier"])
def test_a_process_that_died_leaves_nothing_behind(supervisor, where):
    crew = Crew(supervisor, where)
    with supervisor.task():
        crew.barrier.wait()
        received = crew.items.get_all()
        crew.barrier.collect()
        assert supervisor.absent == supervisor.restarted == {1}
        supervisor.admit_restarted()
        assert supervisor.absent == {0}
        for _ in range(2):
            crew.barrier.wait()
        received += crew.items.get_all()
        supervisor.absent = set()
        crew.barrier.open()
    assert crew.n_starts == [1, 2]
    names = [name for name, _ in received]
    assert names.count((0, 1)) == names.count((1, 2)) == 2
    assert where == "barrier" or (1, 1) not in names, "its items are dropped"
    supervisor.join()


def put_and_die(items, item, dies):
    items.put(item)
    time.sleep(0.3)  # Until it is sent.
    die_at("sent", "sent" if dies else None)


def test_what_a_process_sent_before_it_died_is_taken(supervisor):
    """The queue used to look for failures, and to drop it, while another item was on its way."""
    items, started = CountedQueue(supervisor, 2), []

    def start(index):
        kwargs = dict(item=bytes(30_000_000 if index == 0 else 1), dies=index not in started)
        started.append(index)
        kwargs["dies"] &= index == 1
        supervisor.start(put_and_die, dict(items=items.at(index), **kwargs), "", index=index)

    start(0)
    start(1)
    supervisor.allow_restarts(start, 3)
    died = supervisor.children[1].process
    with supervisor.task():
        died.join()
        assert sorted(len(item) for item in items.get_all()) == [1, 30_000_000]
        supervisor.absent = set()
    supervisor.terminate()


def test_a_process_that_fails_outside_of_a_task_is_not_started_again(supervisor):
    crew = Crew(supervisor, "start")
    with pytest.raises(WorkerError, match="was ended by SIGKILL"):
        crew.barrier.wait()
    assert crew.n_starts == [1, 1]


def test_units_for_an_absent_process_are_not_counted(supervisor):
    question, reply = Semaphore(supervisor, acquired_by=0), Semaphore(supervisor, released_by=0)
    supervisor.absent = {0}
    question.release()
    assert reply.acquire(), "nobody is waited for"
    supervisor.absent = set()
    assert not question.acquire(block=False)

"""Order of readers and writers, and the lock after the death of its holder."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from rlpyt.processes.rwlock import ReadWriteLock

WAIT_S = 30.0
PAUSE_S = 0.2  # For something that should not happen.

fork = mp.get_context("fork")


def hold(side: Any, begun: Any, entered: Any, leave: Any) -> None:
    begun.set()
    with side:
        entered.set()
        leave.wait(WAIT_S)


class Holder:
    """Another process that holds one side of a lock until told to leave."""

    def __init__(self, side: Any) -> None:
        events = begun, self.entered, self.leave = fork.Event(), fork.Event(), fork.Event()
        self.process = fork.Process(target=hold, args=(side, *events))
        self.process.start()
        assert begun.wait(WAIT_S)

    def stop(self) -> None:
        self.leave.set()
        self.process.join(WAIT_S)
        assert self.process.exitcode == 0

    def is_kept_out(self) -> bool:
        return not self.entered.wait(PAUSE_S)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(WAIT_S)


def in_thread(fn: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=fn)
    thread.start()
    return thread


def test_readers_do_not_wait_for_each_other() -> None:
    lock = ReadWriteLock()
    readers = [Holder(lock) for _ in range(2)]
    assert all(reader.entered.wait(WAIT_S) for reader in readers)
    with lock:
        pass
    for reader in readers:
        reader.stop()


@pytest.mark.parametrize(
    ("first", "second"), [("read", "write"), ("write", "read"), ("write", "write")]
)
def test_writers_are_alone(first: str, second: str) -> None:
    lock = ReadWriteLock()
    sides = {"read": lock, "write": lock.write_lock}
    one = Holder(sides[first])
    assert one.entered.wait(WAIT_S)
    other = Holder(sides[second])
    assert other.is_kept_out()
    one.stop()
    assert other.entered.wait(WAIT_S)
    other.stop()


def read_for_ever(lock: ReadWriteLock, begun: Any, stop: Any) -> None:
    while not stop.is_set():
        with lock:
            begun.set()
            time.sleep(0.02)


def test_readers_that_overlap_do_not_keep_a_writer_waiting() -> None:
    lock = ReadWriteLock()
    begun, stop = [fork.Event() for _ in range(3)], fork.Event()
    readers = [fork.Process(target=read_for_ever, args=(lock, each, stop)) for each in begun]
    for reader in readers:
        reader.start()
    assert all(each.wait(WAIT_S) for each in begun)
    start = time.monotonic()
    for _ in range(5):
        with lock.write_lock:
            pass
    assert time.monotonic() - start < WAIT_S
    stop.set()
    for reader in readers:
        reader.join(WAIT_S)


def test_a_killed_reader_leaves_nothing_behind() -> None:
    """A count of readers would keep its place for ever."""
    lock = ReadWriteLock()
    reader = Holder(lock)
    assert reader.entered.wait(WAIT_S)
    reader.kill()
    with lock.write_lock:
        pass
    with lock:
        pass


def test_what_a_killed_writer_left_is_refused() -> None:
    """Others used to wait for it for ever."""
    lock = ReadWriteLock()
    writer = Holder(lock.write_lock)
    assert writer.entered.wait(WAIT_S)
    writer.kill()
    for side in (lock, lock.write_lock, lock):
        with pytest.raises(RuntimeError, match=f"process {writer.process.pid} ended"), side:
            raise AssertionError
        other = Holder(lock.write_lock)  # It does not wait for those that were refused.
        other.process.join(WAIT_S)
        assert other.process.exitcode == 1


def test_a_waiting_reader_hears_of_the_death_of_the_writer() -> None:
    lock = ReadWriteLock()
    writer = Holder(lock.write_lock)
    assert writer.entered.wait(WAIT_S)

    def kill() -> None:
        time.sleep(PAUSE_S)
        writer.kill()

    thread = in_thread(kill)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=f"process {writer.process.pid} ended"), lock:
        raise AssertionError
    assert time.monotonic() - start < WAIT_S
    thread.join(WAIT_S)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_of_a_writer_is_as_bad_as_its_death(error: type[BaseException]) -> None:
    lock = ReadWriteLock()
    with pytest.raises(error), lock.write_lock:
        raise error
    with pytest.raises(RuntimeError, match=f"process {os.getpid()} ended or failed"), lock:
        raise AssertionError


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_a_refusal_has_changed_nothing(error: type[BaseException]) -> None:
    lock = ReadWriteLock()
    with pytest.raises(error), lock.write_lock:
        raise error
    with lock:
        pass


def test_an_error_of_a_reader_is_its_own_affair() -> None:
    lock = ReadWriteLock()
    with pytest.raises(OSError, match="x"), lock:
        raise OSError("x")
    with lock.write_lock:
        pass


def test_a_holder_may_take_it_again() -> None:
    lock = ReadWriteLock()
    with lock.write_lock, lock.write_lock, lock:
        reader = Holder(lock)
        assert reader.is_kept_out()
    assert reader.entered.wait(WAIT_S)
    reader.stop()
    with lock, lock:
        writer = Holder(lock.write_lock)
        assert writer.is_kept_out()
    assert writer.entered.wait(WAIT_S)
    writer.stop()


def test_a_reader_cannot_become_a_writer() -> None:
    lock = ReadWriteLock()
    with pytest.raises(RuntimeError, match="hold write_lock around the whole"), lock:
        lock.acquire_write()
    with lock.write_lock:
        pass


def test_threads_of_one_process_take_turns() -> None:
    lock = ReadWriteLock()
    count, n_times = [0], 300

    def add() -> None:
        for _ in range(n_times):
            with lock.write_lock:
                value = count[0]
                time.sleep(0)
                count[0] = value + 1

    threads = [in_thread(add) for _ in range(3)]
    for thread in threads:
        thread.join(WAIT_S)
    assert count == [3 * n_times]


def test_a_fork_does_not_inherit_the_lock_of_its_parent() -> None:
    lock = ReadWriteLock()
    with lock.write_lock:
        holder = Holder(lock.write_lock)
        assert holder.is_kept_out()
    assert holder.entered.wait(WAIT_S)
    holder.stop()


def test_released_too_often() -> None:
    lock = ReadWriteLock()
    for release in (lock.release_read, lock.release_write, lock.write_lock.release):
        with pytest.raises(ValueError, match="more often than acquired"):
            release()
    lock.write_lock.acquire()
    lock.write_lock.release()
    lock.acquire_read()
    lock.release_read()


def test_processes_are_numbered() -> None:
    lock = ReadWriteLock()
    numbers = fork.SimpleQueue()

    def tell() -> None:
        with lock:
            numbers.put(lock.process_index)
        with lock.write_lock:
            numbers.put(lock.process_index)

    with lock:
        assert lock.process_index == 0
    for i in (1, 2):
        process = fork.Process(target=tell)
        process.start()
        process.join(WAIT_S)
        assert [numbers.get(), numbers.get()] == [i, i]


def test_it_can_only_be_given_to_a_process() -> None:
    with pytest.raises(RuntimeError, match="through inheritance"):
        pickle.dumps(ReadWriteLock())

"""Supervision of processes that raise, die, hang or are ended, by really doing so."""

import gc
import multiprocessing
import os
import re
import signal
import struct
import threading
import time

import psutil
import pytest

from rlpyt.processes import child, supervisor as supervision
from rlpyt.processes.child import at_exit, heartbeat_paused
from rlpyt.processes.primitives import Barrier, CountedQueue, Semaphore
from rlpyt.processes.supervisor import Supervisor, WorkerError
from tests.resources import open_files
from tests.selection import FULL, each_once
from tests.waiting import wait_until


@pytest.fixture
def supervisor():
    supervisor = Supervisor("fork", time_limit_s=1.0)
    yield supervisor
    supervisor.terminate()


@pytest.fixture
def _impatient(monkeypatch):
    """Processes that do not end when they are asked are killed soon."""
    for module in (child, supervision):
        monkeypatch.setattr(module, "TERMINATE_S", 0.5)


def fail(how):
    if how == "raise":
        raise ArithmeticError("of the process \udcff")  # As in the name of a file.
    if how == "end":
        return
    while True:
        time.sleep(100)


MESSAGES = {
    "raise": r"ended with code 1:\n(.|\n)*ArithmeticError: of the process",
    "end": "ended with code 0 without a traceback",
    "hang": r"sent no heartbeat for 1 s(.|\n)*in fail",
}
PLACES = ("semaphore", "barrier", "queue")


@pytest.mark.parametrize(("how", "place"), each_once(MESSAGES, PLACES))
def test_a_wait_raises_the_failure_of_a_process(supervisor, how, place):
    semaphore, barrier, items = (
        Semaphore(supervisor, released_by=0),
        Barrier(supervisor, 2),
        CountedQueue(supervisor),
    )
    waits = {"semaphore": semaphore.acquire, "barrier": barrier.wait, "queue": items.get}
    supervisor.start(fail, dict(how=how), "a helper")
    with pytest.raises(WorkerError, match=rf"a helper, process \d+ {MESSAGES[how]}"):
        waits[place]()
    assert not supervisor.children
    assert not multiprocessing.active_children()
    with pytest.raises(WorkerError, match="have been shut down"):
        supervisor.check()


class OfTheParent:
    """Must not be finalized in another process."""

    def __init__(self, path):
        self.path, self.me = path, self

    def __del__(self):
        self.path.write_text(str(os.getpid()))


def collect_garbage(garbage):
    garbage.append(None)
    gc.collect()
    assert gc.isenabled()


def test_garbage_of_the_parent_is_left_to_it(supervisor, tmp_path):
    # A process group of torch in such garbage used to end workers with SIGABRT.
    path = tmp_path / "pid"
    OfTheParent(path)
    process = supervisor.start(collect_garbage, dict(garbage=[]), "collector")
    process.join()
    assert process.exitcode == 0
    assert not path.exists() or path.read_text() == str(os.getpid())
    gc.collect()
    assert path.read_text() == str(os.getpid())


def test_a_task_that_is_broken_off_ends_the_others(supervisor):
    pid = supervisor.start(fail, dict(how="hang"), "a helper").pid
    with pytest.raises(KeyError), supervisor.task():
        raise KeyError("of this process")
    assert not psutil.pid_exists(pid)
    with pytest.raises(WorkerError, match="have been shut down"), supervisor.task():
        raise AssertionError("not reached")


def clean_up_for_ever(how):
    at_exit(lambda: fail("hang"))
    fail(how)


@pytest.mark.usefixtures("_impatient")
def test_a_report_comes_before_what_is_cleaned_up(supervisor):
    supervisor.time_limit_s = None
    semaphore = Semaphore(supervisor, released_by=0)
    supervisor.start(clean_up_for_ever, dict(how="raise"), "a helper")
    with pytest.raises(WorkerError, match=r"failed and hangs while it cleans up(.|\n)*Arithmetic"):
        semaphore.acquire()


def test_a_death_that_another_thread_sees_first(supervisor):
    # Between the thread's system call and its note, the process seemed to hang.
    process = supervisor.start(fail, dict(how="hang"), "a helper")

    seen = threading.Event()

    def watch():
        os.waitpid(process.pid, 0)
        seen.set()
        time.sleep(0.3)
        process._popen.returncode = -signal.SIGKILL

    watcher = threading.Thread(target=watch)
    watcher.start()
    os.kill(process.pid, signal.SIGKILL)
    assert seen.wait(60)
    assert "was ended by SIGKILL" in str(supervisor.children[0].error())
    watcher.join()


def send_a_part(writer, sent):
    """Say that a thousand bytes follow, send some, and die."""
    os.write(writer.fileno(), struct.pack("!i", 1000) + b"x" * 10)
    sent.release()
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_rest_of_a_message_of_a_dead_process_is_not_awaited(supervisor):
    # The other end stays open in this process, so that there is no end of file.
    reader, writer = supervisor.context.Pipe(duplex=False)
    sent = Semaphore(supervisor, released_by=0)
    supervisor.start(send_a_part, dict(writer=writer, sent=sent), "a helper")
    with pytest.raises(WorkerError, match=r"a helper, process \d+ was ended by SIGKILL"):
        supervisor.call(reader.recv)


def test_doing_hands_on_results_and_errors(supervisor):
    assert supervisor.call(lambda: 3) == 3
    with pytest.raises(KeyError, match="own"):
        supervisor.call(lambda: {}["own"])


def stubborn(ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.release()
    fail("hang")


@pytest.mark.usefixtures("_impatient")
def test_a_process_that_does_not_end_when_asked_is_killed(supervisor):
    ready = Semaphore(supervisor)
    pid = supervisor.start(stubborn, dict(ready=ready), "stubborn").pid
    ready.acquire()
    begin = time.monotonic()
    supervisor.terminate()
    assert time.monotonic() - begin < 40
    assert not psutil.pid_exists(pid)


def sleep_with_open_file(ready, path):
    try:
        ready.release()
        fail("hang")
    finally:
        with open(path, "w") as file:
            file.write("closed")


def test_processes_clean_up_when_they_are_ended(supervisor, tmp_path):
    ready, path = Semaphore(supervisor), tmp_path / "trace"
    supervisor.start(sleep_with_open_file, dict(ready=ready, path=path), "tidy")
    ready.acquire()
    supervisor.terminate()
    assert path.read_text() == "closed"


def put_and_sleep(items, ready):
    items.put(bytes(1_000_000))
    ready.release()
    fail("hang")


@pytest.mark.parametrize("method", ["fork", *["spawn"] * FULL])
def test_the_end_closes_all_files(method):
    supervisors = [Supervisor(method) for _ in range(2)]
    for supervisor in supervisors:
        before = open_files()  # Those of the first may stay: Python's own, for all processes.
        kwargs = dict(items=CountedQueue(supervisor), ready=Semaphore(supervisor))
        supervisor.start(put_and_sleep, kwargs, "a helper")
        kwargs["ready"].acquire()
        supervisor.watch()
        supervisor.terminate()
    assert open_files() == before, kwargs


def test_a_time_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="worker_timeout_s is 0 s: give more than 0"):
        Supervisor(time_limit_s=0)


# --- Watching from a thread ----------------------------------------------------------------------


def fail_soon(how):
    time.sleep(0.3)
    fail(how)


@pytest.mark.parametrize("how", ["hang", *["raise"] * FULL])
def test_a_busy_main_thread_is_interrupted(supervisor, how):
    supervisor.start(fail_soon, dict(how=how), "a helper")
    supervisor.watch(detect_stalls=True)
    with pytest.raises(KeyboardInterrupt) as caught:
        time.sleep(60)
    cause = supervisor.explain(caught.value)
    assert re.match(rf"a helper, process \d+ {MESSAGES[how]}", str(cause))
    assert "was interrupted then" in str(cause)


def test_a_failure_found_by_the_thread_is_raised_by_the_next_check(supervisor):
    supervisor.start(fail_soon, dict(how="raise"), "a helper")
    supervisor.watch()
    wait_until(lambda: supervisor._watcher.cause is not None)
    with pytest.raises(WorkerError, match="ArithmeticError") as caught:
        supervisor.check()
    assert supervisor.explain(caught.value) is None, "it says itself what happened"


def test_an_interrupt_by_the_user_stays_one(supervisor):
    pid = supervisor.start(fail, dict(how="hang"), "a helper").pid
    supervisor.watch()
    assert supervisor.explain(KeyboardInterrupt()) is None
    assert not psutil.pid_exists(pid)


def test_a_lost_connection_is_explained_by_the_process_that_died(supervisor):
    supervisor.start(fail_soon, dict(how="raise"), "a helper")
    cause = supervisor.explain(RuntimeError("Connection closed by peer"))
    assert "ArithmeticError" in str(cause)


def test_a_lost_connection_is_explained_by_the_process_that_stays_busy(supervisor):
    supervisor.start(fail, dict(how="hang"), "a helper")
    cause = supervisor.explain(RuntimeError("gloo: timed out"))
    assert re.match("(?s)a helper, .* sent no heartbeat for 1 s.*in fail", str(cause))


def test_an_error_of_its_own_is_not_explained(supervisor):
    supervisor.start(fail, dict(how="hang"), "a helper")
    assert supervisor.explain(ValueError("of this process")) is None
    assert supervisor.is_over


# --- Heartbeats ----------------------------------------------------------------------------------


def work_in_pauses(steps):
    for _ in range(4):
        time.sleep(0.35)
        with heartbeat_paused():
            pass
    with heartbeat_paused():
        time.sleep(1.5)
    steps.release()


@pytest.mark.full
def test_a_process_that_pauses_its_heartbeat_does_not_stall(supervisor):
    steps = Semaphore(supervisor, released_by=0)
    supervisor.start(work_in_pauses, dict(steps=steps), "a helper")
    steps.acquire()

"""Processes which are watched, and where they wait for each other."""

import gc
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time

import psutil
import pytest
import torch

from rlpyt.utils.processes import launch
from rlpyt.utils.processes.child import at_exit
from rlpyt.utils.processes.launch import check_cpus, get_context, pin_process
from rlpyt.utils.processes.primitives import Barrier, CountedQueue, Semaphore
from rlpyt.utils.processes.supervisor import Supervisor, WorkerError
from rlpyt.utils.synchronize import drain_queue

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture
def pool():
    pool = Supervisor("fork", time_limit_s=1.0)
    yield pool
    pool.terminate()


def count_and_meet(meeting, counts, rank, n):
    for i in range(n):
        counts[rank] += 1
        meeting.wait()
        assert set(counts) == {i + 1}, list(counts)
        meeting.wait()


@pytest.mark.parametrize("method", METHODS)
def test_nobody_passes_a_meeting_early(method):
    n, parties = 300, 4
    pool = Supervisor(method)
    meeting, counts = Barrier(pool, parties), pool.context.RawArray("l", parties)
    for rank in range(1, parties):
        kwargs = dict(meeting=meeting, counts=counts, rank=rank, n=n)
        pool.start(count_and_meet, kwargs, f"counter {rank}")
    count_and_meet(meeting, counts, 0, n)
    assert (meeting.generation, meeting.n_waiting) == (2 * n, 0)
    pool.join()
    assert [member.process.exitcode for member in pool.children] == [0] * 3


def put_all(items, meeting, rank):
    for i in range(100):
        items.put((rank, i, bytes(2000)))
    meeting.wait()


def test_what_was_put_before_a_meeting_is_there_after_it(pool):
    items, meeting = CountedQueue(pool), Barrier(pool, 3)
    for rank in range(2):
        pool.start(put_all, dict(items=items, meeting=meeting, rank=rank), f"{rank}")
    meeting.wait()
    received = [item[:2] for item in drain_queue(items)]
    with pytest.raises(queue.Empty):
        items.get(block=False)
    assert sorted(received) == [(rank, i) for rank in range(2) for i in range(100)]


def test_what_cannot_be_sent_is_refused_where_it_is_put(pool):
    # It used to be counted and dropped, so that the reader waited for ever.
    items = CountedQueue(pool)
    with pytest.raises(TypeError, match="cannot be sent to another process .*at the top of a mod"):
        items.put(lambda: None)
    items.put((1, 2))
    assert items.get() == (1, 2)


def answer(question, reply, n):
    for _ in range(n):
        question.acquire()
        reply.release()


@pytest.mark.parametrize("method", METHODS)
def test_signals(method):
    pool = Supervisor(method)
    question, reply = Semaphore(pool), Semaphore(pool, released_by=0)
    pool.start(answer, dict(question=question, reply=reply, n=3), "echo")
    for _ in range(3):
        assert not reply.acquire(block=False)
        question.release()
        reply.acquire()
    pool.join()


def fail(how):
    if how == "raise":
        raise ArithmeticError("of the process")
    if how == "end":
        return
    while True:
        time.sleep(100)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", r"a helper, process \d+ ended with code 1:\n(.|\n)*ArithmeticError: of the proc"),
        ("end", r"a helper, process \d+ ended with code 0 without a traceback"),
        ("hang", r"a helper, process \d+ sent no heartbeat for 1 s(.|\n)*in fail"),
    ],
)
@pytest.mark.parametrize("place", ["signal", "meeting", "queue"])
def test_whoever_waits_learns_of_a_failure(pool, how, message, place):
    signal_, meeting, items = Semaphore(pool, released_by=0), Barrier(pool, 2), CountedQueue(pool)
    waits = {"signal": signal_.acquire, "meeting": meeting.wait, "queue": items.get}
    pool.start(fail, dict(how=how), "a helper")
    with pytest.raises(WorkerError, match=message):
        waits[place]()
    assert not any(member.process.is_alive() for member in pool.children)
    with pytest.raises(WorkerError, match="have been shut down"):
        pool.check()


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


def test_garbage_of_the_parent_is_left_to_it(pool, tmp_path):
    # A process group of torch in such garbage used to end workers with SIGABRT.
    path = tmp_path / "pid"
    OfTheParent(path)
    process = pool.start(collect_garbage, dict(garbage=[]), "collector")
    process.join()
    assert process.exitcode == 0
    assert not path.exists() or path.read_text() == str(os.getpid())
    gc.collect()
    assert path.read_text() == str(os.getpid())


def test_a_task_which_is_broken_off_ends_the_others(pool):
    process = pool.start(fail, dict(how="hang"), "a helper")
    with pytest.raises(KeyError), pool.task():
        raise KeyError("of this process")
    assert not process.is_alive()
    with pytest.raises(WorkerError, match="have been shut down"), pool.task():
        raise AssertionError("not reached")


def clean_up_for_ever(how):
    at_exit(lambda: fail("hang"))
    fail(how)


def test_a_report_comes_before_what_is_cleaned_up(pool):
    pool.time_limit_s = None
    signal_ = Semaphore(pool, released_by=0)
    pool.start(clean_up_for_ever, dict(how="raise"), "a helper")
    with pytest.raises(WorkerError, match=r"failed and hangs while it cleans up(.|\n)*Arithmetic"):
        signal_.acquire()


def test_a_death_which_another_thread_sees_first(pool):
    # Between the thread's system call and its note, the process seemed to hang.
    process = pool.start(fail, dict(how="hang"), "a helper")

    def watch():
        os.waitpid(process.pid, 0)
        time.sleep(0.3)
        process._popen.returncode = -signal.SIGKILL

    watcher = threading.Thread(target=watch)
    watcher.start()
    os.kill(process.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert "was ended by SIGKILL" in str(pool.children[0].error())
    watcher.join()


def compute_with_two_threads():
    torch.set_num_threads(2)
    assert torch.ones(2**20).exp().sum() > 0


@pytest.mark.skipif(launch.gnu_openmp() is None, reason="no OpenMP which can end its threads")
def test_what_forks_after_a_computation_with_threads_can_compute(pool):
    # OpenMP's record of its threads was inherited, and the process waited for them for ever.
    n_threads = torch.get_num_threads()
    try:
        compute_with_two_threads()
        process = pool.start(compute_with_two_threads, {}, "a helper")
        process.join(20)
        assert process.exitcode == 0
        compute_with_two_threads()
    finally:
        torch.set_num_threads(n_threads)


def send_a_part(writer, sent):
    """Say that a thousand bytes follow, send some, and die."""
    os.write(writer.fileno(), struct.pack("!i", 1000) + b"x" * 10)
    sent.release()
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_rest_of_a_message_of_a_dead_process_is_not_awaited(pool):
    # The other end stays open in this process, so that there is no end of file.
    reader, writer = pool.context.Pipe(duplex=False)
    sent = Semaphore(pool, released_by=0)
    pool.start(send_a_part, dict(writer=writer, sent=sent), "a helper")
    with pytest.raises(WorkerError, match=r"a helper, process \d+ was ended by SIGKILL"):
        pool.call(reader.recv)


def test_doing_hands_on_results_and_errors(pool):
    assert pool.call(lambda: 3) == 3
    with pytest.raises(KeyError, match="own"):
        pool.call(lambda: {}["own"])


def stubborn(ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.release()
    fail("hang")


def test_who_does_not_end_when_asked_is_killed(pool):
    ready = Semaphore(pool)
    process = pool.start(stubborn, dict(ready=ready), "stubborn")
    ready.acquire()
    begin = time.monotonic()
    pool.terminate()
    assert time.monotonic() - begin < 8
    assert process.exitcode == -signal.SIGKILL


def sleep_with_open_file(ready, path):
    try:
        ready.release()
        fail("hang")
    finally:
        with open(path, "w") as file:
            file.write("closed")


def test_processes_clean_up_when_they_are_ended(pool, tmp_path):
    ready, path = Semaphore(pool), tmp_path / "trace"
    pool.start(sleep_with_open_file, dict(ready=ready, path=path), "tidy")
    ready.acquire()
    pool.terminate()
    assert path.read_text() == "closed"


def test_a_time_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="worker_timeout_s is 0 s: give more than 0"):
        Supervisor(time_limit_s=0)


# --- Start methods and CPUs -----------------------------------------------------------------------


def test_the_environment_chooses_the_start_method(monkeypatch):
    assert get_context().get_start_method() == "fork"
    monkeypatch.setenv(launch.START_METHOD_VARIABLE, "forkserver")
    assert get_context().get_start_method() == "forkserver"
    assert get_context("spawn").get_start_method() == "spawn"
    monkeypatch.setenv(launch.START_METHOD_VARIABLE, "thread")
    with pytest.raises(ValueError, match=r"environment variable RLPYT_START_METHOD is 'thread'"):
        get_context()
    with pytest.raises(ValueError, match=r"start_method is 'thread': this system has \['fork'"):
        get_context("thread")


def test_the_default_of_the_interpreter_plays_no_part():
    code = """if True:
        import multiprocessing as mp
        mp.set_start_method("spawn")
        from rlpyt.utils.processes.launch import get_context
        print(get_context().get_start_method())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fork\n"


def test_cpus_are_checked_without_being_used():
    before = psutil.Process().cpu_affinity()
    check_cpus(before[:1])
    check_cpus([])
    assert psutil.Process().cpu_affinity() == before
    with pytest.raises(ValueError, match=r"CPUs \[0, 4321\] are named .* may not use all of them"):
        check_cpus([4321, 0])
    assert psutil.Process().cpu_affinity() == before


def test_cpus_of_others_may_be_named():
    """A sampler which is pinned itself may have workers elsewhere."""
    before = psutil.Process().cpu_affinity()
    if len(before) < 2:
        pytest.skip("there is one CPU only")
    try:
        pin_process(before[:1])
        check_cpus(before[1:2])
        assert psutil.Process().cpu_affinity() == before[:1]
    finally:
        psutil.Process().cpu_affinity(before)


def test_without_affinity_there_is_nothing_to_check(monkeypatch):
    monkeypatch.setattr(launch, "can_be_pinned", lambda: False)
    check_cpus([4321])

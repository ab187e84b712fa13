"""Processes which work for this one, watched so that none of them can make it wait for ever."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import util
from typing import Any, TypeVar

from rlpyt.utils.processes.child import TERMINATE_S, Heartbeat, run_child
from rlpyt.utils.processes.launch import get_context, start_process

# How long the death of a process may go unnoticed, in seconds.
POLL_S = 0.2
# How long processes may take to end, once asked to.
QUIT_S = 10.0


T = TypeVar("T")


class WorkerError(RuntimeError):
    """A process of the run died, failed, or gave no sign of life; shows its own traceback."""


@dataclass
class ChildProcess:
    """One process of a pool."""

    process: Any
    label: str
    report: Any  # connection: what it says when it fails
    heartbeat: Heartbeat
    text: str = ""
    has_closed: bool = False  # its report: it will say no more

    def has_ended(self) -> bool:
        """Whether it works no more; it may still be alive to clean up."""
        self.read_report()
        return self.has_closed or not self.process.is_alive()

    def read_report(self) -> None:
        """Take what has been reported so far; the process may still be alive."""
        while True:
            try:
                data = os.read(self.report.fileno(), 1 << 16)
            except (BlockingIOError, OSError):
                return
            if not data:
                self.has_closed = True
                return
            self.text += data.decode(errors="replace")

    def describe(self) -> str:
        """Who it is, and what it was doing."""
        place = self.heartbeat.values[Heartbeat.PLACE]
        doing = f", busy with environment {place}," if place >= 0 else ""
        return f"{self.label}, process {self.process.pid}{doing}"


@dataclass
class StallDetector:
    """Who has given no sign of life, since when."""

    at: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=dict)

    def longest(
        self, members: Iterable[tuple[int, ChildProcess]], start: float
    ) -> tuple[int, float]:
        """Index of the member which was silent for the longest, and for how many seconds."""
        now = time.monotonic()
        for i, member in members:
            steps, is_busy, place, begun = member.heartbeat.values
            at = (steps, place, begun)
            if self.at.setdefault(i, at) != at or not is_busy:
                self.at[i], self.since[i] = at, now
        silent = [(now - self.since.get(i, start), i) for i, _ in members]
        seconds, i = max(silent, default=(0.0, -1))
        return i, seconds


def describe_exit(code: int | None) -> str:
    """How a process ended, by its exit code; None if it is still alive."""
    if code is None:
        return "failed and hangs while it cleans up"
    if code >= 0:
        return f"ended with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
    out_of_memory = ", as the system does when memory is short" if name == "SIGKILL" else ""
    return f"was ended by {name}{out_of_memory}"


class Supervisor:
    """Starts processes, watches them whenever this process waits for them, and ends them.

    A process which raises, is killed or crashes makes the next wait raise :class:`WorkerError` with
    its traceback, and so does one which gives no sign of life within the time limit; the others are
    ended first. Ctrl-C interrupts this process only. Whichever way this process ends, so do
    the others.

    Args:
        start_method: "fork", "forkserver" or "spawn"; None for the usual one of the system.
        time_limit_s: between two signs of life of a process that others wait for; None for no
            limit.
        limit_name: the argument of the user which that is.
    """

    def __init__(
        self,
        start_method: str | None = None,
        time_limit_s: float | None = None,
        limit_name: str = "worker_timeout_s",
    ) -> None:
        if time_limit_s is not None and time_limit_s <= 0:
            raise ValueError(f"the time limit is {time_limit_s} s: give more than 0, or None")
        self.context = get_context(start_method)
        self.time_limit_s, self.limit_name = time_limit_s, limit_name
        self.children: list[ChildProcess] = []
        self.is_over = False
        self._pid = os.getpid()
        # Before Python waits for its children at exit. The pool is not referred to, but its list.
        self._finalizer = util.Finalize(self, _end, (self.children, self._pid), exitpriority=100)

    def heartbeat(self) -> Heartbeat:
        """A new sign, to be handed to a process and to :meth:`start`."""
        return Heartbeat(self.context)

    def start(
        self,
        target: Callable[..., Any],
        kwargs: dict[str, Any],
        label: str,
        heartbeat: Heartbeat | None = None,
    ) -> Any:
        """Start ``target(**kwargs)`` in a process.

        Args:
            target: what the process does.
            kwargs: for it; they must pickle unless processes fork.
            label: names the process in errors.
            heartbeat: its sign of life, if ``target`` uses one.

        Returns:
            The process.
        """
        heartbeat = heartbeat or self.heartbeat()
        heartbeat.resume()
        reader, writer = self.context.Pipe(duplex=False)
        process = self.context.Process(
            target=run_child, args=(target, kwargs, writer, os.getpid()), name=label
        )
        with _no_garbage_collection():
            start_process(process)
        writer.close()
        os.set_blocking(reader.fileno(), False)
        self.children.append(ChildProcess(process, label, reader, heartbeat))
        return process

    # --- Waiting -----------------------------------------------------------------------------

    def wait_for(
        self, acquire: Callable[[bool, float | None], bool], released_by: int | None = None
    ) -> None:
        """Wait until ``acquire(True, timeout)`` returns True, and watch the processes meanwhile.

        Args:
            acquire: of a semaphore or the like.
            released_by: index of the process which is waited for, if it is a single one.

        Raises:
            WorkerError: if a process failed.
        """
        if os.getpid() != self._pid:  # In a process which was forked: another watches that one.
            acquire(True, None)
            return
        try:
            self._wait(acquire, released_by)
        except BaseException:
            self.terminate()  # Whoever is interrupted here has lost count of the others.
            raise

    def _wait(self, acquire: Callable[[bool, float | None], bool], released_by: int | None) -> None:
        silence, start = StallDetector(), time.monotonic()
        while not acquire(True, POLL_S):
            self.check()
            if self.time_limit_s is None:
                continue
            members = list(enumerate(self.children))
            if released_by is not None:
                members = [members[released_by]]
            i, seconds = silence.longest(members, start)
            if seconds > self.time_limit_s:
                self._fail_silent(self.children[i])

    def call(self, blocking: Callable[[], T]) -> T:
        """Do what waits for a process and cannot be told for how long, such as to read a message.

        A process which dies in the middle of one leaves its reader waiting for the rest, for ever.

        Args:
            blocking: done in a thread, while this one watches the processes.

        Raises:
            WorkerError: if a process failed.
        """
        results: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(blocking())
            except BaseException as error:
                errors.append(error)

        def is_done(block: bool, timeout: float | None) -> bool:
            thread.join(timeout)
            return not thread.is_alive()

        thread = threading.Thread(target=work, name="exchange with a process", daemon=True)
        thread.start()
        self.wait_for(is_done)
        if errors:
            raise errors[0]
        return results[0]

    @contextmanager
    def task(self) -> Iterator[None]:
        """For what this process and the others do together: broken off, it ends the others.

        They would wait for the rest of it, and could not be told what to do next.

        Raises:
            WorkerError: at the beginning, if a process is not alive any more.
        """
        self.check()
        try:
            yield
        except BaseException:
            self.terminate()
            raise

    def check(self) -> None:
        """Raise :class:`WorkerError` if a process is not alive any more."""
        if self.is_over:
            raise WorkerError("the processes have been shut down: initialize the sampler again")
        dead = [member for member in self.children if member.has_ended()]
        if dead:  # One which reports is more likely to be the cause than one which was ended.
            self._fail(max(dead, key=lambda member: bool(member.text)))

    def error_of(self, member: ChildProcess) -> WorkerError:
        """What to raise for a process which ended too early."""
        deadline = time.monotonic() + TERMINATE_S
        member.process.join(TERMINATE_S)
        # It may have ended already, while another thread which saw that has yet to note the code.
        while member.process.exitcode is None and time.monotonic() < deadline:
            time.sleep(0.01)
        member.read_report()
        end = describe_exit(member.process.exitcode)
        report = f":\n{member.text}" if member.text else " without a traceback"
        return WorkerError(f"{member.describe()} {end}{report}")

    def stack_of(self, member: ChildProcess) -> str:
        """Ask a process which is alive where it is; empty if it does not answer."""
        if hasattr(signal, "SIGUSR1") and member.process.is_alive():
            os.kill(member.process.pid, signal.SIGUSR1)  # Its faulthandler writes the traceback.
            deadline = time.monotonic() + TERMINATE_S
            while time.monotonic() < deadline and not member.text.endswith("\n"):
                time.sleep(0.05)
                member.read_report()
        return member.text

    def _fail(self, member: ChildProcess) -> None:
        error = self.error_of(member)
        self.terminate()
        raise error

    def _fail_silent(self, member: ChildProcess) -> None:
        stack = self.stack_of(member)
        who, limit = member.describe(), self.time_limit_s
        self.terminate()
        raise WorkerError(
            f"{who} gave no sign of life for {limit:g} s. If what it does may take that long, "
            f"choose a larger {self.limit_name}, or None. It was here:\n{stack}"
        )

    # --- The end -----------------------------------------------------------------------------

    def join(self, timeout_s: float = QUIT_S) -> None:
        """Wait for processes which were told to end, and force those which do not."""
        deadline = time.monotonic() + timeout_s
        for member in self.children:
            member.process.join(max(0.0, deadline - time.monotonic()))
        self.terminate()

    def terminate(self) -> None:
        """End all processes: let them clean up, then kill them."""
        self.is_over = True
        _end(self.children, self._pid)


def _end(members: list[ChildProcess], pid: int) -> None:
    if os.getpid() != pid:
        return
    for end, seconds in (("terminate", TERMINATE_S), ("kill", TERMINATE_S)):
        alive = [member for member in members if member.process.is_alive()]
        for member in alive:
            getattr(member.process, end)()
        deadline = time.monotonic() + seconds
        for member in alive:
            member.process.join(max(0.0, deadline - time.monotonic()))
    for member in members:
        if not member.report.closed:
            member.read_report()
            member.report.close()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Also a process which is forked in this context begins without."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

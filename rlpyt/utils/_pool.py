"""Processes which work for this one, watched so that none of them can make it wait for ever."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection, parent_process, util
from typing import Any

from rlpyt.utils._processes import get_context, start_process

# How long the death of a process may go unnoticed, in seconds.
POLL_S = 0.2
# How long processes may take to end, once asked or forced to.
QUIT_S, TERMINATE_S = 10.0, 2.0

_REPORT_LIMIT = 50_000  # Below the 64 KiB a pipe takes without a reader.


class WorkerError(RuntimeError):
    """A process of the run died, failed, or gave no sign of life; shows its own traceback."""


class LifeSign:
    """What a process says about itself while it works, in memory shared with its parent.

    Attributes:
        values: time steps taken in the present task, whether it is at work, index of the
            environment it is busy with (or -1). Written as plain numbers, since that costs the
            least in a step loop.
    """

    STEPS, BUSY, PLACE = 0, 1, 2

    def __init__(self, context: Any) -> None:
        self.values = context.RawArray("l", [0, 0, -1])

    def begin(self) -> None:
        """Say that from now on others wait for this process."""
        self.values[self.STEPS] = 0
        self.values[self.BUSY] = 1

    def end(self) -> None:
        """Say that it is done, and waits itself."""
        self.values[self.BUSY] = 0
        self.values[self.PLACE] = -1


@dataclass
class Member:
    """One process of a pool."""

    process: Any
    label: str
    report: Any  # connection: what it says when it fails
    life: LifeSign
    text: str = ""

    def read_report(self) -> None:
        """Take what has been reported so far; the process may still be alive."""
        while True:
            try:
                data = os.read(self.report.fileno(), 1 << 16)
            except (BlockingIOError, OSError):
                return
            if not data:
                return
            self.text += data.decode(errors="replace")

    def describe(self) -> str:
        """Who it is, and what it was doing."""
        place = self.life.values[LifeSign.PLACE]
        doing = f", busy with environment {place}," if place >= 0 else ""
        return f"{self.label}, process {self.process.pid}{doing}"


@dataclass
class Silence:
    """Who has given no sign of life, since when."""

    at: dict[int, tuple[int, int]] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=dict)

    def longest(self, members: Iterable[tuple[int, Member]], start: float) -> tuple[int, float]:
        """Index of the member which was silent for the longest, and for how many seconds."""
        now = time.monotonic()
        for i, member in members:
            steps, is_busy, place = member.life.values
            at = (steps, place)
            if self.at.setdefault(i, at) != at or not is_busy:
                self.at[i], self.since[i] = at, now
        silent = [(now - self.since.get(i, start), i) for i, _ in members]
        seconds, i = max(silent, default=(0.0, -1))
        return i, seconds


class ProcessPool:
    """Starts processes, watches them whenever this process waits for them, and ends them.

    A process which raises, is killed or crashes makes the next wait raise :class:`WorkerError` with
    its traceback, and so does one which gives no sign of life within the time limit; the others are
    ended first. Ctrl-C interrupts this process only. Whichever way this process ends, so do
    the others.

    Args:
        start_method: "fork", "forkserver" or "spawn"; None for the usual one of the system.
        time_limit_s: between two signs of life of a process that others wait for; None for no
            limit.
    """

    def __init__(self, start_method: str | None = None, time_limit_s: float | None = None) -> None:
        if time_limit_s is not None and time_limit_s <= 0:
            raise ValueError(f"the time limit is {time_limit_s} s: give more than 0, or None")
        self.context = get_context(start_method)
        self.time_limit_s = time_limit_s
        self.members: list[Member] = []
        self.is_over = False
        self._pid = os.getpid()
        # Before Python waits for its children at exit. The pool is not referred to, but its list.
        self._finalizer = util.Finalize(self, _end, (self.members, self._pid), exitpriority=100)

    def life_sign(self) -> LifeSign:
        """A new sign, to be handed to a process and to :meth:`start`."""
        return LifeSign(self.context)

    def start(
        self,
        target: Callable[..., Any],
        kwargs: dict[str, Any],
        label: str,
        life: LifeSign | None = None,
    ) -> Any:
        """Start ``target(**kwargs)`` in a process.

        Args:
            target: what the process does.
            kwargs: for it; they must pickle unless processes fork.
            label: names the process in errors.
            life: its sign of life, if ``target`` uses one.

        Returns:
            The process.
        """
        life = life or self.life_sign()
        life.begin()
        reader, writer = self.context.Pipe(duplex=False)
        process = self.context.Process(
            target=_run, args=(target, kwargs, writer, os.getpid()), name=label
        )
        with _no_garbage_collection():
            start_process(process)
        writer.close()
        os.set_blocking(reader.fileno(), False)
        self.members.append(Member(process, label, reader, life))
        return process

    # --- Waiting -----------------------------------------------------------------------------

    def wait_for(
        self, acquire: Callable[[bool, float | None], bool], suspect: int | None = None
    ) -> None:
        """Wait until ``acquire(True, timeout)`` returns True, and watch the processes meanwhile.

        Args:
            acquire: of a semaphore or the like.
            suspect: index of the process which is waited for, if it is a single one.

        Raises:
            WorkerError: if a process failed.
        """
        if os.getpid() != self._pid:  # In a process which was forked: another watches that one.
            acquire(True, None)
            return
        try:
            self._wait(acquire, suspect)
        except BaseException:
            self.terminate()  # Whoever is interrupted here has lost count of the others.
            raise

    def _wait(self, acquire: Callable[[bool, float | None], bool], suspect: int | None) -> None:
        silence, start = Silence(), time.monotonic()
        while not acquire(True, POLL_S):
            self.check()
            if self.time_limit_s is None:
                continue
            members = list(enumerate(self.members))
            if suspect is not None:
                members = [members[suspect]]
            i, seconds = silence.longest(members, start)
            if seconds > self.time_limit_s:
                self._fail_silent(self.members[i])

    def check(self) -> None:
        """Raise :class:`WorkerError` if a process is not alive any more."""
        if self.is_over:
            raise WorkerError("the processes have been shut down: initialize the sampler again")
        dead = [member for member in self.members if not member.process.is_alive()]
        for member in dead:
            member.read_report()
        if dead:  # One which reports is more likely to be the cause than one which was ended.
            self._fail(max(dead, key=lambda member: bool(member.text)))

    def death_of(self, member: Member) -> WorkerError:
        """What to raise for a process which ended too early."""
        member.read_report()
        end = _describe_exit(member.process.exitcode)
        report = f":\n{member.text}" if member.text else " without a traceback"
        return WorkerError(f"{member.describe()} {end}{report}")

    def stack_of(self, member: Member) -> str:
        """Ask a process which is alive where it is; empty if it does not answer."""
        if hasattr(signal, "SIGUSR1") and member.process.is_alive():
            os.kill(member.process.pid, signal.SIGUSR1)  # Its faulthandler writes the traceback.
            deadline = time.monotonic() + TERMINATE_S
            while time.monotonic() < deadline and not member.text.endswith("\n"):
                time.sleep(0.05)
                member.read_report()
        return member.text

    def _fail(self, member: Member) -> None:
        error = self.death_of(member)
        self.terminate()
        raise error

    def _fail_silent(self, member: Member) -> None:
        stack = self.stack_of(member)
        who, limit = member.describe(), self.time_limit_s
        self.terminate()
        raise WorkerError(
            f"{who} gave no sign of life for {limit:g} s. If its steps may take that long, give "
            f"the sampler a larger worker_timeout_s, or None. It was here:\n{stack}"
        )

    # --- The end -----------------------------------------------------------------------------

    def join(self, timeout_s: float = QUIT_S) -> None:
        """Wait for processes which were told to end, and force those which do not."""
        deadline = time.monotonic() + timeout_s
        for member in self.members:
            member.process.join(max(0.0, deadline - time.monotonic()))
        self.terminate()

    def terminate(self) -> None:
        """End all processes: let them clean up, then kill them."""
        self.is_over = True
        _end(self.members, self._pid)


def _end(members: list[Member], pid: int) -> None:
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


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
    out_of_memory = ", as the system does when memory is short" if name == "SIGKILL" else ""
    return f"was ended by {name}{out_of_memory}"


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


# --- Inside a process ---------------------------------------------------------------------------


def _run(target: Callable[..., Any], kwargs: dict[str, Any], report: Any, parent_pid: int) -> None:
    """What every process of a pool does: its task, and a report if that fails."""
    # What a fork brought along belongs to the parent. Collecting it here would run destructors for
    # threads and devices which this process does not have, and copy the memory which is shared.
    gc.freeze()
    gc.enable()
    _prepare_signals(report)
    threading.Thread(target=_end_with_parent, args=(parent_pid,), daemon=True).start()
    try:
        target(**kwargs)
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else 1)
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with suppress(OSError):
            os.write(report.fileno(), text.encode()[-_REPORT_LIMIT:])
        _leave(1)


def _leave(code: int) -> None:
    """End at once: queues to a parent which reads no more would keep the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _prepare_signals(report: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends the others.
    signal.signal(signal.SIGTERM, _exit_on_signal)
    faulthandler.enable(file=report.fileno())
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=report.fileno())


def _exit_on_signal(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # Once is enough: the rest is cleaning up.
    sys.exit(128 + number)


def _end_with_parent(parent_pid: int) -> None:
    """Wait for the end of the parent, which may come without notice, and end this process too."""
    parent = parent_process()
    sentinels = [] if parent is None else [parent.sentinel]
    while not connection.wait(sentinels, timeout=1.0):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(parent_pid, 0)
            continue
        break
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(TERMINATE_S)
    os._exit(1)

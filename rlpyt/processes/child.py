"""A child process: its heartbeat, its handle in the parent, its task and its error report."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection, parent_process
from typing import Any, TypeVar

# Seconds for a process to clean up before it is killed.
TERMINATE_S = 2.0
# Processes that fail only because a peer died report late, so that the root cause comes first.
SECONDARY_ERROR_DELAY_S = 2.5

_REPORT_LIMIT = 50_000  # Less than the 64 KiB that a pipe holds without a reader.
_CONNECTION_ERROR = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|socket|TCPStore|timed out|broken pipe",
    re.IGNORECASE,
)

_Handler = TypeVar("_Handler", bound=Callable[..., None])


class Heartbeat:
    """Counters of a process's progress, in memory shared with its parent.

    A process stalls if it is busy and none of its counters changes for too long.

    Args:
        context: multiprocessing context of the start method.

    Attributes:
        values: counters, at the indices ``STEPS`` (time steps taken in the present task), ``BUSY``
            (1 while others wait for this process), ``PLACE`` (index of the environment at work, or
            -1) and ``BEGUN`` (number of other beginnings, such as resets). A step loop writes them
            directly, which costs least. The parent sets ``ENDING`` before it ends the process.
    """

    STEPS, BUSY, PLACE, BEGUN, ENDING = 0, 1, 2, 3, 4
    IDLE = (0, 0, -1, 0, 0)

    def __init__(self, context: Any) -> None:
        self.values = context.RawArray("l", self.IDLE)

    @classmethod
    def beat(cls, values: Any, place: int) -> None:
        """Count the beginning of a slow operation in environment ``place``; -1 for none."""
        values[cls.PLACE] = place
        values[cls.BEGUN] += 1

    def resume(self) -> None:
        """Begin a task that other processes wait for."""
        self.values[self.STEPS] = 0
        self.values[self.BEGUN] += 1
        self.values[self.BUSY] = 1

    def pause(self) -> None:
        """End the task: from now on this process waits for others, or may take any time."""
        self.values[self.BUSY] = 0
        self.values[self.PLACE] = -1


# --- Seen from the parent -------------------------------------------------------------------------


class WorkerError(RuntimeError):
    """Error for a process that died, raised an exception or sent no heartbeat, with its traceback.

    Attributes:
        child: failed process, if there is only one.
    """

    child: ChildProcess | None = None


@dataclass(eq=False)
class ChildProcess:
    """Handle of a process in its parent.

    Attributes:
        process: process object of multiprocessing.
        label: name in errors.
        heartbeat: counters written by the process.
        report: connection over which the process sends its traceback.
        text: traceback received so far.
    """

    process: Any
    label: str
    heartbeat: Heartbeat
    report: Any
    text: str = ""
    _has_reported: bool = False
    _lock: Any = field(default_factory=threading.Lock)

    def has_ended(self) -> bool:
        """Return whether the process has stopped working; it may still clean up."""
        self.read_report()
        return self._has_reported or not self.process.is_alive()

    def read_report(self) -> None:
        """Receive the report so far, without waiting."""
        with self._lock:
            while True:
                try:
                    data = os.read(self.report.fileno(), 1 << 16)
                except OSError:  # No more data at present, or the connection is closed.
                    return
                self.text += data.decode(errors="replace")
                if not data:
                    self._has_reported = True
                    return

    def close(self) -> None:
        """Read the rest of the report, and close the files of a process that has ended."""
        self.read_report()
        self.report.close()
        if not self.process.is_alive():
            self.process.close()

    def describe(self) -> str:
        """Return label and process id, and the environment at work."""
        place = self.heartbeat.values[Heartbeat.PLACE]
        doing = f", busy with environment {place}," if place >= 0 else ""
        return f"{self.label}, process {self.process.pid}{doing}"

    def error(self) -> WorkerError:
        """Return the error of a process that ended too early."""
        deadline = time.monotonic() + TERMINATE_S
        self.process.join(TERMINATE_S)
        # Another thread may have noticed the end first, and set the exit code a little later.
        while self.process.exitcode is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.read_report()
        report = f":\n{self.text}" if self.text else " without a traceback"
        return WorkerError(f"{self.describe()} {_describe_exit(self.process.exitcode)}{report}")

    def stack(self) -> str:
        """Ask a living process for its stack; empty if it does not answer."""
        if self.process.is_alive():
            os.kill(self.process.pid, signal.SIGUSR1)  # Its faulthandler writes the traceback.
            deadline = time.monotonic() + TERMINATE_S
            while time.monotonic() < deadline and not self.text.endswith("\n"):
                time.sleep(0.05)
                self.read_report()
        return self.text


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "failed and hangs while it cleans up"
    if code >= 0:
        return f"ended with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
    out_of_memory = ", as the system does when memory is short" if name == "SIGKILL" else ""
    return f"was ended by {name}{out_of_memory}"


class StallDetector:
    """Detector of processes that are busy without a heartbeat for longer than the time limit.

    Args:
        children: processes that are waited for.
        limit_s: seconds between two heartbeats; None for no limit.
    """

    def __init__(self, children: Sequence[ChildProcess], limit_s: float | None) -> None:
        self._limit_s = limit_s
        now = time.monotonic()
        self._last = {child: (tuple(child.heartbeat.values), now) for child in children}

    def find(self) -> ChildProcess | None:
        """Return the process that has stalled for the longest, None if there is none."""
        if self._limit_s is None or not self._last:
            return None
        now = time.monotonic()
        for child, (before, _) in self._last.items():
            values = tuple(child.heartbeat.values)
            if values != before or not values[Heartbeat.BUSY]:
                self._last[child] = values, now
        child, (_, since) = min(self._last.items(), key=lambda item: item[1][1])
        return child if now - since > self._limit_s else None


# --- Signals in forks -----------------------------------------------------------------------------


def not_in_forks(handler: _Handler) -> _Handler:
    """Mark a handler of SIGTERM as one for its own process: forks end at once, as by default.

    Environments start and end such forks.
    """
    handler.not_in_forks = True  # type: ignore[attr-defined]
    return handler


_before_fork = threading.local()


def _block_sigterm() -> None:
    _before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _restore_mask() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _before_fork.mask)


def _restore_default() -> None:
    if getattr(signal.getsignal(signal.SIGTERM), "not_in_forks", False):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _restore_mask()


# Python forgets a signal that a fork receives before it runs Python. A blocked one waits.
os.register_at_fork(
    before=_block_sigterm, after_in_parent=_restore_mask, after_in_child=_restore_default
)


# --- Inside the child -----------------------------------------------------------------------------

_own_heartbeat: Heartbeat | None = None
_clean_ups: list[Callable[[], None]] = []


@contextmanager
def heartbeat_paused() -> Iterator[None]:
    """Pause the heartbeat of this process, if it has one, while it waits or may take any time."""
    if _own_heartbeat is not None:
        _own_heartbeat.pause()
    yield
    if _own_heartbeat is not None:
        _own_heartbeat.resume()


def at_exit(clean_up: Callable[[], None]) -> None:
    """Call ``clean_up`` when this process ends for any reason, after its error report.

    ``clean_up`` may hang after a failure, since the parent waits only for the report.
    """
    _clean_ups.append(clean_up)


def is_connection_error(error: BaseException | None) -> bool:
    """Return whether the message of ``error`` shows the loss of another process."""
    return isinstance(error, RuntimeError) and _CONNECTION_ERROR.search(str(error)) is not None


def delay_secondary_error(error: BaseException | None) -> None:
    """Wait for the parent to find the root cause, if ``error`` is the loss of another process."""
    if _own_heartbeat is not None and is_connection_error(error):
        _own_heartbeat.pause()
        time.sleep(SECONDARY_ERROR_DELAY_S)


def run_child(
    target: Callable[..., Any],
    kwargs: dict[str, Any],
    heartbeat: Heartbeat,
    report: Any,
    parent_pid: int,
) -> None:
    """Run ``target(**kwargs)`` in a child process, and report its error to the parent.

    Args:
        target: task of the process.
        kwargs: keyword arguments of ``target``.
        heartbeat: counters that the parent watches.
        report: connection to the parent, for a traceback.
        parent_pid: id of the parent process.
    """
    global _own_heartbeat
    # A fork inherits the parent's garbage. Collecting it here would run destructors for threads
    # and devices that this process does not have, and copy shared memory pages.
    gc.freeze()
    gc.enable()
    _own_heartbeat = heartbeat
    _clean_ups.clear()
    _prepare_signals(report)
    threading.Thread(target=_end_with_parent, args=(parent_pid,), daemon=True).start()
    code = None
    try:
        target(**kwargs)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        code = 1
        _report_and_close(report, error)
    try:
        for clean_up in reversed(_clean_ups):
            clean_up()
    finally:
        if code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # Queues whose reader is gone would keep the process alive.


def _prepare_signals(report: Any) -> None:
    """Leave Ctrl-C and SIGTERM to the parent, and send tracebacks of crashes and stalls to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    faulthandler.disable()  # Other libraries may have replaced the handlers of the parent.
    faulthandler.enable(file=report.fileno())
    faulthandler.register(signal.SIGUSR1, file=report.fileno())


@not_in_forks
def _exit_on_signal(number: int, frame: Any) -> None:
    if _own_heartbeat is not None and not _own_heartbeat.values[Heartbeat.ENDING]:
        return  # All processes of a job receive it, and the parent ends the run in time.
    signal.signal(number, signal.SIG_IGN)  # A second one must not interrupt the cleaning up.
    sys.exit(128 + number)


def _report_and_close(report: Any, error: BaseException) -> None:
    """Send the traceback, and end the stream to mark it complete."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with suppress(OSError):
        os.write(report.fileno(), text.encode(errors="backslashreplace")[-_REPORT_LIMIT:])
    faulthandler.disable()
    faulthandler.unregister(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    report.close()


def _end_with_parent(parent_pid: int) -> None:
    """Wait until the parent ends in any way, and end this process too."""
    parent = parent_process()
    sentinels = [] if parent is None else [parent.sentinel]
    while not connection.wait(sentinels, timeout=1.0):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(parent_pid, 0)
            continue
        break
    if _own_heartbeat is not None:
        _own_heartbeat.values[Heartbeat.ENDING] = 1
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(TERMINATE_S)
    os._exit(1)

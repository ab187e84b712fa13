"""What every process of a pool does: its task, a report if it fails, an end with its parent."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, parent_process
from typing import Any

# How long processes may take to end, once forced to.
TERMINATE_S = 2.0

_REPORT_LIMIT = 50_000  # Below the 64 KiB a pipe takes without a reader.

# Processes that fail only because a peer died report late, so that the root cause comes first.
SECONDARY_ERROR_DELAY_S = 2.5
_CONNECTION_ERROR = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|socket|TCPStore|timed out|broken pipe",
    re.IGNORECASE,
)

_clean_ups: list[Callable[[], None]] = []


class Heartbeat:
    """What a process says about itself while it works, in memory shared with its parent.

    Attributes:
        values: time steps taken in the present task, whether it is at work, index of the
            environment it is busy with (or -1), how much else it has begun, such as resets. Written
            as plain numbers, since that costs the least in a step loop.
    """

    STEPS, BUSY, PLACE, BEGUN = 0, 1, 2, 3
    IDLE = (0, 0, -1, 0)

    def __init__(self, context: Any) -> None:
        self.values = context.RawArray("l", self.IDLE)

    @classmethod
    def beat(cls, values: Any, place: int) -> None:
        """Say that something begins which may take its time, in an environment, or -1 in none."""
        values[cls.PLACE] = place
        values[cls.BEGUN] += 1

    def resume(self) -> None:
        """Say that from now on others wait for this process."""
        self.values[self.STEPS] = 0
        self.values[self.BUSY] = 1

    def pause(self) -> None:
        """Say that it is done, and waits itself."""
        self.values[self.BUSY] = 0
        self.values[self.PLACE] = -1


@contextmanager
def heartbeat_paused(heartbeat: Heartbeat | None) -> Iterator[None]:
    """Meanwhile nobody waits for this process, or it may take its time."""
    if heartbeat is None:
        yield
        return
    heartbeat.values[Heartbeat.BUSY] = 0
    yield
    heartbeat.values[Heartbeat.STEPS] += 1
    heartbeat.values[Heartbeat.BUSY] = 1


def delay_secondary_error(error: BaseException | None, heartbeat: Heartbeat | None) -> None:
    """In a process which failed: let the runner find the cause first, if that is somewhere else."""
    if heartbeat is not None and is_connection_error(error):
        heartbeat.pause()
        time.sleep(SECONDARY_ERROR_DELAY_S)


def is_connection_error(error: BaseException | None) -> bool:
    """Whether ``error`` says that another process did not answer, rather than what went wrong."""
    return isinstance(error, RuntimeError) and _CONNECTION_ERROR.search(str(error)) is not None


def at_exit(clean_up: Callable[[], None]) -> None:
    """Call ``clean_up`` when this process ends, for whatever reason; after its report.

    It may hang, where what is to be cleaned up has failed; the parent waits for the report only.
    """
    _clean_ups.append(clean_up)


def run_child(
    target: Callable[..., Any], kwargs: dict[str, Any], report: Any, parent_pid: int
) -> None:
    """Do the task, and report if it fails.

    Args:
        target: the task.
        kwargs: of it.
        report: connection for the report.
        parent_pid: of the process which started this one.
    """
    # What a fork brought along belongs to the parent. Collecting it here would run destructors for
    # threads and devices which this process does not have, and copy the memory which is shared.
    gc.freeze()
    gc.enable()
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
            _leave(code)


def _report_and_close(report: Any, error: BaseException) -> None:
    """Say what happened; the end of the report says to the parent that there is no more to come."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with suppress(OSError):
        os.write(report.fileno(), text.encode()[-_REPORT_LIMIT:])
    faulthandler.disable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.unregister(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    report.close()


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

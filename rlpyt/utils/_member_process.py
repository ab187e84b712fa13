"""What every process of a pool does: its task, a report if it fails, an end with its parent."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, parent_process
from typing import Any

# How long processes may take to end, once forced to.
TERMINATE_S = 2.0

_REPORT_LIMIT = 50_000  # Below the 64 KiB a pipe takes without a reader.

_clean_ups: list[Callable[[], None]] = []


def at_end(clean_up: Callable[[], None]) -> None:
    """Call ``clean_up`` when this process ends, for whatever reason; after its report.

    It may hang, where what is to be cleaned up has failed; the parent waits for the report only.
    """
    _clean_ups.append(clean_up)


def run_member(
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

"""A thread that watches processes, and makes the main thread notice if one fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection

from rlpyt.processes.child import ChildProcess, StallDetector, WorkerError
from rlpyt.utils.logging import logger

POLL_S = 0.2  # Longest time before a failure is noticed.
# Grace periods: for this process to notice a failure, and before the program is ended by force.
GRACE_S, _FORCE_S = 1.0, 4.0


class Watcher:
    """Thread that watches processes while this process is busy.

    After a failure it gives this process time to notice, then kills the other processes, which
    breaks their connections, and finally interrupts the main thread.

    Args:
        children: processes to watch.
        find_failure: function of ``stalls`` that returns the error of a process, or None.
        stalls: detector of processes without heartbeat; None to look only for ended processes.

    Attributes:
        cause: error of the process that failed first, or None.
        has_interrupted: whether the thread has sent SIGINT to this process.
        stopping: event after which processes may end.
    """

    def __init__(
        self,
        children: Sequence[ChildProcess],
        find_failure: Callable[[StallDetector | None], WorkerError | None],
        stalls: StallDetector | None = None,
    ) -> None:
        self.cause: WorkerError | None = None
        self.has_interrupted = False
        self.stopping = threading.Event()
        self.stalls = stalls
        self._children = children
        self._may_interrupt = threading.current_thread() is threading.main_thread()
        self._thread = threading.Thread(
            target=self._watch, args=(find_failure,), name="watcher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop watching: from now on processes may end."""
        try:
            self.stopping.set()
            self._thread.join()
        except KeyboardInterrupt:
            if not self.has_interrupted:
                raise
            self.stopping.set()

    def _watch(self, find_failure: Callable[[StallDetector | None], WorkerError | None]) -> None:
        sentinels = [child.process.sentinel for child in self._children]
        while not self.stopping.is_set():
            # With a timeout, since children of a process may keep its sentinel open.
            connection.wait(sentinels, POLL_S)
            cause = find_failure(self.stalls)
            if cause is not None and not self.stopping.is_set():
                self.cause = cause
                self._make_main_thread_notice()
                return

    def _make_main_thread_notice(self) -> None:
        if self.stopping.wait(GRACE_S):
            return
        for child in self._children:
            child.process.kill()
        if self.stopping.wait(GRACE_S) or not self._may_interrupt:
            return
        self.has_interrupted = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if not self.stopping.wait(_FORCE_S):
            logger.log(f"ERROR: {self.cause}")
            logger.log("ERROR: this process hangs, cannot be interrupted, and is ended.")
            sys.stdout.flush()
            os._exit(1)

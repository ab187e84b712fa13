"""The other processes of a run on one machine: started, watched and ended by this one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

import torch

from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import Heartbeat, is_connection_error
from rlpyt.utils.processes.primitives import Barrier
from rlpyt.utils.processes.supervisor import (
    POLL_S,
    ChildProcess,
    StallDetector,
    Supervisor,
    WorkerError,
)

# This process has so long to notice by itself, at each step, before it is made to.
_GRACE_S, _FORCE_S = 1.0, 4.0


class Crew:
    """The processes which work with this one.

    A thread watches them while this process is busy in its loop. When one of them ends too early it
    ends the others, whose connections break then, and interrupts this process if that goes on.

    Args:
        start_method: "fork", "forkserver" or "spawn"; None for the usual one of the system.
        time_limit_s: how long a process may keep the others waiting.
        limit_name: the argument of the runner which that is.
        is_timed: whether the thread also watches for processes which take longer than that; else
            the limit is kept by whoever waits.
    """

    def __init__(
        self,
        start_method: str | None,
        time_limit_s: float | None,
        limit_name: str,
        is_timed: bool = False,
    ) -> None:
        own_limit_s = None if is_timed else time_limit_s  # Until the thread watches.
        self.pool = Supervisor(start_method, own_limit_s, limit_name)
        self.time_limit_s, self.limit_name = time_limit_s, limit_name
        self._is_timed = is_timed
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._cause: WorkerError | None = None
        self._has_ended_others = self._has_interrupted = False
        self._is_in_main_thread = threading.current_thread() is threading.main_thread()

    def barrier(self, n_processes: int) -> Barrier:
        """Where all processes wait until all have come; this one notices if one fails before."""
        return Barrier(self.pool, n_processes)

    def check_cuda(self) -> None:
        """Raise ``ValueError`` if processes which fork could not use CUDA any more."""
        if torch.cuda.is_initialized() and self.pool.context.get_start_method() == "fork":
            raise ValueError(
                "CUDA was used in this process already, so that those which fork from it cannot "
                "use it: pass start_method='spawn' to the runner"
            )

    def start(self, target: Callable[..., Any], kwargs: dict[str, Any], label: str) -> None:
        """Start ``target(heartbeat=..., **kwargs)`` in a process."""
        heartbeat = self.pool.heartbeat()
        self.pool.start(target, {"heartbeat": heartbeat, **kwargs}, label, heartbeat)

    def watch(self) -> None:
        """Notice from now on, whatever this process does, if one of the others ends."""
        self._thread = threading.Thread(target=self._watch, name="watch of processes", daemon=True)
        self._thread.start()

    def stop_watching(self) -> None:
        """From now on processes may end."""
        try:
            self._is_over.set()
            if self._thread is not None:
                self._thread.join()
        except KeyboardInterrupt:
            if not self._has_interrupted:
                raise
            self._is_over.set()

    def explain(self, error: BaseException | None) -> WorkerError | None:
        """End all processes, after ``error`` in this one; if one of them is its cause, say so."""
        self.stop_watching()
        if self._cause is None and is_connection_error(error):
            self._cause = self._find_dead(_GRACE_S)
            if self._cause is None and not self._is_timed:
                self._cause = self._accuse(self._busy())
        self.pool.terminate()
        if isinstance(error, KeyboardInterrupt) and not self._has_interrupted:
            return None
        if isinstance(error, WorkerError) and not self._has_ended_others:
            return None  # It says itself what happened.
        if self._cause is not None and self._has_interrupted:
            return WorkerError(
                f"{self._cause}\nThe process of the runner was interrupted then: see above where "
                "it was."
            )
        return self._cause

    def join(self) -> None:
        """Wait for the processes, whose work is done."""
        self.stop_watching()
        self.pool.join()

    # --- The cause of a failure -----------------------------------------------------------------

    def _find_dead(self, within_s: float = 0.0) -> WorkerError | None:
        """Whoever ended first."""
        deadline = time.monotonic() + within_s
        while True:
            dead = [member for member in self.pool.children if not member.process.is_alive()]
            if dead:
                deaths = {member.label: self.pool.error_of(member) for member in dead}
                # One which reports is more likely to be the cause than one which was ended.
                return deaths[max(dead, key=lambda member: bool(member.text)).label]
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.02)

    def _busy(self) -> list[ChildProcess]:
        return [m for m in self.pool.children if m.heartbeat.values[Heartbeat.BUSY]]

    def _accuse(self, silent: list[ChildProcess]) -> WorkerError | None:
        if not silent:
            return None
        limit = "" if self.time_limit_s is None else f" for {self.time_limit_s:g} s"
        places = [f"{m.describe()} was here:\n{self.pool.stack_of(m)}" for m in silent]
        return WorkerError(
            f"{silent[0].label} did not answer{limit}. If an iteration may take it that much "
            f"longer than the others, give the runner a larger {self.limit_name}, or None.\n"
            + "\n".join(places)
        )

    # --- The thread ----------------------------------------------------------------------------

    def _watch(self) -> None:
        sentinels = [member.process.sentinel for member in self.pool.children]
        silence, start = StallDetector(), time.monotonic()
        while not self._is_over.is_set():
            # A process may leave some of its own, which keep its sentinel as it was.
            connection.wait(sentinels, POLL_S)
            cause = self._find_dead() or self._find_silent(silence, start)
            if self._is_over.is_set() or self.pool.is_over:  # The others were ended by this one.
                return
            if cause is not None:
                self._cause = cause
                self._make_this_process_notice()
                return

    def _find_silent(self, silence: StallDetector, start: float) -> WorkerError | None:
        if not self._is_timed or self.time_limit_s is None:
            return None
        i, seconds = silence.longest(list(enumerate(self.pool.children)), start)
        return self._accuse([self.pool.children[i]]) if seconds > self.time_limit_s else None

    def _make_this_process_notice(self) -> None:
        if self._is_over.wait(_GRACE_S):
            return
        self._has_ended_others = True
        for member in self.pool.children:
            if member.process.is_alive():
                member.process.kill()
        if self._is_over.wait(_GRACE_S) or not self._is_in_main_thread:
            return  # Others cannot be interrupted; their next exchange will fail.
        self._has_interrupted = True
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if not self._is_over.wait(_FORCE_S):
            self._end_by_force()

    def _end_by_force(self) -> None:
        """This process hangs where Python cannot interrupt it: say why, and end."""
        logger.log(f"ERROR: {self._cause}")
        logger.log("ERROR: the process of the runner could not be interrupted, and is ended.")
        sys.stdout.flush()
        os._exit(1)

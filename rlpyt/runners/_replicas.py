"""The other processes of a synchronous run on one machine: started, watched and ended by rank 0."""

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

from rlpyt.runners._team import lost_contact
from rlpyt.utils._pool import POLL_S, Member, ProcessPool, WorkerError
from rlpyt.utils._rendezvous import Rendezvous
from rlpyt.utils.logging import logger

# Rank 0 has this long to notice by itself, at each step, before it is made to.
_GRACE_S, _FORCE_S = 1.0, 4.0
# Who waited in vain says so only later, so that the cause is found first.
_VICTIM_S = 2.5


class Replicas:
    """The processes of rank 1 and up.

    A thread watches them while rank 0 is busy in its loop. When one of them ends too early it
    ends the others, whose connections break then, and interrupts rank 0 if that goes on.

    Args:
        start_method: "fork", "forkserver" or "spawn"; None for the usual one of the system.
        time_limit_s: how long a process waits for the others, for error messages.
    """

    def __init__(self, start_method: str | None, time_limit_s: float | None) -> None:
        self.pool = ProcessPool(start_method)
        self.time_limit_s = time_limit_s
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._first_dead: Member | None = None
        self._has_interrupted = False
        self._is_in_main_thread = threading.current_thread() is threading.main_thread()

    def barrier(self, world_size: int) -> Rendezvous:
        """Where all processes wait until all have come; rank 0 notices if one fails before."""
        return Rendezvous(self.pool, world_size)

    def check_cuda(self) -> None:
        """Raise ``ValueError`` if processes which fork could not use CUDA any more."""
        if torch.cuda.is_initialized() and self.pool.context.get_start_method() == "fork":
            raise ValueError(
                "CUDA was used in this process already, so that those which fork from it cannot "
                "use it: pass start_method='spawn' to the runner"
            )

    def start(self, target: Callable[..., Any], kwargs: dict[str, Any], rank: int) -> None:
        """Start ``target(life=..., **kwargs)`` in the process of ``rank``."""
        life = self.pool.life_sign()
        self.pool.start(target, {"life": life, **kwargs}, f"rank {rank}", life)

    def watch(self) -> None:
        """Notice from now on whatever rank 0 does if a process ends."""
        self._thread = threading.Thread(target=self._watch, name="watch of ranks", daemon=True)
        self._thread.start()

    def stop_watching(self) -> None:
        """From now on processes may end."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def explain(self, error: BaseException | None) -> WorkerError | None:
        """End all processes, after ``error`` in rank 0; if one of them is its cause, say so."""
        self.stop_watching()
        if self._has_interrupted or lost_contact(error):
            explained: WorkerError | None = self._find_cause()
        else:
            explained = None
        self.pool.terminate()
        return explained

    def join(self) -> None:
        """Wait for the processes, whose work is done."""
        self.stop_watching()
        self.pool.join()

    # --- The cause of an error -----------------------------------------------------------------

    def _find_cause(self) -> WorkerError | None:
        deadline = time.monotonic() + _GRACE_S
        while self._first_dead is None and time.monotonic() < deadline:
            time.sleep(0.02)
            self._note_dead()
        if self._first_dead is not None:
            death = self.pool.death_of(self._first_dead)
            if not self._has_interrupted:
                return death
            return WorkerError(f"{death}\nRank 0 was interrupted then: see above where it was.")
        silent = [m for m in self.pool.members if m.life.values[m.life.BUSY]]
        if not silent:
            return None
        limit = "" if self.time_limit_s is None else f" for {self.time_limit_s:g} s"
        places = [f"{m.describe()} was here:\n{self.pool.stack_of(m)}" for m in silent]
        return WorkerError(
            f"{silent[0].label} did not answer{limit}. If an iteration may take it that much "
            "longer than the others, give the runner a larger rank_timeout_s, or None.\n"
            + "\n".join(places)
        )

    def _note_dead(self) -> None:
        for member in self.pool.members:
            if self._first_dead is None and not member.process.is_alive():
                self._first_dead = member

    # --- The thread ----------------------------------------------------------------------------

    def _watch(self) -> None:
        sentinels = [member.process.sentinel for member in self.pool.members]
        while not self._is_over.is_set():
            if connection.wait(sentinels, POLL_S) and not self._is_over.is_set():
                self._await_dead()
                self._make_rank_0_notice()
                return

    def _await_dead(self) -> None:
        while self._first_dead is None:
            self._note_dead()
            time.sleep(0.01)

    def _make_rank_0_notice(self) -> None:
        if self._is_over.wait(_GRACE_S):
            return
        for member in self.pool.members:
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
        """Rank 0 hangs where Python cannot interrupt it: say why, and end."""
        if self._first_dead is not None:
            logger.log(f"ERROR: {self.pool.death_of(self._first_dead)}")
        logger.log("ERROR: rank 0 could not be interrupted, and is ended.")
        sys.stdout.flush()
        os._exit(1)


def await_verdict(error: BaseException | None, life: Any) -> None:
    """In a replica which failed: let rank 0 find the cause first, if that is somewhere else."""
    if life is not None and lost_contact(error):
        life.end()
        time.sleep(_VICTIM_S)

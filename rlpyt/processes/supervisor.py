"""The supervisor, which starts, watches and ends processes, and raises their first error."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import ExitStack, contextmanager
from multiprocessing import util
from typing import Any, TypeVar

from rlpyt.processes.child import (
    TERMINATE_S,
    ChildProcess,
    Heartbeat,
    StallDetector,
    WorkerError as WorkerError,
    is_connection_error,
    run_child,
)
from rlpyt.processes.launch import start_process
from rlpyt.processes.watcher import GRACE_S, POLL_S, Watcher
from rlpyt.utils.logging import logger
from rlpyt.utils.shared_array import get_context

QUIT_S = 10.0  # Seconds for processes to end after their work is done.
_HOUR_S = 3600.0

T = TypeVar("T")


class Supervisor:
    """Supervisor of processes: it starts them, watches them in every wait, and ends them.

    While this process waits, it checks every ``POLL_S`` seconds whether a process has raised,
    crashed, been killed or sent no heartbeat within the time limit. If so, it ends the others and
    raises :class:`WorkerError` with its traceback. :meth:`watch` does so from a thread, while this
    process is busy. Ctrl-C interrupts only this process. The other processes end with this one,
    even if it is killed. After :meth:`allow_restarts`, a process that fails during a :meth:`task`
    is restarted. The end of the processes closes all files that this process shared with them. A
    supervisor that was pickled into another process watches nothing.

    Args:
        start_method: "fork", "forkserver" or "spawn"; None for the default of the system.
        time_limit_s: seconds between two heartbeats of a busy process; None for no limit.
        limit_name: name of the argument that sets the limit, for error messages.

    Attributes:
        context: multiprocessing context of the start method.
        children: processes, in the order of their start; none after their end.
        is_over: whether the processes have been ended.
        files: files shared with the processes, which are closed at the end.
        renewable: semaphores, barriers and queues; a restarted process gets new parts of them.
        restarted: indices of restarted processes that have not joined again yet.
        absent: indices of processes that take no part in the current task, so waits skip them.

    Raises:
        ValueError: if ``time_limit_s`` is not positive.
    """

    def __init__(
        self,
        start_method: str | None = None,
        time_limit_s: float | None = None,
        limit_name: str = "worker_timeout_s",
    ) -> None:
        if time_limit_s is not None and time_limit_s <= 0:
            raise ValueError(f"{limit_name} is {time_limit_s} s: give more than 0, or None")
        self.context = get_context(start_method)
        self.time_limit_s, self.limit_name = time_limit_s, limit_name
        self.children: list[ChildProcess] = []
        self.is_over = False
        self.files = ExitStack()
        self.renewable: list[Any] = []
        self.restarted: set[int] = set()
        self.absent: set[int] = set()
        self._start_again: Callable[[int], None] | None = None
        self._max_restarts = 0
        self._restart_times: list[float] = []
        self._in_task = False
        self._pid = os.getpid()
        self._watcher: Watcher | None = None
        # Runs before Python waits for its children at exit; does not keep the supervisor alive.
        util.Finalize(self, _end, (self.children,), exitpriority=100)

    def __getstate__(self) -> dict[str, Any]:
        return {"_pid": self._pid, "absent": set()}

    def start(
        self,
        target: Callable[..., Any],
        kwargs: dict[str, Any],
        label: str,
        heartbeat: Heartbeat | None = None,
        index: int | None = None,
    ) -> Any:
        """Start ``target(**kwargs)`` in a process, and return the process.

        Args:
            target: task of the process.
            kwargs: keyword arguments of ``target``; they must pickle unless processes fork.
            label: name of the process in errors.
            heartbeat: counters of the process, if the caller wants to read them too.
            index: index of the process to replace; None to add a process.
        """
        heartbeat = heartbeat or Heartbeat(self.context)
        heartbeat.pause()
        heartbeat.resume()
        heartbeat.values[Heartbeat.ENDING] = 0  # It may be that of a process that was ended.
        reader, writer = self.context.Pipe(duplex=False)
        args = (target, kwargs, heartbeat, writer, os.getpid())
        process = self.context.Process(target=run_child, args=args, name=label)
        start_process(process)
        writer.close()
        os.set_blocking(reader.fileno(), False)
        child = ChildProcess(process, label, heartbeat, reader)
        if index is None:
            index = len(self.children)
        self.children[index : index + 1] = [child]
        return process

    # --- Waiting -----------------------------------------------------------------------------

    def wait_for(
        self, acquire: Callable[[bool, float | None], bool], released_by: int | None = None
    ) -> bool:
        """Wait until ``acquire(True, timeout)`` returns True, and watch the processes meanwhile.

        Args:
            acquire: method of a semaphore, or a function with the same arguments.
            released_by: index of the process to wait for; None for all processes.

        Returns:
            False if process ``released_by`` is absent.

        Raises:
            WorkerError: if a process failed.
        """
        if released_by is not None and released_by in self.absent:
            return False
        if acquire(True, POLL_S):
            return True
        if os.getpid() != self._pid:
            return acquire(True, None)
        try:
            stalls = None
            while True:
                if stalls is None:
                    awaited = self.children if released_by is None else [self.children[released_by]]
                    stalls = StallDetector(awaited, self.time_limit_s)
                if self.check(stalls):
                    stalls = None
                    if released_by in self.absent:
                        return False
                if acquire(True, POLL_S):
                    return True
        except BaseException:
            self.terminate()  # After an interrupted wait the processes are out of step.
            raise

    def call(self, blocking: Callable[[], T], awaited: int | None = None) -> T | None:
        """Return ``blocking()``, called in a thread while this one watches the processes.

        Use it for waits that have no timeout, such as for the rest of a message whose sender may
        die.

        Args:
            blocking: function without arguments.
            awaited: index of the process that ``blocking`` waits for; None for any. If that process
                is absent, the thread is abandoned, and the result is None.

        Raises:
            WorkerError: if a process failed.
        """
        future: futures.Future[T] = futures.Future()

        def work() -> None:
            try:
                future.set_result(blocking())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="exchange with a process", daemon=True).start()
        is_done = self.wait_for(
            lambda block, timeout: bool(futures.wait([future], timeout).done), awaited
        )
        return future.result() if is_done else None

    @contextmanager
    def task(self) -> Iterator[None]:
        """Context of a task that all processes share; end them if it is interrupted.

        Otherwise they would keep waiting for the rest of the task and could not take another.

        Raises:
            WorkerError: at the beginning, if a process has failed.
        """
        self._in_task = True
        try:
            self.check()
            yield
        except BaseException:
            self.terminate()
            raise
        finally:
            self._in_task = False

    def check(self, stalls: StallDetector | None = None) -> bool:
        """Look for a failed process; restart it if that is allowed, or end all and raise an error.

        Args:
            stalls: detector of stalled processes; None to look only for ended processes.

        Returns:
            Whether a process failed and was restarted.
        """
        if self.is_over:
            raise WorkerError(
                "the processes have been shut down: start them again, for example by initializing "
                "the sampler again"
            )
        seen = None if self._watcher is None else self._watcher.cause
        failure = seen or self._find_failure(stalls)
        if failure is None:
            return False
        if not self._restart(failure):
            self.terminate()
            raise failure
        return True

    def _find_failure(self, stalls: StallDetector | None = None) -> WorkerError | None:
        ended = [child for child in self.children if child.has_ended()]
        if ended:  # A process with a report is more likely the cause than a killed one.
            failed = max(ended, key=lambda child: bool(child.text))
            error = failed.error()
        else:
            stalled = None if stalls is None else stalls.find()
            if stalled is None:
                return None
            failed, error = stalled, self._stall_error([stalled])
        error.child = failed
        return error

    def _stall_error(self, stalled: Sequence[ChildProcess]) -> WorkerError:
        who = "; ".join(child.describe() for child in stalled)
        limit = "in time" if self.time_limit_s is None else f"for {self.time_limit_s:g} s"
        stacks = "\n".join(f"{child.label} was here:\n{child.stack()}" for child in stalled)
        return WorkerError(
            f"{who} sent no heartbeat {limit}. If its work may take that long, pass a larger "
            f"{self.limit_name}, or None.\n{stacks}"
        )

    # --- Restarts ----------------------------------------------------------------------------

    def allow_restarts(self, start_again: Callable[[int], None], max_per_hour: int) -> None:
        """Restart processes that fail during a task, up to a number of times.

        The failed process is killed if it still lives, its parts of ``renewable`` are replaced, and
        it is absent from the rest of the task.

        Args:
            start_again: function that restarts the process with a given index.
            max_per_hour: number of restarts in an hour; the next failure raises.
        """
        self._start_again, self._max_restarts = start_again, max_per_hour

    def _restart(self, failure: WorkerError) -> bool:
        """Restart the failed process; return False if that is not allowed."""
        now = time.monotonic()
        self._restart_times = [t for t in self._restart_times if now - t < _HOUR_S]
        n_before = len(self._restart_times)
        child = failure.child
        if self._start_again is None or child is None or not self._in_task:
            return False
        if n_before >= self._max_restarts:
            return False
        self._restart_times.append(now)
        logger.log(
            f"WARNING: {failure}\nIt is restarted ({n_before + 1} of at most "
            f"{self._max_restarts} restarts in an hour)."
        )
        index = self.children.index(child)
        _end([child])
        for part in self.renewable:
            part.renew(index)
        self.absent.add(index)
        self.restarted.add(index)
        self._start_again(index)
        return True

    def admit_restarted(self) -> None:
        """Begin a task of the restarted processes alone: all others are absent from it."""
        self.absent = set(range(len(self.children))) - self.restarted
        self.restarted = set()

    # --- Watching from a thread ----------------------------------------------------------------

    def watch(self, detect_stalls: bool = False) -> None:
        """Watch all processes from a thread from now on, see :class:`Watcher`.

        Args:
            detect_stalls: whether a missing heartbeat counts as a failure.
        """
        stalls = StallDetector(self.children, self.time_limit_s) if detect_stalls else None
        self._watcher = Watcher(self.children, self._find_failure, stalls)

    def stop_watching(self) -> None:
        """Stop the thread of :meth:`watch`: from now on processes may end."""
        if self._watcher is not None:
            self._watcher.stop()

    @property
    def has_interrupted(self) -> bool:
        """Whether :meth:`watch` has interrupted this process by SIGINT."""
        return self._watcher is not None and self._watcher.has_interrupted

    def explain(self, error: BaseException | None) -> WorkerError | None:
        """End all processes after ``error`` in this one, and return the error that caused it.

        Returns:
            None if no other process caused ``error``, or if it already is a ``WorkerError``.
        """
        self.stop_watching()
        cause = None if self._watcher is None else self._watcher.cause
        if cause is None and is_connection_error(error):
            cause = self._find_lost_peer()
        self.terminate()
        is_interrupt = isinstance(error, KeyboardInterrupt) and not self.has_interrupted
        if cause is None or is_interrupt or isinstance(error, WorkerError):
            return None
        if not self.has_interrupted:
            return cause
        return WorkerError(f"{cause}\nThis process was interrupted then: see above where.")

    def _find_lost_peer(self) -> WorkerError | None:
        """Find the process that has died, or else the processes that keep all others waiting."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            failure = self._find_failure()
            if failure is not None:
                return failure
            time.sleep(0.02)
        busy = [child for child in self.children if child.heartbeat.values[Heartbeat.BUSY]]
        detects_stalls = self._watcher is not None and self._watcher.stalls is not None
        return self._stall_error(busy) if busy and not detects_stalls else None

    # --- The end -----------------------------------------------------------------------------

    def join(self, timeout_s: float = QUIT_S) -> None:
        """Wait for processes whose work is done, and terminate the ones that do not end."""
        self.stop_watching()
        deadline = time.monotonic() + timeout_s
        for child in self.children:
            child.process.join(max(0.0, deadline - time.monotonic()))
        self.terminate()

    def terminate(self) -> None:
        """Terminate all processes, kill the ones that do not end, and close all shared files."""
        self.is_over = True
        if os.getpid() != self._pid:
            return
        self.stop_watching()
        _end(self.children)
        self.files.close()
        # Nothing is restarted any more; circles of references would wait for the garbage collector.
        self.children.clear()
        self.renewable.clear()
        self._start_again = None


def _end(children: Sequence[ChildProcess]) -> None:
    for child in children:
        child.heartbeat.values[Heartbeat.ENDING] = 1
    for end in ("terminate", "kill"):
        deadline = time.monotonic() + TERMINATE_S
        alive = [child.process for child in children if child.process.is_alive()]
        while alive and time.monotonic() < deadline:
            for process in alive:  # Again: a signal just before a system call does not end it.
                getattr(process, end)()
            again = time.monotonic() + POLL_S
            for process in alive:
                process.join(max(0.0, again - time.monotonic()))
            alive = [process for process in alive if process.is_alive()]
    for child in children:
        child.close()

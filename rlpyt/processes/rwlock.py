"""Read-write lock between processes, released when its holder ends in any way."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import weakref
from multiprocessing.context import assert_spawning
from multiprocessing.reduction import DupFd
from multiprocessing.sharedctypes import RawValue
from typing import Any

# Bytes of the file, which can be locked without existing. A writer holds the gate while it waits
# for readers to leave, so that new readers cannot keep it waiting forever.
_GATE, _DATA = 0, 1

# Errors that are raised before anything is written.
_REFUSALS = (TypeError, ValueError)


def _nameless_file() -> int:
    """Return the descriptor of an empty file, in memory where possible: disks may be remote."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rlpyt-lock")
    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


class ReadWriteLock:
    """Lock for many reading processes or one that writes.

    ``with lock:`` reads and ``with lock.write_lock:`` writes. The operating system keeps the lock,
    as record locks on a nameless file, and releases it when its holder ends in any way. If a writer
    ends before it is done, the lock refuses all processes, so incomplete data are never read. A
    process that holds the lock may take it again; its threads take turns.

    Other processes receive it as an argument at their start, or by fork.
    """

    def __init__(self) -> None:
        self._open(_nameless_file(), RawValue("l", 0), RawValue("l", 0))

    def _open(self, fd: int, writer: Any, n_processes: Any) -> None:
        self._fd, self._writer, self._n_processes = fd, writer, n_processes
        weakref.finalize(self, os.close, fd).atexit = False
        self._begin_process()

    def _begin_process(self) -> None:
        """Reset the state in a forked process, which does not hold the locks of its parent."""
        self._pid = os.getpid()
        self._threads = threading.RLock()
        self._depth = 0
        self._is_writing = False
        self._process_index: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        assert_spawning(self)
        return {"fd": DupFd(self._fd), "writer": self._writer, "n_processes": self._n_processes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(state["fd"].detach(), state["writer"], state["n_processes"])

    @property
    def write_lock(self) -> WriteLock:
        """The writing side, for ``with``."""
        return WriteLock(self)

    @property
    def process_index(self) -> int:
        """Index of this process, in the order of first use of the lock; read while held."""
        assert self._process_index is not None
        return self._process_index

    def __enter__(self) -> None:
        self.acquire_read()

    def __exit__(self, *args: object) -> None:
        self.release_read()

    def acquire_read(self) -> None:
        """Wait until there is no writer, and keep writers out.

        Raises:
            RuntimeError: if a process ended while it wrote.
        """
        self._acquire(fcntl.LOCK_SH)

    def acquire_write(self) -> None:
        """Wait until there is neither a reader nor a writer, and keep both out.

        Raises:
            RuntimeError: if a process ended while it wrote, or this one reads.
        """
        self._acquire(fcntl.LOCK_EX)

    def release_read(self) -> None:
        """Stop reading; only the thread that acquired the lock may call this."""
        self._release()

    def release_write(self, is_complete: bool = True) -> None:
        """Release the lock, or refuse all processes from now on if a write is incomplete."""
        self._release(is_complete)

    def _acquire(self, kind: int) -> None:
        if self._pid != os.getpid():
            self._begin_process()
        self._threads.acquire()
        try:
            if self._depth == 0:
                self._lock_file(kind)
            elif kind == fcntl.LOCK_EX and not self._is_writing:
                raise RuntimeError(
                    "a reader cannot begin to write, since others read too: release first, or hold "
                    "write_lock around the whole"
                )
        except BaseException:
            self._threads.release()
            raise
        self._depth += 1

    def _lock_file(self, kind: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _GATE)
        try:
            fcntl.lockf(self._fd, kind, 1, _DATA)
            if self._process_index is None:
                self._process_index = self._n_processes.value
                self._n_processes.value += 1
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _GATE)
        if self._writer.value:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _DATA)
            raise RuntimeError(
                f"process {self._writer.value} ended or failed while it wrote under this lock, so "
                "the shared data are incomplete: look for its error, end the run and resume from "
                "the last snapshot"
            )
        self._is_writing = kind == fcntl.LOCK_EX
        if self._is_writing:
            self._writer.value = self._pid

    def _release(self, is_complete: bool = True) -> None:
        if self._pid != os.getpid() or self._depth == 0:
            raise ValueError(
                "released more often than acquired, in this process: acquire before each release"
            )
        self._depth -= 1
        if self._depth == 0:
            if self._is_writing and is_complete:
                self._writer.value = 0
            self._is_writing = False
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _DATA)
        self._threads.release()


class WriteLock:
    """Writing side of a :class:`ReadWriteLock`."""

    def __init__(self, lock: ReadWriteLock) -> None:
        self.acquire = lock.acquire_write
        self.release = lock.release_write

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, error: type[BaseException] | None, *args: object) -> None:
        self.release(is_complete=error is None or issubclass(error, _REFUSALS))

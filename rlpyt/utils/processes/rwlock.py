"""A lock which cannot outlive the process that holds it."""

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

# Bytes of the file, which need not exist to be locked. A writer keeps the gate while it waits for
# readers to leave, so that more readers cannot keep it waiting for ever.
_GATE, _DATA = 0, 1

# These say that something was refused, which is before anything is written.
_REFUSALS = (TypeError, ValueError)


def _file_without_name() -> int:
    """Descriptor of an empty file, in memory where there is such a thing: disks may be remote."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rlpyt-lock")
    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


class ReadWriteLock:
    """A lock for many reading processes or one that writes.

    ``with lock:`` reads and ``with lock.write_lock:`` writes. The operating system keeps it (as
    record locks on a file without a name) and takes it back from a process that ends in whatever
    way, so nobody waits for the dead. What a writer left unfinished is never read: the lock then
    refuses everyone. A process that holds the lock may take it again; its threads take turns.

    It goes to other processes by being an argument of them, or by fork.
    """

    def __init__(self) -> None:
        self._own_file(_file_without_name())
        self._writer = RawValue("l", 0)
        self._n_members = RawValue("l", 0)
        self._begin_process()

    def _own_file(self, fd: int) -> None:
        self._fd = fd
        weakref.finalize(self, os.close, fd).atexit = False

    def _begin_process(self) -> None:
        """Hold nothing: a lock does not pass to a process that was forked from its holder."""
        self._pid = os.getpid()
        self._threads = threading.RLock()
        self._depth = 0
        self._is_writing = False
        self._member: int | None = None

    @property
    def write_lock(self) -> WriteLock:
        """The writing side, for ``with``."""
        return WriteLock(self)

    @property
    def member(self) -> int:
        """Number of this process among those which took the lock, in the order they did so first.

        To be read while the lock is held.
        """
        assert self._member is not None
        return self._member

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
        """Give up reading; to be called by the thread that acquired."""
        self._release()

    def release_write(self, is_complete: bool = True) -> None:
        """Let others in, or keep everyone out from now on if what was written is not complete."""
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
            if self._member is None:
                self._member = self._n_members.value
                self._n_members.value += 1
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _GATE)
        if self._writer.value:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _DATA)
            raise RuntimeError(
                f"process {self._writer.value} ended or failed while it wrote what this lock "
                "protects, which is incomplete now: look for its error, end the run and resume it "
                "from its last snapshot"
            )
        self._is_writing = kind == fcntl.LOCK_EX
        if self._is_writing:
            self._writer.value = self._pid

    def _release(self, is_complete: bool = True) -> None:
        if self._pid != os.getpid() or self._depth == 0:
            raise ValueError("released more often than acquired, in this process")
        self._depth -= 1
        if self._depth == 0:
            if self._is_writing and is_complete:
                self._writer.value = 0
            self._is_writing = False
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _DATA)
        self._threads.release()

    def __getstate__(self) -> dict[str, Any]:
        assert_spawning(self)
        return {
            "fd": DupFd(self._fd),
            "writer": self._writer,
            "n_members": self._n_members,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._own_file(state["fd"].detach())
        self._writer = state["writer"]
        self._n_members = state["n_members"]
        self._begin_process()


class WriteLock:
    """The writing side of a :class:`ReadWriteLock`."""

    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire_write()

    def __exit__(self, error: type[BaseException] | None, *args: object) -> None:
        self._lock.release_write(is_complete=error is None or issubclass(error, _REFUSALS))

    def acquire(self) -> None:
        """Wait until there is neither a reader nor a writer, and keep both out."""
        self._lock.acquire_write()

    def release(self) -> None:
        """Let others in."""
        self._lock.release_write()

"""What processes need to share a replay buffer, queues and ports."""

from __future__ import annotations

import multiprocessing as mp
import os
import queue
import socket
import time
from multiprocessing.sharedctypes import RawValue
from typing import Any

_FIRST_PORT, _LAST_PORT, _PORT_STEP = 29500, 65000, 100


class PipeLock:
    """A lock which may go to processes of any start method, and leaves no name in the system.

    The lock is a byte in a pipe, and who reads it has it. Any process may give it back.
    """

    def __init__(self) -> None:
        self._reader, self._writer = mp.Pipe(duplex=False)
        # Several may find it ready to be read, and only one of them gets the byte.
        os.set_blocking(self._reader.fileno(), False)
        self.release()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take the lock; False if it was not free within ``timeout`` seconds, or now."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return len(os.read(self._reader.fileno(), 1)) == 1
            except BlockingIOError:
                if not block:
                    return False
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._reader.poll(left)

    def release(self) -> None:
        """Give the lock back.

        Raises:
            ValueError: if nobody had it.
        """
        if self._reader.poll(0):
            raise ValueError("released a lock that nobody had")
        os.write(self._writer.fileno(), b".")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *args: object) -> None:
        self.release()


class RWLock:
    """A lock for many readers or one writer, shared between processes.

    ``with lock:`` reads and ``with lock.write_lock:`` writes. The first reader takes the write lock
    and the last one gives it back, so readers that overlap without a pause keep writers waiting.
    """

    def __init__(self) -> None:
        self.write_lock = PipeLock()
        self._count_lock = PipeLock()
        self._n_readers = RawValue("i", 0)

    def __enter__(self) -> None:
        self.acquire_read()

    def __exit__(self, *args: object) -> None:
        self.release_read()

    def acquire_write(self) -> None:
        """Wait until there is neither a reader nor a writer, and keep both out."""
        self.write_lock.acquire()

    def release_write(self) -> None:
        """Let others in; any process may call it."""
        self.write_lock.release()

    def acquire_read(self) -> None:
        """Wait until there is no writer, and keep writers out."""
        with self._count_lock:
            if self._n_readers.value == 0:
                self.write_lock.acquire()
            self._n_readers.value += 1

    def release_read(self) -> None:
        """Give up reading; any process may call it."""
        with self._count_lock:
            if self._n_readers.value == 0:
                raise ValueError("release_read was called more often than acquire_read")
            self._n_readers.value -= 1
            if self._n_readers.value == 0:
                self.write_lock.release()


def drain_queue(queue_obj: Any, n_sentinel: int = 0, guard_sentinel: bool = False) -> list[Any]:
    """Take out what is in a queue; None is a sentinel, by which a producer says that it is done.

    Args:
        queue_obj: Queue with ``get`` and ``put``.
        n_sentinel: Wait until this many sentinels came. With 0, wait for nothing: an item which
            another process has just put may be left for the next call.
        guard_sentinel: With ``n_sentinel=0``, stop at a sentinel and put it back.

    Returns:
        The items which are not None, in order.
    """
    items: list[Any] = []
    if n_sentinel > 0:
        while n_sentinel > 0:
            item = queue_obj.get()
            if item is None:
                n_sentinel -= 1
            else:
                items.append(item)
        return items
    while True:
        try:
            item = queue_obj.get(block=False)
        except queue.Empty:
            return items
        if item is not None:
            items.append(item)
        elif guard_sentinel:
            queue_obj.put(None)
            return items


def find_port(offset: int) -> int:
    """A free TCP port: the first one of 29500 + offset, 29600 + offset, ... below 65000.

    Args:
        offset: Keeps runs on one machine apart, e.g. their first CPU; taken modulo 100.

    Raises:
        RuntimeError: If none is free.
    """
    first = _FIRST_PORT + offset % _PORT_STEP
    for port in range(first, _LAST_PORT, _PORT_STEP):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port {first}, {first + _PORT_STEP}, ... is free: use another offset")

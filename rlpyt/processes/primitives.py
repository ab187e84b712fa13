"""Semaphore, barrier and queue whose waits notice failed processes.

The process with the supervisor notices a failure; in other processes the same objects only wait.
Every process uses separate parts of an object, and no lock is shared, so a dying process cannot
block others. If the supervisor restarts it, its parts are replaced.
"""

from __future__ import annotations

import copy
import os
import pickle
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from typing import Any, TypeVar

from rlpyt.processes.supervisor import Supervisor

T = TypeVar("T", bound="_Shared")

_HEADER_BYTES = 8  # Size of an item, in front of it.
_CHUNK_BYTES = 1 << 20


class Semaphore:
    """Semaphore that starts at 0.

    Args:
        supervisor: supervisor of the processes on the other side.
        released_by: index of the process that releases it; None if this process does.
        acquired_by: index of the process that acquires it; None for this process or any.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        released_by: int | None = None,
        acquired_by: int | None = None,
    ) -> None:
        self.supervisor = supervisor
        self._released_by, self._acquired_by = released_by, acquired_by
        self._semaphore = supervisor.context.Semaphore(0)
        supervisor.renewable.append(self)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take one unit; without ``timeout``, wait as long as no process fails.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        if block and timeout is None:
            self.supervisor.wait_for(self._semaphore.acquire, self._released_by)
            return True
        taken: bool = self._semaphore.acquire(block, timeout)
        return taken

    def release(self) -> None:
        """Add one unit, unless the process that acquires it is absent."""
        if self._acquired_by is None or self._acquired_by not in self.supervisor.absent:
            self._semaphore.release()

    def renew(self, index: int) -> None:
        """Replace the semaphore if process ``index`` uses it."""
        if index in (self._released_by, self._acquired_by):
            self._semaphore = self.supervisor.context.Semaphore(0)


class _Shared:
    """Base class of shared objects with one member per process.

    Args:
        supervisor: supervisor of the other processes.
        n_members: number of the other processes.
    """

    def __init__(self, supervisor: Supervisor, n_members: int) -> None:
        self.supervisor = supervisor
        self._pid = os.getpid()
        self._members = {place: self._new_member() for place in range(n_members)}
        self._place: int | None = None
        self._free_places = [supervisor.context.Semaphore(1) for _ in range(n_members)]
        supervisor.renewable.append(self)

    def _new_member(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def at(self: T, place: int) -> T:
        """Return the object for process ``place``; without ``at``, a process takes a free place.

        A process can be restarted only if its place is its index.
        """
        own = copy.copy(self)
        own._members, own._place = {place: self._members[place]}, place
        return own

    def _own_place(self) -> int:
        if self._place is None:
            places = enumerate(self._free_places)
            self._place = next(place for place, free in places if free.acquire(block=False))
        return self._place

    def renew(self, index: int) -> None:
        """Replace the member of process ``index``."""
        self._members[index] = self._new_member()


class Barrier(_Shared):
    """Barrier that all parties pass together, any number of times.

    The process that made it opens it for the others; each process needs two semaphore operations.
    Unlike in ``multiprocessing``, an interrupted wait does not break the barrier.

    Args:
        supervisor: supervisor of all parties but this process.
        parties: number of processes that meet.

    Attributes:
        opened_at: time at which this process last opened the barrier.
    """

    def __init__(self, supervisor: Supervisor, parties: int) -> None:
        super().__init__(supervisor, parties - 1)
        self.parties = parties
        self.opened_at = 0.0
        self._has_come: set[int] = set()

    def _new_member(self) -> tuple[Any, Any]:
        """Return the two semaphores of a process: it has arrived, and it may pass."""
        context = self.supervisor.context
        return context.Semaphore(0), context.Semaphore(0)

    def wait(self) -> None:
        """Wait for all other parties.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        if os.getpid() == self._pid:
            self.collect()
            self.open()
        else:
            come, gate = self._members[self._own_place()]
            come.release()
            self.supervisor.wait_for(gate.acquire)

    def collect(self) -> None:
        """Wait until all other processes, except absent ones, have arrived; let none pass.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        for place in self._members:
            if place not in self._has_come:
                self.supervisor.wait_for(partial(self._comes, place))

    def is_complete(self) -> bool:
        """Return whether all other processes, except absent ones, have arrived."""
        return all(self._comes(place, False) for place in self._members)

    def _comes(self, place: int, block: bool, timeout: float | None = None) -> bool:
        if place in self._has_come or place in self.supervisor.absent:
            return True
        if not self._members[place][0].acquire(block, timeout):
            return False
        self._has_come.add(place)
        return True

    def open(self) -> None:
        """Let the processes pass that have arrived."""
        passing = self._has_come - self.supervisor.absent
        self._has_come -= passing
        self._let_pass(passing)

    def open_for_all(self) -> None:
        """Open the barrier for good, without waiting for the other processes."""
        self._let_pass(self._members)

    def _let_pass(self, places: Iterable[int]) -> None:
        self.opened_at = time.monotonic()
        for place in places:
            self._members[place][1].release()

    def renew(self, index: int) -> None:
        super().renew(index)
        self._has_come.discard(index)


class CountedQueue(_Shared):
    """Queue of several writers and one reader, with a count of the sent items.

    An item is counted before it is sent, so one that was put before a :class:`Barrier` is never
    missed after it: ``get(block=False)`` waits for it. Items of one writer keep their order.

    Args:
        supervisor: supervisor of the processes that put; this process gets.
        n_writers: number of these processes.
    """

    def __init__(self, supervisor: Supervisor, n_writers: int = 1) -> None:
        super().__init__(supervisor, n_writers)
        self._n_put = supervisor.context.RawArray("l", n_writers)
        self._n_got = [0] * n_writers
        self._begun = [bytearray() for _ in range(n_writers)]  # Items received in part.
        self._items: deque[tuple[int, bytes]] = deque()
        supervisor.files.callback(self.close)
        self._sender: ThreadPoolExecutor | None = None

    def _new_member(self) -> tuple[Any, Any]:
        """Return both ends of a pipe."""
        reader, writer = self.supervisor.context.Pipe(duplex=False)
        os.set_blocking(reader.fileno(), False)  # A writer may die in the middle of an item.
        return reader, writer

    def put(self, item: Any) -> None:
        """Send an item without waiting for the reader; the reader may put items too.

        Raises:
            TypeError: if it does not pickle.
        """
        try:
            # Pickled here, since after an error in the thread the reader would wait forever.
            data = pickle.dumps(item)
        except Exception as error:
            raise TypeError(
                f"{item!r} cannot be sent to another process ({error}): define its class at the "
                "top of a module, and give it plain values and arrays only"
            ) from error
        if os.getpid() == self._pid:
            self._items.append((-1, data))
            return
        place = self._own_place()
        self._n_put[place] += 1
        if self._sender is None:
            self._sender = ThreadPoolExecutor(1)
        self._sender.submit(_send, self._members[place][1], data)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next item; without ``timeout``, wait as long as no process fails.

        Raises:
            queue.Empty: if all items have been taken, unless ``block``.
            WorkerError: if a process failed meanwhile.
        """
        if timeout is not None:
            self._has_item(block, timeout)
        elif not self._items:
            self.supervisor.wait_for(self._has_item if block else self._has_all)
        if not self._items:
            raise queue.Empty
        return pickle.loads(self._items.popleft()[1])

    def get_all(self) -> list[Any]:
        """Take all items that were put so far.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        return [item for _, item in self._take_all()]

    def _take_all(self) -> list[tuple[int, Any]]:
        """Take all items that were put so far, each with the place of its writer."""
        self.supervisor.wait_for(self._has_all)
        taken = [(place, pickle.loads(data)) for place, data in self._items]
        self._items.clear()
        return taken

    def _has_item(self, block: bool, timeout: float | None) -> bool:
        return self._receive(block, timeout, lambda: len(self._items) > 0)

    def _has_all(self, block: bool, timeout: float | None) -> bool:
        return self._receive(block, timeout, lambda: self._n_got == list(self._n_put))

    def _receive(self, block: bool, timeout: float | None, is_enough: Callable[[], bool]) -> bool:
        """Read the available data; if it is incomplete, wait for more and read that."""
        self._read()
        readers = [reader for reader, _ in self._members.values()]
        while block and not is_enough() and connection.wait(readers, timeout):
            self._read()
        return is_enough()

    def _read(self) -> None:
        for place, (reader, _) in self._members.items():
            if self._n_got[place] == self._n_put[place]:
                continue
            begun = self._begun[place]
            with suppress(BlockingIOError):
                while chunk := os.read(reader.fileno(), _CHUNK_BYTES):
                    begun += chunk
            while len(begun) >= (end := _size(begun)):
                self._items.append((place, bytes(begun[_HEADER_BYTES:end])))
                self._n_got[place] += 1
                del begun[:end]

    def renew(self, index: int) -> None:
        """Replace the member of process ``index``, and drop its items."""
        for end in self._members[index]:
            end.close()
        super().renew(index)
        self._n_got[index] = self._n_put[index] = 0
        self._begun[index].clear()
        self._items = deque((place, data) for place, data in self._items if place != index)

    def close(self) -> None:
        """Close the queue, once no process puts items any more."""
        for reader, writer in self._members.values():
            reader.close()
            writer.close()


def _size(begun: bytearray) -> int:
    """Return the size of the first item with its header, as far as it has arrived."""
    header = begun[:_HEADER_BYTES]
    known = len(header) == _HEADER_BYTES
    return _HEADER_BYTES + (int.from_bytes(header, "big") if known else 0)


def _send(writer: Any, data: bytes) -> None:
    rest = memoryview(len(data).to_bytes(_HEADER_BYTES, "big") + data)
    while rest:
        rest = rest[os.write(writer.fileno(), rest) :]

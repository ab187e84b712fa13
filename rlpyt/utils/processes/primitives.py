"""Semaphore, barrier and queue whose waits notice a failure of the processes.

The process that made the supervisor notices it; in the others the same objects just wait.
"""

from __future__ import annotations

import pickle
import queue
from typing import Any

from rlpyt.utils.processes.supervisor import Supervisor


class Semaphore:
    """Semaphore that starts at 0.

    Args:
        supervisor: supervisor of the processes on the other side.
        released_by: index of the process that releases it; None if this process does.
    """

    def __init__(self, supervisor: Supervisor, released_by: int | None = None) -> None:
        self.supervisor = supervisor
        self._released_by = released_by
        self._semaphore = supervisor.context.Semaphore(0)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take one unit; without ``timeout``, wait for as long as the processes are well.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        if block and timeout is None:
            self.supervisor.wait_for(self._semaphore.acquire, self._released_by)
            return True
        taken: bool = self._semaphore.acquire(block, timeout)
        return taken

    def release(self) -> None:
        """Add one unit."""
        self._semaphore.release()


class Barrier:
    """Barrier that all parties pass together, any number of times.

    Unlike the barrier of ``multiprocessing`` it can be passed without waiting, its waits can be
    interrupted without breaking it, and it costs two semaphore operations for each process. Two
    gates are used in turn: one is used again only after all parties have arrived at the other, so
    none is left behind at it, and none can slip through with the unit of another.

    Args:
        supervisor: supervisor of all parties but this process.
        parties: number of processes that meet.
    """

    def __init__(self, supervisor: Supervisor, parties: int) -> None:
        self.supervisor = supervisor
        self.parties = parties
        context = supervisor.context
        self._lock = context.Lock()
        self._gates = (context.Semaphore(0), context.Semaphore(0))
        self._counts = context.RawArray("l", 2)  # Parties that wait now, generation.

    @property
    def n_waiting(self) -> int:
        """Number of parties that have arrived for the next passage."""
        return int(self._counts[0])

    @property
    def generation(self) -> int:
        """Number of times that all parties have passed."""
        return int(self._counts[1])

    def wait(self) -> None:
        """Arrive, and wait for all other parties.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        gate = self.arrive()
        if gate is not None:
            self.supervisor.wait_for(gate.acquire)

    def arrive(self) -> Any:
        """Arrive without waiting: the other parties need not wait for this process any more.

        Returns:
            The semaphore that opens when all have arrived; None if this process was the last.
        """
        self.supervisor.wait_for(self._lock.acquire)
        try:
            n_waiting, generation = self._counts
            gate = self._gates[generation % 2]
            if n_waiting + 1 < self.parties:
                self._counts[0] = n_waiting + 1
                return gate
            self._counts[:] = 0, generation + 1
        finally:
            self._lock.release()
        for _ in range(self.parties - 1):
            gate.release()
        return None


class CountedQueue:
    """Queue of many writers and one reader, which knows how many items are on their way.

    An item is counted before it is sent, so one that was put before a :class:`Barrier` is never
    missed after it: ``get(block=False)`` waits for it.

    Args:
        supervisor: supervisor of the processes that put; this process gets.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._queue = supervisor.context.Queue()
        self._lock = supervisor.context.Lock()
        self._n_put = supervisor.context.RawValue("l", 0)
        self._n_got = 0

    def put(self, item: Any) -> None:
        """Send an item.

        Raises:
            TypeError: if it does not pickle.
        """
        try:
            # Here, since the queue's own thread would drop it, and the reader wait for ever.
            data = pickle.dumps(item)
        except Exception as error:
            raise TypeError(
                f"{item!r} cannot be sent to another process ({error}): define its class at the "
                "top of a module, and give it plain values and arrays only"
            ) from error
        with self._lock:
            self._n_put.value += 1
        self._queue.put(data)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next item; without ``timeout``, wait for as long as the processes are well.

        Raises:
            queue.Empty: unless ``block``, if all items that were put have been taken.
            WorkerError: if a process failed meanwhile.
        """
        if not block and self._n_got >= self._n_put.value:
            raise queue.Empty
        if timeout is None:
            return self._take(1)[0]
        data = self._queue.get(True, timeout)
        self._n_got += 1
        return pickle.loads(data)

    def get_all(self) -> list[Any]:
        """Take all items that have been put by now.

        Raises:
            WorkerError: if a process failed meanwhile.
        """
        n = self._n_put.value - self._n_got
        return self._take(n) if n > 0 else []

    def _take(self, n: int) -> list[Any]:
        # The whole of it in a thread: a writer may die in the middle of an item.
        data = self.supervisor.call(lambda: [self._queue.get() for _ in range(n)])
        self._n_got += n
        return [pickle.loads(item) for item in data]

    def close(self) -> None:
        """Let go of the queue, when no process puts items any more."""
        self._queue.close()
        self._queue.cancel_join_thread()

"""Where processes wait for each other: semaphores, a barrier and a queue, watched by a pool.

Whoever made the pool notices while it waits that a process died. In the processes of the pool the
same objects just wait.
"""

from __future__ import annotations

import pickle
import queue
from typing import Any

from rlpyt.utils._pool import POLL_S, ProcessPool


class _Watched:
    """Knows the pool, in the process which made it."""

    _pool: ProcessPool | None = None

    def watch_with(self, pool: ProcessPool) -> None:
        """Watch another pool while this process waits here, e.g. in a server with its workers."""
        self._pool = pool

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def _wait_for(self, acquire: Any, suspect: int | None = None) -> None:
        if self._pool is None:
            acquire(True, None)
        elif not acquire(True, POLL_S):
            self._pool.wait_for(acquire, suspect)


class Signal(_Watched):
    """A semaphore, at 0 in the beginning.

    Args:
        pool: whose processes are on the other side.
        suspect: index of the process which releases it; None if this process does.
    """

    def __init__(self, pool: ProcessPool, suspect: int | None = None) -> None:
        self._pool = pool
        self._suspect = suspect
        self._semaphore = pool.context.Semaphore(0)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take one unit, waiting for it as long as it takes.

        Raises:
            WorkerError: if a process of the pool failed meanwhile.
        """
        if block and timeout is None:
            self._wait_for(self._semaphore.acquire, self._suspect)
            return True
        taken: bool = self._semaphore.acquire(block, timeout)
        return taken

    def release(self) -> None:
        """Add one unit."""
        self._semaphore.release()


class Rendezvous(_Watched):
    """A barrier: everyone waits until all have come; again and again.

    Two gates are used in turn. A gate is used again only after everyone has come to the other one,
    so nobody is left at it, and nobody can slip through with the unit of another.

    Args:
        pool: of all parties but this process.
        parties: how many meet.
    """

    def __init__(self, pool: ProcessPool, parties: int) -> None:
        self._pool = pool
        self.parties = parties
        context = pool.context
        self._lock = context.Lock()
        self._gates = (context.Semaphore(0), context.Semaphore(0))
        self._counts = context.RawArray("l", 2)  # Who waits now; meetings so far.

    @property
    def n_waiting(self) -> int:
        """How many have come to the next meeting."""
        return int(self._counts[0])

    @property
    def n_meetings(self) -> int:
        """How often all have come."""
        return int(self._counts[1])

    def wait(self) -> None:
        """Wait for all others.

        Raises:
            WorkerError: if a process of the pool failed meanwhile.
        """
        gate = self._come()
        if gate is not None:
            self._wait_for(gate.acquire)

    def leave(self) -> None:
        """Come, and go on at once: the others need not wait for this process any more."""
        self._come()

    def _come(self) -> Any:
        """Count this process; return where to wait, or None after opening for the others."""
        self._wait_for(self._lock.acquire)
        try:
            gate = self._gates[self._counts[1] % 2]
            self._counts[0] += 1
            is_last = self._counts[0] == self.parties
            if is_last:
                self._counts[0] = 0
                self._counts[1] += 1
        finally:
            self._lock.release()
        if not is_last:
            return gate
        for _ in range(self.parties - 1):
            gate.release()
        return None


class CountedQueue(_Watched):
    """A queue into which processes put, and whose reader knows how many items are on their way.

    An item is counted before it is sent, so one that was put before a :class:`Rendezvous` is never
    missed after it: ``get(block=False)`` waits for it.

    Args:
        pool: whose processes put; this process gets.
    """

    def __init__(self, pool: ProcessPool) -> None:
        self._pool = pool
        self._queue = pool.context.Queue()
        self._lock = pool.context.Lock()
        self._n_put = pool.context.RawValue("l", 0)
        self._n_got = 0

    @property
    def n_put(self) -> int:
        """Items that were ever put."""
        return int(self._n_put.value)

    @property
    def n_got(self) -> int:
        """Items that were taken."""
        return self._n_got

    def put(self, item: Any) -> None:
        """Send an item.

        Raises:
            TypeError: if it does not pickle.
        """
        try:
            # Here, since the thread of the queue would drop it, and the reader wait for ever.
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
        """Take the next item.

        Raises:
            queue.Empty: unless ``block``, if none was put that was not taken yet.
            WorkerError: if a process of the pool failed while this one waited.
        """
        if not block and self._n_got >= self.n_put:
            raise queue.Empty
        if timeout is None:
            return self._get(1)[0]
        data = self._queue.get(True, timeout)
        self._n_got += 1
        return pickle.loads(data)

    def get_all(self) -> list[Any]:
        """Take everything that was put by now.

        Raises:
            WorkerError: if a process of the pool failed while this one waited.
        """
        n = self.n_put - self._n_got
        return self._get(n) if n > 0 else []

    def _get(self, n: int) -> list[Any]:
        def receive() -> list[bytes]:
            return [self._queue.get() for _ in range(n)]

        data = receive() if self._pool is None else self._pool.do(receive)
        self._n_got += n
        return [pickle.loads(item) for item in data]

    def close(self) -> None:
        """Let go of the queue; the reader calls it when nobody puts any more."""
        self._queue.close()
        self._queue.cancel_join_thread()

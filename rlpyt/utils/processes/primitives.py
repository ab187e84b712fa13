"""Where processes wait for each other: semaphores, a barrier and a queue, watched by a pool.

Whoever made the pool notices while it waits that a process died. In the processes of the pool the
same objects just wait.
"""

from __future__ import annotations

import pickle
import queue
from typing import Any

from rlpyt.utils.processes.supervisor import POLL_S, Supervisor


class _Watched:
    """Knows the pool, in the process which made it."""

    supervisor: Supervisor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "supervisor": None}

    def _wait_for(self, acquire: Any, released_by: int | None = None) -> None:
        if self.supervisor is None:
            acquire(True, None)
        elif not acquire(True, POLL_S):
            self.supervisor.wait_for(acquire, released_by)


class Semaphore(_Watched):
    """A semaphore, at 0 in the beginning.

    Args:
        supervisor: whose processes are on the other side.
        released_by: index of the process which releases it; None if this process does.
    """

    def __init__(self, supervisor: Supervisor, released_by: int | None = None) -> None:
        self.supervisor = supervisor
        self._released_by = released_by
        self._semaphore = supervisor.context.Semaphore(0)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take one unit, waiting for it as long as it takes.

        Raises:
            WorkerError: if a process of the pool failed meanwhile.
        """
        if block and timeout is None:
            self._wait_for(self._semaphore.acquire, self._released_by)
            return True
        taken: bool = self._semaphore.acquire(block, timeout)
        return taken

    def release(self) -> None:
        """Add one unit."""
        self._semaphore.release()


class Barrier(_Watched):
    """A barrier: everyone waits until all have come; again and again.

    Two gates are used in turn. A gate is used again only after everyone has come to the other one,
    so nobody is left at it, and nobody can slip through with the unit of another.

    Args:
        supervisor: of all parties but this process.
        parties: how many meet.
    """

    def __init__(self, supervisor: Supervisor, parties: int) -> None:
        self.supervisor = supervisor
        self.parties = parties
        context = supervisor.context
        self._lock = context.Lock()
        self._gates = (context.Semaphore(0), context.Semaphore(0))
        self._counts = context.RawArray("l", 2)  # Who waits now; meetings so far.

    @property
    def n_waiting(self) -> int:
        """How many have come to the next meeting."""
        return int(self._counts[0])

    @property
    def generation(self) -> int:
        """How often all have come."""
        return int(self._counts[1])

    def wait(self) -> None:
        """Wait for all others.

        Raises:
            WorkerError: if a process of the pool failed meanwhile.
        """
        gate = self._count_in()
        if gate is not None:
            self._wait_for(gate.acquire)

    def arrive(self) -> None:
        """Come, and go on at once: the others need not wait for this process any more."""
        self._count_in()

    def _count_in(self) -> Any:
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

    An item is counted before it is sent, so one that was put before a :class:`Barrier` is never
    missed after it: ``get(block=False)`` waits for it.

    Args:
        supervisor: whose processes put; this process gets.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._queue = supervisor.context.Queue()
        self._lock = supervisor.context.Lock()
        self._n_put = supervisor.context.RawValue("l", 0)
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

        data = receive() if self.supervisor is None else self.supervisor.call(receive)
        self._n_got += n
        return [pickle.loads(item) for item in data]

    def close(self) -> None:
        """Let go of the queue; the reader calls it when nobody puts any more."""
        self._queue.close()
        self._queue.cancel_join_thread()

"""What sampler and workers tell each other between batches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from rlpyt.utils.processes.primitives import CountedQueue
from rlpyt.utils.processes.supervisor import Supervisor

# Last time step of a trajectory, and index of its environment over all processes.
Place = tuple[int, int]
_UNKNOWN: Place = (-1, -1)


class TrajInfoQueue(CountedQueue):
    """Trajectory infos on their way to the sampler, in the order of a sampler without workers.

    ``None`` may be put to say that a worker is done, and is left out.
    """

    def __init__(self, pool: Supervisor) -> None:
        super().__init__(pool)
        self._n_infos = pool.context.RawValue("l", 0)
        self._received: list[tuple[Place, Any]] = []

    @property
    def n_infos(self) -> int:
        """Trajectory infos that were ever put."""
        return int(self._n_infos.value)

    def put(self, item: Any, place: Place = _UNKNOWN) -> None:
        """Send a trajectory info.

        Args:
            item: the info, or None.
            place: where it was completed.
        """
        super().put((place, item))
        if item is not None:
            with self._lock:
                self._n_infos.value += 1

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, timeout)[1]

    def receive(self) -> None:
        """Fetch what has been put by now, to be taken later."""
        for place, item in self.get_all():
            if item is not None:
                self._received.append((place, item))

    def time_of(self, n: int) -> int | None:
        """The time step at which the ``n``-th trajectory was completed; None if there are less."""
        times = sorted(place[0] for place, _ in self._received)
        return times[n - 1] if len(times) >= n else None

    def take(self, limit: int | None = None) -> list[Any]:
        """Return everything that was put.

        Args:
            limit: leave out what was completed after the time step at which there were so many.
        """
        self.receive()
        last = None if limit is None else self.time_of(limit)
        received = sorted(self._received, key=lambda pair: pair[0])
        self._received = []
        return [item for place, item in received if last is None or place[0] <= last]


class StateExchange:
    """Hands the state of each worker to the sampler, and back."""

    def __init__(self, pool: Supervisor, n_workers: int) -> None:
        self._pool = pool
        pipes = [pool.context.Pipe() for _ in range(n_workers)]
        self._ends = [here for here, _ in pipes]
        self.worker_ends = [there for _, there in pipes]

    def collect(self) -> list[Any]:
        """Receive the state of every worker."""
        return [self._pool.call(end.recv) for end in self._ends]

    def distribute(self, states: Iterable[Any]) -> None:
        """Send every worker its state."""
        for end, state in zip(self._ends, states):
            self._pool.call(partial(end.send, state))

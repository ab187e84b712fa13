"""Channels between a sampler and its workers: control, trajectory infos, states."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rlpyt.processes.primitives import Barrier, CountedQueue
from rlpyt.processes.supervisor import Supervisor
from rlpyt.utils.collections import AttrDict

# Last time step of a trajectory, and index of its environment over all processes.
Place = tuple[int, int]
_UNKNOWN: Place = (-1, -1)

# Tasks between batches, in ``ctrl.state_task``.
NOTHING, GIVE_STATE, TAKE_STATE = 0, 1, 2


def make_control(supervisor: Supervisor, n_parties: int) -> AttrDict:
    """Return the barriers and flags of a sampler and its workers.

    Args:
        supervisor: supervisor of the processes.
        n_parties: number of processes that meet at the barriers.
    """
    context = supervisor.context
    return AttrDict(
        quit=context.RawValue("b", False),
        **barriers(supervisor, n_parties),
        do_eval=context.RawValue("b", False),
        eval_again=context.RawValue("b", False),
        itr=context.RawValue("l", 0),
        state_task=context.RawValue("b", NOTHING),
    )


def barriers(supervisor: Supervisor, n_parties: int) -> dict[str, Barrier]:
    """Return the barriers before and after each task."""
    return {name: Barrier(supervisor, n_parties) for name in ("barrier_in", "barrier_out")}


class TrajInfoQueue(CountedQueue):
    """Queue of trajectory infos, which the sampler takes in the order of a serial sampler.

    ``None`` may be put to report that a worker is done, or with a place for a trajectory that
    counts but has no info; :meth:`take` leaves it out.
    """

    def __init__(self, supervisor: Supervisor, n_writers: int) -> None:
        super().__init__(supervisor, n_writers)
        self._n_infos = supervisor.context.RawArray("l", n_writers)
        self._received: list[tuple[int, Place, Any]] = []

    def put(self, item: Any, place: Place = _UNKNOWN) -> None:
        """Send a trajectory info.

        Args:
            item: trajectory info, or None.
            place: time step and environment in which the trajectory was completed.
        """
        super().put((place, item))
        if _is_trajectory(place, item) and os.getpid() != self._pid:
            self._n_infos[self._own_place()] += 1

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, timeout)[1]

    def has_reached(self, limit: int) -> Callable[[], bool]:
        """Return a function that returns whether ``limit`` more trajectory infos were put."""
        end = sum(self._n_infos) + limit
        return lambda: bool(sum(self._n_infos) >= end)

    def receive(self) -> None:
        """Fetch everything that has been put so far, for a later :meth:`take`."""
        for writer, (place, item) in self._take_all():
            if _is_trajectory(place, item):
                self._received.append((writer, place, item))

    def time_of(self, n: int) -> int | None:
        """Return the time step that completed the ``n``-th trajectory; None if there are fewer."""
        times = sorted(place[0] for _, place, _ in self._received)
        return times[n - 1] if len(times) >= n else None

    def take(self, limit: int | None = None) -> list[Any]:
        """Return everything that was put.

        Args:
            limit: number of trajectories; those completed after the time step that reached it are
                left out. None for no limit.
        """
        self.receive()
        last = None if limit is None else self.time_of(limit)
        received = sorted(self._received, key=lambda entry: entry[1])
        self._received = []
        items = [item for _, place, item in received if last is None or place[0] <= last]
        return [item for item in items if item is not None]

    def hand_on(self, queue: TrajInfoQueue) -> None:
        """Move everything that has been put so far to another queue."""
        for _, (place, item) in self._take_all():
            queue.put(item, place)

    def renew(self, index: int) -> None:
        super().renew(index)
        self._n_infos[index] = 0
        self._received = [entry for entry in self._received if entry[0] != index]


def _is_trajectory(place: Place, item: Any) -> bool:
    return item is not None or place != _UNKNOWN


def give_state(end: Any, state: Any) -> None:
    """Send ``state``, as bytes: a pipe would pass tensors as files, through a server's socket."""
    end.send_bytes(pickle.dumps(state))


def take_state(end: Any) -> Any:
    """Receive what :func:`give_state` sent."""
    return pickle.loads(end.recv_bytes())


class StateExchange:
    """Pipes between the sampler and each of its workers, through which states are exchanged.

    Attributes:
        worker_ends: ends of the workers.
        sizes: numbers of training and evaluation environments of each worker.
    """

    def __init__(self, supervisor: Supervisor, n_workers: int) -> None:
        self._supervisor = supervisor
        pipes = [supervisor.context.Pipe() for _ in range(n_workers)]
        self._ends = [here for here, _ in pipes]
        self.worker_ends = [there for _, there in pipes]
        self.sizes: list[tuple[int, int]] = []
        supervisor.renewable.append(self)
        supervisor.files.callback(self.close)

    def receive(self) -> dict[int, Any]:
        """Return the states of the workers that are not absent, by their indices."""
        absent, call = self._supervisor.absent, self._supervisor.call
        ends = enumerate(self._ends)
        return {i: call(partial(take_state, end), i) for i, end in ends if i not in absent}

    def send(self, states: Sequence[Any]) -> None:
        """Send the workers that are not absent their states."""
        for index, state in enumerate(states):
            if index not in self._supervisor.absent:
                self._supervisor.call(partial(give_state, self._ends[index], state), index)

    def check_sizes(self, states: Sequence[Any]) -> None:
        """Raise ``ValueError`` if ``states`` belong to other numbers of workers or environments."""
        saved = [(len(state["envs"]), len(state["eval_envs"])) for state in states]
        if saved != self.sizes:
            raise ValueError(
                f"the saved sampler had workers of {saved} environments (training, evaluation), "
                f"this one has {self.sizes}: resume with the same sampler, sizes and number of "
                "workers"
            )

    def renew(self, index: int) -> None:
        """Replace the pipe of worker ``index``."""
        self._ends[index].close()
        self.worker_ends[index].close()
        self._ends[index], self.worker_ends[index] = self._supervisor.context.Pipe()

    def close(self) -> None:
        """Close all pipes."""
        for end in (*self._ends, *self.worker_ends):
            end.close()

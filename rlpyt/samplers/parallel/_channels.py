"""Channels between a sampler and its workers: control, trajectory infos, states."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rlpyt.utils.collections import AttrDict
from rlpyt.utils.processes.child import Heartbeat
from rlpyt.utils.processes.primitives import Barrier, CountedQueue
from rlpyt.utils.processes.supervisor import Supervisor

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
        barrier_in=Barrier(supervisor, n_parties),
        barrier_out=Barrier(supervisor, n_parties),
        do_eval=context.RawValue("b", False),
        itr=context.RawValue("l", 0),
        state_task=context.RawValue("b", NOTHING),
    )


class TrajInfoQueue(CountedQueue):
    """Queue of trajectory infos, which the sampler takes in the order of a serial sampler.

    ``None`` may be put to report that a worker is done; :meth:`take` leaves it out.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__(supervisor)
        self._n_infos = supervisor.context.RawValue("l", 0)
        self._received: list[tuple[Place, Any]] = []

    def put(self, item: Any, place: Place = _UNKNOWN) -> None:
        """Send a trajectory info.

        Args:
            item: trajectory info, or None.
            place: time step and environment in which the trajectory was completed.
        """
        super().put((place, item))
        if item is not None:
            with self._lock:
                self._n_infos.value += 1

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, timeout)[1]

    def has_reached(self, limit: int) -> Callable[[], bool]:
        """Return a function that tells whether ``limit`` more trajectory infos were put."""
        end = self._n_infos.value + limit
        return lambda: bool(self._n_infos.value >= end)

    def receive(self) -> None:
        """Fetch everything that has been put so far, for a later :meth:`take`."""
        for place, item in self.get_all():
            if item is not None:
                self._received.append((place, item))

    def time_of(self, n: int) -> int | None:
        """Return the time step that completed the ``n``-th trajectory; None if there are fewer."""
        times = sorted(place[0] for place, _ in self._received)
        return times[n - 1] if len(times) >= n else None

    def take(self, limit: int | None = None) -> list[Any]:
        """Return everything that was put.

        Args:
            limit: number of trajectories; those completed after the time step that reached it are
                left out. None for no limit.
        """
        self.receive()
        last = None if limit is None else self.time_of(limit)
        received = sorted(self._received, key=lambda pair: pair[0])
        self._received = []
        return [item for place, item in received if last is None or place[0] <= last]


class StateExchange:
    """Exchange of the states of workers, as a task between batches.

    Attributes:
        worker_ends: pipe of each worker, through which its state goes to the sampler and back.
        sizes: number of training and of evaluation environments of each worker.
    """

    def __init__(self, supervisor: Supervisor, n_workers: int) -> None:
        self._supervisor = supervisor
        pipes = [supervisor.context.Pipe() for _ in range(n_workers)]
        self._ends = [here for here, _ in pipes]
        self.worker_ends = [there for _, there in pipes]
        self.sizes: list[tuple[int, int]] = []

    def collect(self, ctrl: Any) -> list[Any]:
        """Return the state of every worker."""
        with self._task(ctrl, GIVE_STATE):
            return [self._supervisor.call(end.recv) for end in self._ends]

    def distribute(self, ctrl: Any, states: Sequence[Any]) -> None:
        """Send every worker its state.

        Raises:
            ValueError: if the states belong to other numbers of workers or environments.
        """
        saved = [(len(state["envs"]), len(state["eval_envs"])) for state in states]
        if saved != self.sizes:
            raise ValueError(
                f"the saved sampler had workers of {saved} environments (training, evaluation), "
                f"this one has {self.sizes}: resume with the same sampler, sizes and number of "
                "workers"
            )
        with self._task(ctrl, TAKE_STATE):
            for end, state in zip(self._ends, states):
                self._supervisor.call(partial(end.send, state))

    @contextmanager
    def _task(self, ctrl: Any, task: int) -> Iterator[None]:
        with self._supervisor.task():
            ctrl.state_task.value = task
            ctrl.barrier_in.wait()
            yield
            ctrl.barrier_out.wait()
            ctrl.state_task.value = NOTHING


def stop_at_limit(
    supervisor: Supervisor,
    queue: TrajInfoQueue,
    limit: int,
    heartbeats: Sequence[Heartbeat],
    end: Barrier,
    stop: Any,
    check_s: float,
) -> None:
    """Wait until the workers have completed ``limit`` trajectories or have ended by themselves.

    Workers are not in step with each other, but the trajectories that count must not depend on
    that: the evaluation ends only after all workers have passed the time step that reached the
    limit.

    Args:
        supervisor: supervisor of the workers.
        queue: queue of their trajectory infos.
        limit: number of trajectories.
        heartbeats: heartbeats of the workers that evaluate.
        end: barrier at the end of the evaluation.
        stop: shared flag, set to True at the limit.
        check_s: seconds between two looks.
    """

    def is_settled(block: bool = True, timeout: float | None = None) -> bool:
        # The steps first: trajectories completed in them are in the queue by then.
        n_steps = min(heartbeat.values[Heartbeat.STEPS] for heartbeat in heartbeats)
        queue.receive()
        last = queue.time_of(limit)
        if end.n_waiting == end.parties - 1:
            return True
        if last is not None and n_steps > last:
            stop.value = True
            return True
        time.sleep(check_s)
        return False

    supervisor.wait_for(is_settled)

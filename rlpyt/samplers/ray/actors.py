"""The actors of a sampler: started, called, and restarted by Ray if they fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rlpyt.processes.supervisor import WorkerError
from rlpyt.samplers.ray.actor import SamplingActor
from rlpyt.utils.logging import logger
from rlpyt.utils.names import import_extra

CHECK_S = 0.5  # Seconds between checks for what is late, or to be stopped.
CLOSE_S = 5.0  # Seconds that environments have to close.
START_S = 900.0  # Seconds that an actor has to start, on a busy machine.
HOUR_S = 3600.0


class Call(NamedTuple):
    """A call of an actor's method that is on its way."""

    actor: int
    method: str
    args: tuple[Any, ...]
    begin: float


class Actors:
    """Actors that hold the parts of a batch, on the machines of a Ray cluster.

    Args:
        assignments: packed assignment of each actor, see :mod:`rlpyt.samplers.ray.actor`.
        labels: names of the actors in errors.
        address: address of the cluster; None for ``RAY_ADDRESS``, or a cluster on this machine.
        cpus_each: number of CPUs of an actor, may be a fraction.
        timeout_s: seconds after which a call counts as hanging; None for no limit.
        max_restarts_per_hour: number of restarts in an hour; None to raise the first failure.

    Raises:
        ImportError: if Ray is not installed.
        ValueError: if the cluster has too few CPUs.
        WorkerError: if an actor cannot start.

    Attributes:
        restarted: indexes of the actors that were restarted.
        has_to_stop: whether to end the running evaluation; set by a signal handler.
    """

    def __init__(
        self,
        assignments: Sequence[bytes],
        labels: Sequence[str],
        address: str | None,
        cpus_each: float,
        timeout_s: float | None,
        max_restarts_per_hour: int | None,
    ) -> None:
        self._ray = ray = import_extra("ray", "RaySampler", "ray")
        self._labels, self._cpus_each, self._timeout_s = labels, cpus_each, timeout_s
        self._max_restarts = max_restarts_per_hour
        self._restart_times: deque[float] = deque()
        self._pending: dict[Any, Call] = {}
        self._lost: dict[int, list[Call]] = {}  # To be called again after a restart.
        self._handles: list[Any] = []
        self.restarted: set[int] = set()
        self.has_to_stop = False
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            address = address or os.environ.get("RAY_ADDRESS", "local")
            with _kept_signal_handler():
                ray.init(address=address, include_dashboard=False)
        try:
            self._check_room()
            ActorCls = ray.remote(concurrency_groups={"control": 1})(SamplingActor).options(
                num_cpus=cpus_each,
                max_restarts=0 if max_restarts_per_hour is None else -1,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
            )
            for index, assignment in enumerate(assignments):
                self._handles.append(ActorCls.remote(assignment, index))
        except BaseException:
            self.shutdown()
            raise

    def __len__(self) -> int:
        return len(self._labels)

    def _check_room(self) -> None:
        """Raise ``ValueError`` unless all actors fit on the machines of the cluster."""
        machines = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        n_rooms = sum(int(n_cpus // self._cpus_each) for n_cpus in machines)
        if n_rooms < len(self):
            raise ValueError(
                f"workers_cpus asks for {len(self)} actors of {self._cpus_each:g} CPUs, but the "
                f"{len(machines)} machines of the Ray cluster have {[f'{n:g}' for n in machines]} "
                f"CPUs, room for {n_rooms}: ask for fewer workers, lower cpus_per_actor, or add "
                "machines"
            )

    # --- Calls ------------------------------------------------------------------------------------

    def put(self, value: Any) -> Any:
        """Store a value once for all actors; return its reference, to pass as an argument."""
        return self._ray.put(value)

    def submit(self, index: int, method: str, *args: Any) -> None:
        """Call a method of an actor, after those that it was called for before."""
        ref = getattr(self._handles[index], method).remote(*args)
        self._pending[ref] = Call(index, method, args, time.monotonic())

    def n_pending(self, index: int) -> int:
        """Return how many calls of an actor have not returned."""
        lost = len(self._lost.get(index, ()))
        return lost + sum(call.actor == index for call in self._pending.values())

    def next(self, method: str) -> tuple[int, Any]:
        """Wait for the next of the submitted calls of ``method``; return actor and result.

        Raises:
            WorkerError: if an actor fails, and is not to be restarted.
        """
        while True:
            wanted = [ref for ref, c in self._pending.items() if c.method in (method, "start")]
            done, late = self._ray.wait(wanted, timeout=CHECK_S)
            if self.has_to_stop:
                self.has_to_stop = False
                for handle in self._handles:
                    handle.stop.options(concurrency_group="control").remote()
            for ref in done:
                call = self._pending.pop(ref)
                try:
                    result = self._ray.get(ref)
                except self._ray.exceptions.RayError as error:
                    self._restart(call, error)
                    continue  # Its other calls are not on their way any more.
                for lost in self._lost.pop(call.actor, ()):
                    self.submit(lost.actor, lost.method, *lost.args)
                if call.method == method:
                    return call.actor, result
            hanging = [x for x in late if x in self._pending and self._hangs(self._pending[x])]
            if hanging:
                self._check_room()
                self._restart(self._pending.pop(hanging[0]), None)

    def _hangs(self, call: Call) -> bool:
        limit_s = START_S if call.method == "start" else self._timeout_s
        return limit_s is not None and time.monotonic() - call.begin > limit_s

    def call(
        self, method: str, *args: Any, indexes: Iterable[int] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Call a method of all actors, or of some; yield index and result as they come."""
        indexes = list(range(len(self)) if indexes is None else indexes)
        for index in indexes:
            self.submit(index, method, *args)
        for _ in indexes:
            yield self.next(method)

    # --- Failure and end --------------------------------------------------------------------------

    def _restart(self, call: Call, error: Exception | None) -> None:
        """Let Ray restart an actor, and call it again afterwards.

        Args:
            call: call that failed.
            error: error of Ray; None if the call did not return in time.
        """
        label = self._labels[call.actor]
        now = time.monotonic()
        reason = str(error) if error else f"there is no result after {now - call.begin:.0f} s"
        if self._max_restarts is None or call.method == "start":
            raise WorkerError(f"{label} failed in {call.method}: {reason}") from error
        self._restart_times.append(now)
        while now - self._restart_times[0] > HOUR_S:
            self._restart_times.popleft()
        if len(self._restart_times) > self._max_restarts:
            raise WorkerError(
                f"{label} failed in {call.method}: {reason}\nThis was restart number "
                f"{len(self._restart_times)} in an hour, and max_restarts_per_hour is "
                f"{self._max_restarts}"
            ) from error
        logger.log(f"{label} is restarted, since it failed in {call.method}: {reason}")
        if error is None:
            self._ray.kill(self._handles[call.actor], no_restart=False)
        mine = [ref for ref, other in self._pending.items() if other.actor == call.actor]
        self._lost[call.actor] = [call, *(self._pending.pop(ref) for ref in mine)]
        self.restarted.add(call.actor)
        # Ray repeats this one call until the actor lives again.
        start = self._handles[call.actor].start.options(max_task_retries=-1)
        self._pending[start.remote(False)] = Call(call.actor, "start", (False,), now)

    def shutdown(self) -> None:
        """Close the environments, end the actors, and leave a cluster that was joined here."""
        ray, handles, self._handles = self._ray, self._handles, []
        if ray.is_initialized():
            self._pending.clear()
            closing = [handle.close.remote() for handle in handles]
            if closing:
                ray.wait(closing, num_returns=len(closing), timeout=CLOSE_S)
            for handle in handles:
                ray.kill(handle)
            if self._is_ours:
                ray.shutdown()


@contextmanager
def _kept_signal_handler() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces, for runs that save a checkpoint then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)

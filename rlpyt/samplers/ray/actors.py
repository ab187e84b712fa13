"""The actors of a sampler: started, called, and replaced if they fail."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from rlpyt.processes.supervisor import WorkerError
from rlpyt.samplers.ray.actor import SamplingActor
from rlpyt.utils.logging import logger
from rlpyt.utils.names import import_extra

CHECK_S = 0.5  # Seconds between checks for what is late, or to be stopped.
CLOSE_S = 5.0  # Seconds that environments have to close.
HEAD_S = 20.0  # Seconds without an answer after which the head of the cluster counts as lost.
LOST = "the head of the Ray cluster, {}, is lost: start it again, and resume the run"
START_S = 600.0  # Seconds that an actor has to start, on a busy machine.


class Call(NamedTuple):
    """A call of an actor's method that is on its way."""

    actor: int
    method: str
    args: tuple[Any, ...]


class Actors:
    """Actors that hold the parts of a batch, on the machines of a Ray cluster.

    Args:
        assignments: name of each actor for errors, and what it is made from, packed; see
            :class:`~rlpyt.samplers.ray.actor.SamplingActor`.
        address: address of the cluster; None for ``RAY_ADDRESS``, or a cluster on this machine.
        cpus_each: number of CPUs of an actor, may be a fraction.
        timeout_s: seconds without a result after which an actor counts as hanging; None for no
            limit.
        max_restarts: number of actors to replace in an hour; the next failure is raised.

    Raises:
        ImportError: if Ray is not installed.
        ValueError: if there is no cluster, or it has too few CPUs.

    Attributes:
        statistics: index of each actor, and the running statistics of its environments at first.
        restarted: indexes of the actors that were replaced.
        has_to_stop: whether to end the running evaluation; set by a signal handler.
    """

    def __init__(
        self,
        assignments: Mapping[str, bytes],
        address: str | None,
        cpus_each: float,
        timeout_s: float | None,
        max_restarts: int,
    ) -> None:
        self._ray: Any = import_extra("ray", "RaySampler", "ray")
        self._labels, self._assignments = list(assignments), list(assignments.values())
        self._cpus_each, self._max_restarts = cpus_each, max_restarts
        self._timeout_s = float("inf") if timeout_s is None else timeout_s
        self._restart_times: list[float] = []
        self._pending: dict[Any, Call] = {}
        self._handles: dict[int, Any] = {}
        self._deadlines: dict[int, float] = {}
        self.restarted: set[int] = set()
        self.has_to_stop = False
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            _join(self._ray, address or os.environ.get("RAY_ADDRESS", "local"))
        self._errors = self._ray.exceptions.RayError
        self._head = self._ray.get_runtime_context().gcs_address
        self._head_seen, self._thread = time.monotonic(), ThreadPoolExecutor(1)
        try:
            self._check_room()
            options = {"num_cpus": cpus_each, "scheduling_strategy": "SPREAD"}
            remote = self._ray.remote(concurrency_groups={"control": 1}, **options)
            self._ActorCls = remote(SamplingActor)
            for index in range(len(assignments)):
                self._start(index, is_late=False)
            self.statistics = list(self.call("statistics"))
        except BaseException:
            self.shutdown()
            raise

    def _check_room(self) -> None:
        """Raise ``ValueError`` unless all actors fit on the machines of the cluster."""
        machines = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        n_rooms = sum(int(n_cpus / self._cpus_each) for n_cpus in machines)
        if n_rooms < len(self._labels):
            raise ValueError(
                f"workers_cpus asks for {len(self._labels)} actors, each of cpus_per_actor "
                f"{self._cpus_each:g}, but the machines of the Ray cluster have {machines} CPUs, "
                f"room for {n_rooms}: lower one of them, or add machines"
            )

    def _start(self, index: int, is_late: bool) -> None:
        self._handles[index] = self._ActorCls.remote(self._assignments[index], is_late)
        self._deadlines[index] = time.monotonic() + START_S

    # --- Calls ------------------------------------------------------------------------------------

    def put(self, value: Any) -> Any:
        """Store a value once for all actors; return its reference, to pass as an argument."""
        return self._watched(self._ray.put, value)

    def submit(self, index: int, method: str, *args: Any) -> None:
        """Call a method of an actor, after those that it was called for before."""
        self._deadlines[index] = max(self._deadlines[index], time.monotonic() + self._timeout_s)
        ref = getattr(self._handles[index], method).remote(*args)
        self._pending[ref] = Call(index, method, args)

    def take_restarted(self) -> set[int]:
        """Return the actors that were replaced since the last call."""
        restarted, self.restarted = self.restarted, set()
        return restarted

    def n_pending(self, index: int) -> int:
        """Return how many calls of an actor have not returned."""
        return sum(call.actor == index for call in self._pending.values())

    def next(self, method: str) -> tuple[int, Any]:
        """Wait for the next of the submitted calls of ``method``; return actor and result.

        Raises:
            WorkerError: if an actor fails, and is not to be replaced, or the cluster is lost.
        """
        while True:
            wanted = [ref for ref, call in self._pending.items() if call.method == method]
            done, _ = self._watched(self._ray.wait, wanted, timeout=CHECK_S)
            now = time.monotonic()
            if self.has_to_stop:
                self.has_to_stop = False
                for handle in self._handles.values():
                    handle.stop.options(concurrency_group="control").remote()
            late = [ref for ref in wanted if now > self._deadlines[self._pending[ref].actor]]
            if done:
                call = self._pending.pop(done[0])
                try:
                    result = self._watched(self._ray.get, done[0])
                except self._errors as error:
                    self._restart(call, error)
                else:
                    self._deadlines[call.actor] = now + self._timeout_s
                    return call.actor, result
            elif late:
                self._check_room()
                self._restart(self._pending.pop(late[0]))

    def call(self, method: str, *args: Any) -> Iterator[tuple[int, Any]]:
        """Call a method of all actors; yield index and result as they come."""
        for index in self._handles:
            self.submit(index, method, *args)
        for _ in self._handles:
            yield self.next(method)

    # --- Failure and end --------------------------------------------------------------------------

    def _restart(self, call: Call, error: Exception | None = None) -> None:
        """Replace a failed actor by a new one, and call that as the failed one was called.

        Args:
            call: call that failed.
            error: error of Ray; None if the call did not return in time.
        """
        now = time.monotonic()
        self._restart_times = [t for t in self._restart_times if now - t < 3600]
        reason = error or f"there is no result after {self._timeout_s:g} s"
        failure = f"{self._labels[call.actor]} failed in {call.method}: {reason}"
        n, limit = len(self._restart_times), self._max_restarts
        if not _answers(self._head):
            raise WorkerError(LOST.format(self._head)) from error
        # No new actor could start, or load the state, either.
        is_final = call.method in ("statistics", "load_state_dict") and error is not None
        number = f"\nIn this hour it is failure {n + 1}, and {limit} restarts are allowed."
        if n >= limit or is_final:
            raise WorkerError(failure + number * (limit > 0)) from error
        logger.log(f"WARNING: {failure}{number}")
        self._restart_times.append(now)
        self.restarted.add(call.actor)
        self._ray.kill(self._handles[call.actor])
        self._start(call.actor, is_late=True)
        lost = [ref for ref, other in self._pending.items() if other.actor == call.actor]
        for each in (call, *map(self._pending.pop, lost)):
            self.submit(each.actor, each.method, *each.args)

    def _watched(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call Ray in a thread, since without the head some calls hang, and look after the head.

        Raises:
            WorkerError: if the head is lost. Ray ends the program 60 s after that.
        """
        future = self._thread.submit(function, *args, **kwargs)
        while self._has_head() and not wait([future], CHECK_S).done:
            pass
        error = future.exception() if future.done() else TimeoutError()
        is_broken = isinstance(error, OSError) and not isinstance(error, self._errors)
        if is_broken or not self._has_head():
            raise WorkerError(LOST.format(self._head)) from error
        return future.result()

    def _has_head(self) -> bool:
        """Return whether the head of the cluster has answered, or not yet missed its time."""
        now = time.monotonic()
        if now > self._head_seen + HEAD_S / 4 and _answers(self._head):
            self._head_seen = now
        return now < self._head_seen + HEAD_S

    def shutdown(self) -> None:
        """Close the environments, end the actors, and leave a cluster that was joined here."""
        ray, handles, self._handles = self._ray, list(self._handles.values()), {}
        self._pending.clear()
        if handles and ray.is_initialized() and _answers(self._head):
            closing = [handle.close.remote() for handle in handles]
            ray.wait(closing, num_returns=len(closing), timeout=CLOSE_S)
            for handle in handles:
                ray.kill(handle)
        if self._is_ours:
            ray.shutdown()
        self._thread.shutdown(wait=False)


def _join(ray: Any, address: str) -> None:
    """Join a cluster, or start one; leave the handler of SIGTERM, for runs that save then.

    Raises:
        ValueError: if no cluster answers at ``address``.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if ":" in address and "/" not in address and not _answers(address):
            raise ConnectionError("connection refused")  # Ray tries for more than a minute.
        ray.init(address=address, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"address is {address!r}, and no Ray cluster answers there ({error}): give the "
            "host:port that `ray start --head` printed, or 'auto' on one of its machines; leave it "
            "out to start a cluster on this machine"
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _answers(address: str) -> bool:
    """Return whether somebody listens at ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CLOSE_S).close()
    except (OSError, ValueError):
        return False
    return True

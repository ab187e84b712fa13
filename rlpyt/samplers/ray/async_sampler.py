"""Asynchronous sampler on a Ray cluster, whose actors do not wait for each other.

An actor works on one batch of its part, a *chunk*, while its next call waits. Chunks enter the
sampler's batches in the order in which actors return them. As long as actors are about equally
fast, each fills its own columns. One that has fallen behind by a whole batch is not waited for:
another actor's chunk fills its columns, and the learner is told that these do not continue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rlpyt.core.protocols import AgentLike
from rlpyt.samplers.async_.base import AsyncSamplerMixin, prepare_sampler_process
from rlpyt.samplers.ray.actor import Batch, packed, parameters_of
from rlpyt.samplers.ray.sampler import RaySamplerBase
from rlpyt.utils.logging import logger

CALLS_AHEAD = 2  # Of each actor: the one at work, and the next, so that it never is idle.


class Chunk(NamedTuple):
    """A batch of one actor."""

    actor: int
    number: int  # of the actor's chunks; one is skipped where its environments began anew
    version: int  # of the parameters
    batch: Batch | None  # None once it has been copied


class AsyncRaySampler(RaySamplerBase, AsyncSamplerMixin):
    """Asynchronous sampler whose environments are in Ray actors, on one machine or many.

    Each actor acts with the latest parameters that were published when it was called. Their age, in
    updates of the learner, is ``Staleness`` of the trajectories completed in a batch. ``batch_B``
    must be a multiple of the number of actors. The arguments are those of
    :class:`~rlpyt.samplers.ray.sampler.RaySamplerBase`.
    """

    def async_initialize(self, agent: AgentLike, *args: Any, **kwargs: Any) -> Any:
        self._agent_for_actors = packed(agent)
        return super().async_initialize(agent, *args, **kwargs)

    def initialize(self, affinity: Any) -> None:  # type: ignore[override]
        """Start the actors, in the process of the sampler.

        Args:
            affinity: mapping with ``workers_cpus``, the number of actors, or a list of this length,
                and ``master_cpus`` of this process.

        Raises:
            ImportError: if Ray is not installed.
            ValueError: if the cluster has too few CPUs, or actors would have unequal parts.
            WorkerError: if an actor fails while it starts.
        """
        prepare_sampler_process(affinity, self.seed)
        self.agent.async_cpu(share_memory=False)  # A copy of what is published, never half of it.
        self._start(self._agent_for_actors, affinity, self.examples)
        n, B = len(self.specs), self.batch_spec.B
        if B % n:
            self.shutdown()
            raise ValueError(
                f"batch_B is {B} with {n} actors: make it a multiple, since any of them may fill "
                "the columns of another"
            )
        self._chunks: list[deque[Chunk]] = [deque() for _ in range(n)]
        self._n_called, self._numbers = [0] * n, [0] * n
        self._versions: list[deque[int]] = [deque() for _ in range(n)]
        self._last: list[Chunk | None] = [None] * n  # In each part of the columns.
        self._parameters: tuple[int, Any] | None = None
        self._ages: list[int] = []
        self._n_moved, self._restarted = 0, set()
        self._publish_statistics()

    def obtain_samples(self, itr: int, db_idx: int) -> list[Any]:  # type: ignore[override]
        """Fill one batch with the chunks that come first.

        Args:
            itr: iteration of the sampler.
            db_idx: index of the batch to fill, 0 or 1.

        Returns:
            The infos of the trajectories completed in these chunks.
        """
        self._call_actors(itr)
        while not self._has_enough():
            index, batch = self.actors.next("collect")
            for restarted in self._forget_restarts():
                self._numbers[restarted] += 1
            self._numbers[index] += 1
            version = self._versions[index].popleft()
            self._chunks[index].append(Chunk(index, self._numbers[index], version, batch))
            self._call_actors(itr)
        infos = []
        for place, chunk in self._arranged():
            columns = self.specs[place].columns
            assert chunk.batch is not None
            self._receive(chunk.actor, chunk.batch, self.double_buffer[db_idx], columns)
            last, self._last[place] = self._last[place], chunk._replace(batch=None)
            if last is not None and not _continues(chunk, last):
                self._restarted |= set(range(columns.start, columns.stop))
                self._n_moved += chunk.actor != last.actor
            self._ages.append(self.agent.received_version - chunk.version)
            for _, info in chunk.batch.completed:
                info.Staleness = self._ages[-1]
                infos.append(info)
        self._publish_statistics()
        return infos

    def _publish_statistics(self) -> None:
        """Write the statistics of the environments where the runner's process reads them."""
        if self._statistics is not None:
            for index, statistics in self._env_statistics.items():
                self._statistics.write(statistics, self.specs[index].columns)

    def _call_actors(self, itr: int) -> None:
        """Call every actor that has less than ``CALLS_AHEAD`` calls."""
        for index in range(len(self.actors)):
            while self.actors.n_pending(index) < CALLS_AHEAD:
                version, parameters = self._published()
                n_steps = self._n_called[index] * self.batch_spec.T
                self.actors.submit(index, "collect", parameters, itr, n_steps)
                self._versions[index].append(version)
                self._n_called[index] += 1

    def _published(self) -> tuple[int, Any]:
        """Return the latest published parameters, in the object store, and their version."""
        self.agent.recv_shared_memory()
        version = self.agent.received_version
        if self._parameters is None or self._parameters[0] != version:
            self._parameters = version, self.actors.put(parameters_of(self.agent))
        return self._parameters

    def _has_enough(self) -> bool:
        """Return whether there is a chunk of each actor, or as many as for two batches."""
        return all(self._chunks) or sum(map(len, self._chunks)) >= 2 * len(self._chunks)

    def _arranged(self) -> Iterator[tuple[int, Chunk]]:
        """Take a chunk for each part of the columns, if possible one that continues the last."""
        n_taken = [0] * len(self._chunks)
        rest = []
        for place, last in enumerate(self._last):
            source = self._chunks[place if last is None else last.actor]
            if source and (last is None or _continues(source[0], last)):
                n_taken[source[0].actor] += 1
                yield place, source.popleft()
            else:
                rest.append(place)
        for place in rest:
            # Of an actor that has filled least of this batch; of equal ones, that is most ahead.
            ready = [index for index, chunks in enumerate(self._chunks) if chunks]
            index = min(ready, key=lambda i: (n_taken[i], -len(self._chunks[i])))
            n_taken[index] += 1
            yield place, self._chunks[index].popleft()

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation with the latest published parameters."""
        self._check_started(to_evaluate=True)
        self.agent.recv_shared_memory()
        if self._ages:
            logger.log(
                f"Parameters of the actors were {np.mean(self._ages):.1f} updates old on average, "
                f"{max(self._ages)} at most; {self._n_moved} parts of batches were filled by "
                "another actor."
            )
            self._ages, self._n_moved = [], 0
        return super().evaluate_agent(itr)


def _continues(chunk: Chunk, last: Chunk) -> bool:
    return (chunk.actor, chunk.number) == (last.actor, last.number + 1)

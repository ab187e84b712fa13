"""Asynchronous sampler on a Ray cluster, whose actors do not wait for each other.

An actor works on one batch of its part, a *chunk*, while its next call waits. Chunks enter the
sampler's batches in the order in which actors return them. As long as actors are about equally
fast, each fills its own columns. One that has fallen behind by a whole batch is not waited for:
another actor's chunk fills its columns, and the learner is told that these do not continue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rlpyt.core.protocols import AgentLike
from rlpyt.samplers.async_.base import AsyncSamplerMixin, prepare_sampler_process
from rlpyt.samplers.parallel._division import check_affinity
from rlpyt.samplers.ray.actor import Batch, packed
from rlpyt.samplers.ray.sampler import RaySampler

CALLS_AHEAD = 2  # Of each actor: the one at work, and the next, so that it never is idle.


class Chunk(NamedTuple):
    """A batch of one actor."""

    actor: int
    number: int  # of the actor's chunks; one is skipped where its environments began anew
    batch: Batch


class AsyncRaySampler(AsyncSamplerMixin, RaySampler):
    """Asynchronous sampler whose environments are in Ray actors, on one machine or many.

    Each actor acts with the latest parameters that were published when it was called. Their age, in
    updates of the learner, is ``Staleness`` of the trajectories completed in a batch. ``batch_B``
    must be a multiple of the number of actors. The arguments are those of
    :class:`~rlpyt.samplers.ray.sampler.RaySampler`.
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
            ValueError: if there is no cluster, it has too few CPUs, or actors would have unequal
                parts.
            WorkerError: if an actor fails while it starts.
        """
        prepare_sampler_process(affinity, self.seed)
        check_affinity(affinity)
        n_envs_list = self._get_n_envs_list(affinity)
        if len(set(n_envs_list)) > 1:
            raise ValueError(
                f"batch_B is {self.batch_spec.B} with {len(n_envs_list)} actors: make it a "
                "multiple, since any of them may fill the columns of another"
            )
        self.agent.async_cpu(share_memory=False)  # A copy of what is published, never half of it.
        self._start(affinity, n_envs_list, self.batch_spec.B)
        self._chunks: list[Chunk] = []
        self._numbers = [0] * self.n_worker
        self._last = [(index, 0) for index in range(self.n_worker)]  # Of each part of the columns.
        self._published: tuple[int, Any] = -1, None

    def obtain_samples(self, itr: int, db_idx: int = 0) -> Any:
        """Fill one batch with the chunks that come first.

        Args:
            itr: iteration of the sampler.
            db_idx: index of the batch to fill, 0 or 1.

        Returns:
            The infos of the trajectories completed in these chunks.
        """
        self._check_started()
        self._call_actors(itr)
        n = self.n_worker  # A chunk of each actor, or as many as for two batches:
        while len({chunk.actor for chunk in self._chunks}) < n and len(self._chunks) < 2 * n:
            index, batch = self._actors.next("collect")
            for each in (index, *self._actors.take_restarted()):
                self._numbers[each] += 1
            self._chunks.append(Chunk(index, self._numbers[index], batch))
            self._call_actors(itr)
        infos = []
        for place, chunk in self._take_chunks():
            columns = self.specs[place].columns
            self._receive(chunk.actor, chunk.batch, self.double_buffer[db_idx], columns)
            if self._last[place] != (chunk.actor, chunk.number - 1):
                self._restarted |= self._columns_of([place])
            self._last[place] = chunk.actor, chunk.number
            for _, info in chunk.batch.completed:
                info.Staleness = self.agent.received_version - chunk.batch.version
                infos.append(info)
        return infos

    def _take_chunks(self) -> list[tuple[int, Chunk]]:
        """Take a chunk for each part of the columns, if possible one that continues the last."""
        oldest = {chunk.actor: chunk.number for chunk in reversed(self._chunks)}
        # The first of every actor, then the second of those that are ahead.
        self._chunks.sort(key=lambda chunk: chunk.number - oldest[chunk.actor])
        taken, self._chunks = self._chunks[: self.n_worker], self._chunks[self.n_worker :]
        place_of = {last: place for place, last in enumerate(self._last)}
        places = [place_of.get((chunk.actor, chunk.number - 1)) for chunk in taken]
        free = [place for place in range(self.n_worker) if place not in places]
        return [(free.pop() if p is None else p, chunk) for p, chunk in zip(places, taken)]

    def _call_actors(self, itr: int) -> None:
        """Call every actor that has less than ``CALLS_AHEAD`` calls."""
        for index in range(self.n_worker):
            while self._actors.n_pending(index) < CALLS_AHEAD:
                args = self._parameters(), itr, self._published[0]
                self._actors.submit(index, "collect", *args)

    def _parameters(self) -> Any:
        """Return a reference to the latest published parameters, stored once for a version."""
        self.agent.recv_shared_memory()
        if self._published[0] != self.agent.received_version:
            self._published = self.agent.received_version, super()._parameters()
        return self._published[1]

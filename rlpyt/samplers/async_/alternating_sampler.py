"""Action servers which turn between two halves of their environments."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.async_.action_server import (
    AsyncAlternatingActionServer,
    AsyncNoOverlapAlternatingActionServer,
)
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSamplerBase
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSamplerBase
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class AsyncAlternatingSamplerBase(AsyncGpuSamplerBase, AlternatingSamplerBase):
    """Spreads environments over servers, and those of each over two halves of workers.

    ``batch_B``, ``eval_n_envs`` and the number of workers of each server have to be even.

    Args as of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.
    """

    def initialize(  # type: ignore[override]
        self, affinity: Any
    ) -> None:
        """Start action servers and their workers; the same number of these for each half."""
        AsyncGpuSamplerBase.initialize(self, affinity)

    def async_initialize(self, agent: Any, *args: Any, **kwargs: Any) -> Any:
        """As of the parent class.

        Raises:
            TypeError: for a recurrent agent with a single state.
        """
        self._require_alternating(agent)
        return super().async_initialize(agent, *args, **kwargs)

    def _make_groups(self) -> None:
        GpuSamplerBase._make_groups(self)
        self._make_alternating_pairs([spec.n_envs for spec in self._specs])

    def _make_alternating_pairs(self, n_envs_list: Any = None) -> None:
        """As of the parent class, for the workers of this server; ``n_envs_list`` is not needed."""
        super()._make_alternating_pairs()


class AsyncAlternatingSampler(AsyncAlternatingActionServer, AsyncAlternatingSamplerBase):
    """A half steps as soon as its actions are chosen."""


class AsyncNoOverlapAlternatingSampler(
    AsyncNoOverlapAlternatingActionServer, AsyncAlternatingSamplerBase
):
    """A half steps only after the other half has finished to."""

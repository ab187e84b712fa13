"""Samplers that serve two halves of the environments in turn: one steps while the agent acts."""

from __future__ import annotations

from typing import Any

from rlpyt.core.protocols import AgentLike
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.parallel.gpu.action_server import (
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class AlternatingSamplerBase(GpuSamplerBase):
    """Base class of samplers that serve the workers in two halves, each with half of the batch.

    ``batch_B``, ``eval_n_envs`` and the number of workers must be even. A recurrent agent must be
    of the alternating kind, which keeps one state for each half. The arguments are as for
    :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.

    Attributes:
        half_B: number of environments in a half.
    """

    alternating = True

    def _check_settings(self) -> None:
        super()._check_settings()
        require_even(self)

    def initialize(self, agent: AgentLike, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Initialize the agent, make shared buffers, and start the workers.

        Raises:
            TypeError: if a recurrent agent has a single state.
            ValueError: if the number of workers is odd.
        """
        examples = super().initialize(agent, *args, **kwargs)
        self._make_alternating_pairs()
        return examples

    def _make_alternating_pairs(self) -> None:
        """Note the size of a half; the workers of each half are already a group."""
        self.half_B = self.batch_spec.B // 2


class AlternatingSampler(AlternatingActionServer, AlternatingSamplerBase):
    """Alternating sampler: a half steps as soon as its actions are chosen."""


class NoOverlapAlternatingSampler(NoOverlapAlternatingActionServer, AlternatingSamplerBase):
    """Alternating sampler: a half steps only after the other half has finished."""


def require_even(sampler: BaseSampler) -> None:
    """Raise ``ValueError`` unless the environments of ``sampler`` divide into halves."""
    for name, number in (("batch_B", sampler.batch_spec.B), ("eval_n_envs", sampler.eval_n_envs)):
        if number % 2:
            raise ValueError(
                f"{name} is {number}: alternating sampling steps two halves, so choose an even "
                "number"
            )

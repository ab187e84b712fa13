"""Asynchronous samplers whose action servers serve two halves of their environments in turn."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.async_.action_server import (
    AsyncAlternatingActionServer,
    AsyncNoOverlapAlternatingActionServer,
)
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSamplerBase
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSamplerBase, require_even


class AsyncAlternatingSamplerBase(AsyncGpuSamplerBase):
    """Base class of asynchronous samplers whose servers serve two halves of their workers.

    ``batch_B``, ``eval_n_envs`` and each server's number of workers must be even. The
    arguments are as for :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.

    Attributes:
        half_B: number of environments in a server's half; in its process.
    """

    alternating = True
    SamplerCls = AlternatingSamplerBase

    def _check_settings(self) -> None:
        super()._check_settings()
        require_even(self)

    def launch_workers(
        self, double_buffer_slice: Any, affinity: Any, seed: int, n_envs_list: Any
    ) -> None:
        """Start the workers of this server, as many for each half."""
        super().launch_workers(double_buffer_slice, affinity, seed, n_envs_list)
        self._make_alternating_pairs(n_envs_list)

    def _make_alternating_pairs(self, n_envs_list: Any) -> None:
        """Note the size of a half; the workers of each half are already a group."""
        self.half_B = sum(n_envs_list) // 2


class AsyncAlternatingSampler(AsyncAlternatingActionServer, AsyncAlternatingSamplerBase):
    """Asynchronous alternating sampler: a half steps as soon as its actions are chosen."""


class AsyncNoOverlapAlternatingSampler(
    AsyncNoOverlapAlternatingActionServer, AsyncAlternatingSamplerBase
):
    """Asynchronous alternating sampler: a half of the workers steps only after the other half."""

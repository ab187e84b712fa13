"""Sampler whose workers hold a copy of the agent, with its model in shared memory."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.cpu.collectors import (
    CpuEvalCollector as CpuEvalCollector,
    CpuResetCollector as CpuResetCollector,
)


class CpuSampler(ParallelSamplerBase):
    """Sampler whose workers each have a copy of the agent, with shared parameters.

    The arguments are as for :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.
    """

    _fitting_collectors = (CpuResetCollector, CpuEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = CpuResetCollector,
        eval_CollectorCls: Any = CpuEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)

    def _prepare_agent(self, itr: int, to_evaluate: bool) -> None:
        """Let the workers act with the current parameters."""
        self.agent.sync_shared_memory()

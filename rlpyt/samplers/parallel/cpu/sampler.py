"""Workers in which agents act by themselves, from a model in shared memory."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector as CpuEvalCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector as CpuResetCollector


class CpuSampler(ParallelSamplerBase):
    """Every worker has a copy of the agent, which shares the parameters of its model.

    Args as of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.
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

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Let the workers act by the present parameters, and collect one batch."""
        self.agent.sync_shared_memory()
        return super().obtain_samples(itr)

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Let the workers act by the present parameters, and evaluate."""
        self.agent.sync_shared_memory()
        return super().evaluate_agent(itr)

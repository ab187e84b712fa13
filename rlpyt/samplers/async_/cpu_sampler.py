"""Asynchronous sampler whose workers hold a copy of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin, prepare_sampler_process
from rlpyt.samplers.async_.collectors import DbCpuResetCollector
from rlpyt.samplers.parallel._division import check_affinity
from rlpyt.samplers.parallel.base import EVAL_TRAJ_CHECK as EVAL_TRAJ_CHECK, ParallelSamplerBase
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector
from rlpyt.utils.logging import logger


class AsyncCpuSampler(AsyncParallelSamplerMixin, ParallelSamplerBase):
    """Asynchronous sampler whose workers each have a copy of the agent, with shared parameters.

    The parameters change only between batches, to the latest published ones. The arguments are as
    for :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.
    """

    _fitting_collectors = (DbCpuResetCollector, CpuEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = DbCpuResetCollector,
        eval_CollectorCls: Any = CpuEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)

    def initialize(  # type: ignore[override]
        self, affinity: Mapping[str, Any]
    ) -> None:
        """Start the workers, in the process of the sampler.

        Args:
            affinity: entries of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`, and
                ``master_cpus`` of this process.
        """
        if self.supervisor is not None:
            self.shutdown()
        prepare_sampler_process(affinity, self.seed)
        check_affinity(affinity)
        self.agent.async_cpu(share_memory=True)
        self._start(affinity, self._get_n_envs_list(affinity), self.batch_spec.B)
        logger.log(f"{type(self).__name__} initialized with {self.n_worker} workers.")

    def _prepare_agent(self, itr: int, to_evaluate: bool) -> None:
        """Let the workers act with the latest published parameters."""
        self.agent.recv_shared_memory()

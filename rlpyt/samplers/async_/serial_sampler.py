"""Asynchronous sampler with agent and environments in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpyt.core.statistics import statistics_of
from rlpyt.samplers.async_.base import AsyncSamplerMixin, prepare_sampler_process
from rlpyt.samplers.async_.collectors import DbCpuResetCollector
from rlpyt.samplers.base import configure_traj_infos
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import evaluation_streams


class AsyncSerialSampler(AsyncSamplerMixin, SerialSampler):
    """Asynchronous sampler that steps environments one after the other, in its own process.

    Args:
        *args: arguments of :class:`~rlpyt.samplers.base.BaseSampler`.
        start_method: start method of all processes in the run: "fork", "forkserver" or "spawn".
            None for the environment variable ``RLPYT_START_METHOD``, or else "fork" on Linux and
            "spawn" elsewhere.
        **kwargs: keyword arguments of :class:`~rlpyt.samplers.base.BaseSampler`.
    """

    _fitting_collectors = (DbCpuResetCollector, SerialEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = DbCpuResetCollector,
        eval_CollectorCls: Any = SerialEvalCollector,
        start_method: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
        self.start_method = start_method

    def initialize(  # type: ignore[override]
        self, affinity: Mapping[str, Any]
    ) -> None:
        """Make and start the environments, in the process of the sampler.

        Args:
            affinity: dictionary, optionally with ``master_cpus``, ``set_affinity`` and the
                ``cuda_idx`` of the agent.
        """
        prepare_sampler_process(affinity, self.seed)
        configure_traj_infos(self.TrajInfoCls, self._traj_info_kwargs)
        envs = self._make_envs(self.seed, range(self.batch_spec.B))
        if self._statistics is not None:
            self._statistics.continue_in(envs)
        self.agent.to_device(affinity.get("cuda_idx"))
        self.agent.async_cpu(share_memory=False)
        # With workers this is a shared value.
        self._sync: Any = AttrDict(db_idx=AttrDict(value=0))
        self._start(envs, self.double_buffer, self.seed, sync=self._sync)
        self._publish_statistics()
        logger.log("Asynchronous serial sampler initialized.")

    def _publish_statistics(self) -> None:
        if self._statistics is not None:
            self._statistics.write(map(statistics_of, self._all_envs[0]))

    def obtain_samples(  # type: ignore[override]
        self, itr: int, db_idx: int
    ) -> list[Any]:
        """Fill one batch, acting with the latest published parameters.

        Args:
            itr: iteration of the sampler.
            db_idx: index of the batch to fill, 0 or 1.

        Returns:
            The infos of the completed trajectories.
        """
        self.agent.recv_shared_memory()
        self._sync.db_idx.value = db_idx
        self.collector.samples_np = self.double_buffer[db_idx]
        _, traj_infos = super().obtain_samples(itr)
        self._publish_statistics()
        return traj_infos

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation with the latest published parameters."""
        self.agent.recv_shared_memory()
        with evaluation_streams(itr):  # Evaluation must not change training.
            return super().evaluate_agent(itr)

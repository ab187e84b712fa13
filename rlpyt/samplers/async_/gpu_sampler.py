"""Action servers, each with workers which only step, apart from the process which trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.samplers._split import WorkerSpec, split_envs
from rlpyt.samplers.async_._server_process import ActionServerProcess
from rlpyt.samplers.async_._servers import ServerSpec, joined_cpus, split_over_servers, starts_of
from rlpyt.samplers.async_.action_server import AsyncActionServer
from rlpyt.samplers.async_.base import prepare_sampler_process
from rlpyt.samplers.async_.collectors import DbGpuResetCollector
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.parallel._affinity import check_affinity
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.supervisor import Supervisor

# Action servers draw from other random streams than workers and environments.
SERVER_SEED_OFFSET = 2_000_000


class AsyncGpuSamplerBase(ActionServerProcess):
    """Spreads the environments over action servers, and those of each over its workers.

    There is an action server for each entry of the affinity, with a copy of the agent on its GPU,
    or on the CPU. Sampler, servers and workers meet before and after every batch.

    Args as of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.
    """

    _fitting_collectors = (DbGpuResetCollector, GpuEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = DbGpuResetCollector,
        eval_CollectorCls: Any = GpuEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """What an action server is given: all but the handles of other processes."""
        return {**self.__dict__, "pool": None, "workers": [], "_states": None}

    # --- In the process of the sampler -------------------------------------------------------

    def initialize(  # type: ignore[override]
        self, affinity: Any
    ) -> None:
        """Start action servers and their workers.

        Args:
            affinity: a list with that of each server, which is as for
                :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase` and has ``cuda_idx``; or
                that of a single server.

        Raises:
            ValueError: if there are more servers than environments.
        """
        self.shutdown()
        is_list = isinstance(affinity, (list, tuple)) and len(affinity) > 0
        affinities = list(affinity) if is_list else [affinity]
        for server_affinity in affinities:
            check_affinity(server_affinity)
        n_envs_lists = self._get_n_envs_lists(affinities)
        prepare_sampler_process(joined_cpus(affinities), self.seed)
        self.rank, self.world_size = 0, 1
        self.n_worker = sum(map(len, n_envs_lists))
        self.pool = Supervisor(self.start_method)
        with self.pool.task():
            self._split_evaluation(n_envs_lists)
            self._build_parallel_ctrl(len(affinities), self.n_worker)
            for server_kwargs in self._assemble_servers_kwargs(affinities, self.seed, n_envs_lists):
                self._start_server(server_kwargs)
            self.ctrl.barrier_out.wait()  # All environments are started.
        logger.log(
            f"{type(self).__name__} initialized with {len(affinities)} action servers and "
            f"{self.n_worker} workers."
        )

    def _start_server(self, server_kwargs: dict[str, Any]) -> None:
        rank, ranks = server_kwargs["rank"], server_kwargs["env_ranks"]
        self._pool.start(
            _run_server,
            dict(sampler=self, server_kwargs=server_kwargs),
            label=f"action server {rank} (environments {ranks[0]} to {ranks[-1]})",
        )

    def obtain_samples(self, itr: int, db_idx: int = 0) -> Any:
        """Fill one batch; see :class:`~rlpyt.samplers.async_.base.AsyncParallelSamplerMixin`."""
        self.sync.db_idx.value = db_idx
        _, traj_infos = ParallelSamplerBase.obtain_samples(self, itr)
        return traj_infos

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation, by the parameters which were published last."""
        return ParallelSamplerBase.evaluate_agent(self, itr)

    def state_dict(self) -> dict[str, Any]:
        """The workers are those of the servers, which are not asked: not implemented."""
        return BaseSampler.state_dict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Likewise."""
        BaseSampler.load_state_dict(self, state)

    def _during_batch(self, itr: int) -> None:
        """The servers are at work."""

    def _during_evaluation(self, itr: int) -> list[Any]:
        return ParallelSamplerBase._during_evaluation(self, itr)

    def _limit_for_workers(self) -> int | None:
        return self.eval_max_trajectories or self.eval_n_episodes

    def _get_n_envs_lists(self, affinity: Sequence[Any]) -> list[list[int]]:
        """Number of environments of each worker, for each server."""
        shares = split_over_servers(self.batch_spec.B, len(affinity), self._n_groups)
        if min(share.n_envs for share in shares) < 1:
            raise ValueError(
                f"batch_B is {self.batch_spec.B}, which does not give each of {len(affinity)} "
                "action servers an environment (or two, for alternating sampling): make it larger, "
                "or name fewer servers in the affinity"
            )
        return [
            self._get_n_envs_list(server_affinity, B=share.n_envs)
            for server_affinity, share in zip(affinity, shares)
        ]

    def _split_evaluation(self, n_envs_lists: Sequence[Sequence[int]]) -> None:
        """Give servers and workers their shares of the evaluation."""
        n = self._n_groups
        self._eval_shares = split_over_servers(self.eval_n_envs, len(n_envs_lists), n)
        if self.eval_n_envs < 1:
            return
        self.eval_max_T = self._eval_time_limit()
        self.eval_specs = [
            WorkerSpec(
                first + spec.rank, spec.group, share.start + spec.start, share.start + spec.stop
            )
            for first, n_envs_list, share in zip(
                starts_of(list(map(len, n_envs_lists))), n_envs_lists, self._eval_shares
            )
            for spec in split_envs(share.n_envs, len(n_envs_list), n)
        ]

    def _build_parallel_ctrl(  # type: ignore[override]
        self, n_server: int, n_worker: int
    ) -> None:
        """Make what sampler, servers and workers share."""
        self._share_control(n_worker, n_parties=n_server + n_worker + 1)
        self.ctrl.stop_eval = self.sync.stop_eval
        self.sync.db_idx = self._pool.context.RawValue("i", 0)

    def _assemble_servers_kwargs(
        self, affinity: Sequence[Any], seed: int, n_envs_lists: Sequence[list[int]]
    ) -> list[dict[str, Any]]:
        """What each server is told, the arguments of :meth:`action_server_process`."""
        firsts = starts_of([sum(n_envs_list) for n_envs_list in n_envs_lists])
        first_workers = starts_of(list(map(len, n_envs_lists)))
        servers_kwargs = []
        self._server_specs = []
        for rank, n_envs_list in enumerate(n_envs_lists):
            envs = slice(firsts[rank], firsts[rank] + sum(n_envs_list))
            self._server_specs.append(
                ServerSpec(first_workers[rank], envs, self._eval_shares[rank].columns)
            )
            servers_kwargs.append(
                dict(
                    rank=rank,
                    env_ranks=list(range(envs.start, envs.stop)),
                    double_buffer_slice=tuple(batch[:, envs] for batch in self.double_buffer),
                    affinity=affinity[rank],
                    seed=seed + SERVER_SEED_OFFSET + rank,
                    n_envs_list=n_envs_list,
                )
            )
        return servers_kwargs


class AsyncGpuSampler(AsyncActionServer, AsyncGpuSamplerBase):
    """All environments of a server step, then its agent acts for all of them."""


def _run_server(sampler: AsyncGpuSamplerBase, server_kwargs: dict[str, Any]) -> None:
    sampler.action_server_process(**server_kwargs)

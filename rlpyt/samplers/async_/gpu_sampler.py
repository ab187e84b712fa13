"""Action servers, each with workers which only step, apart from the process which trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpyt.samplers._split import WorkerSpec, split_envs
from rlpyt.samplers._workers import StateExchange
from rlpyt.samplers.async_.action_server import AsyncActionServer
from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin, prepare_sampler_process
from rlpyt.samplers.async_.collectors import DbGpuResetCollector
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase
from rlpyt.samplers.parallel.worker import sampling_process
from rlpyt.utils._pool import ProcessPool
from rlpyt.utils._processes import sharing_with
from rlpyt.utils._rendezvous import Signal
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested

# Action servers draw from other random streams than workers and environments.
SERVER_SEED_OFFSET = 2_000_000


@dataclass(frozen=True)
class ServerSpec:
    """The share of one action server.

    Args:
        first_worker: index of its first worker among those of all servers.
        envs: its environments, and what of the batch they fill.
        eval_envs: those of evaluation, of which there may be none.
    """

    first_worker: int
    envs: slice
    eval_envs: slice


class AsyncGpuSamplerBase(AsyncParallelSamplerMixin, GpuSamplerBase):
    """Spreads the environments over action servers, and those of each over its workers.

    There is an action server for each entry of the affinity, with a copy of the agent on its GPU,
    or on the CPU. Sampler, servers and workers meet before and after every batch.

    Args as of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.
    """

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
        affinities = [affinity] if isinstance(affinity, Mapping) else list(affinity)
        for server_affinity in affinities:
            self._check_affinity(server_affinity)
        n_envs_lists = self._get_n_envs_lists(affinities)
        prepare_sampler_process(_joined(affinities), self.seed)
        self.rank, self.world_size = 0, 1
        self.n_worker = sum(map(len, n_envs_lists))
        self.pool = ProcessPool(self.start_method)
        self._split_evaluation(n_envs_lists)
        self._build_parallel_ctrl(len(affinities), self.n_worker)
        for server_kwargs in self._assemble_servers_kwargs(affinities, self.seed, n_envs_lists):
            ranks = server_kwargs["env_ranks"]
            self._pool.start(
                _run_server,
                dict(sampler=self, server_kwargs=server_kwargs),
                label=f"action server {server_kwargs['rank']} "
                f"(environments {ranks[0]} to {ranks[-1]})",
            )
        self.ctrl.barrier_out.wait()  # All environments are started.
        logger.log(
            f"{type(self).__name__} initialized with {len(affinities)} action servers and "
            f"{self.n_worker} workers."
        )

    def obtain_samples(self, itr: int, db_idx: int = 0) -> Any:
        """Fill one batch; see :class:`~rlpyt.samplers.async_.base.AsyncParallelSamplerMixin`."""
        self.sync.db_idx.value = db_idx
        _, traj_infos = ParallelSamplerBase.obtain_samples(self, itr)
        return traj_infos

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation, by the parameters which were published last."""
        return ParallelSamplerBase.evaluate_agent(self, itr)

    def _during_batch(self, itr: int) -> None:
        """The servers are at work."""

    def _during_evaluation(self, itr: int) -> None:
        ParallelSamplerBase._during_evaluation(self, itr)

    def _limit_for_workers(self) -> int | None:
        return self.eval_max_trajectories or self.eval_n_episodes

    def _get_n_envs_lists(self, affinity: Sequence[Any]) -> list[list[int]]:
        """Number of environments of each worker, for each server."""
        shares = self._split_over_servers(self.batch_spec.B, len(affinity))
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

    def _split_over_servers(self, n_envs: int, n_server: int) -> list[WorkerSpec]:
        """The share of each server, of which every group of workers has the same."""
        n = self._n_groups
        return [
            WorkerSpec(share.rank, 0, share.start * n, share.stop * n)
            for share in split_envs(n_envs // n, n_server)
        ]

    def _split_evaluation(self, n_envs_lists: Sequence[Sequence[int]]) -> None:
        """Give servers and workers their shares of the evaluation."""
        self._eval_shares = self._split_over_servers(self.eval_n_envs, len(n_envs_lists))
        if self.eval_n_envs < 1:
            return
        self.eval_max_T = self._eval_time_limit()
        self.eval_specs = [
            WorkerSpec(
                first + spec.rank, spec.group, share.start + spec.start, share.start + spec.stop
            )
            for first, n_envs_list, share in zip(
                _starts(list(map(len, n_envs_lists))), n_envs_lists, self._eval_shares
            )
            for spec in split_envs(share.n_envs, len(n_envs_list), self._n_groups)
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
        firsts = _starts([sum(n_envs_list) for n_envs_list in n_envs_lists])
        first_workers = _starts(list(map(len, n_envs_lists)))
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

    # --- In the process of an action server --------------------------------------------------

    def action_server_process(
        self,
        rank: int,
        env_ranks: list[int],
        double_buffer_slice: tuple[Nested, Nested],
        affinity: Mapping[str, Any],
        seed: int,
        n_envs_list: Sequence[int],
    ) -> None:
        """Start workers, and choose actions for them whenever the sampler says so.

        Args:
            rank: of the server.
            env_ranks: of its environments, among all.
            double_buffer_slice: their part of both batches.
            affinity: of the server and its workers.
            seed: of the server.
            n_envs_list: number of environments of each worker.
        """
        prepare_sampler_process(affinity, seed, f"Action server {rank}")
        self._server = self._server_specs[rank]
        try:
            self.launch_workers(double_buffer_slice, affinity, self.seed, n_envs_list)
            self.agent.to_device(affinity.get("cuda_idx"))
            self.agent.async_cpu(share_memory=False)
            self.agent.collector_initialize(global_B=self.batch_spec.B, env_ranks=env_ranks)
            self.agent.reset()
            self.ctrl.barrier_out.wait()
            while self._serve_once():
                pass
        finally:
            self.shutdown_workers()

    def launch_workers(
        self,
        double_buffer_slice: tuple[Nested, Nested],
        affinity: Mapping[str, Any],
        seed: int,
        n_envs_list: Sequence[int],
    ) -> None:
        """Start the workers of this server.

        Args:
            double_buffer_slice: the part of both batches which they fill.
            affinity: of the server and its workers.
            seed: of the sampler.
            n_envs_list: number of environments of each worker.
        """
        self.double_buffer = double_buffer_slice
        self.samples_np = double_buffer_slice[0]
        self.pool = pool = ProcessPool(self.start_method, self.worker_timeout_s)
        self._states = StateExchange(pool, len(n_envs_list))
        for barrier in (self.ctrl.barrier_in, self.ctrl.barrier_out):
            barrier.watch_with(pool)
        self.sync = AttrDict(
            stop_eval=pool.context.RawValue("b", False),
            db_idx=self.sync.db_idx,
            obs_ready=[Signal(pool, suspect=rank) for rank in range(len(n_envs_list))],
            act_ready=[Signal(pool) for _ in n_envs_list],
        )
        n_eval_envs = self._server.eval_envs.stop - self._server.eval_envs.start
        if self.eval_n_envs > 0:
            self.eval_specs = split_envs(n_eval_envs, len(n_envs_list), self._n_groups)
        with sharing_with(pool.context.get_start_method()):
            self._build_step_buffers(self.examples, sum(n_envs_list), n_eval_envs)
        common_kwargs = self._assemble_common_kwargs(affinity, global_B=self.batch_spec.B)
        self.workers = [
            self._start_worker(sampling_process, common_kwargs, worker_kwargs)
            for worker_kwargs in self._assemble_workers_kwargs(affinity, seed, n_envs_list)
        ]

    def _serve_once(self) -> bool:
        """Do one task of the sampler; return False if that was to end."""
        ctrl = self.ctrl
        self.sync.stop_eval.value = False
        ctrl.barrier_in.wait()
        if ctrl.quit.value:
            return False
        itr = ctrl.itr.value
        self.agent.recv_shared_memory()
        if not ctrl.do_eval.value:
            self.agent.sample_mode(itr)
            self.samples_np = self.double_buffer[self.sync.db_idx.value]
            self.serve_actions(itr)
        elif self._server.eval_envs.stop > self._server.eval_envs.start:
            self.agent.eval_mode(itr)
            self.serve_actions_evaluation(itr)
        ctrl.barrier_out.wait()
        return True

    def shutdown_workers(self) -> None:
        """End the workers of this server, by force unless all were told to."""
        pool, self.pool = self.pool, None
        if pool is None:
            return
        if self.ctrl.quit.value and not pool.is_over:
            pool.join()
        pool.terminate()

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: Sequence[int]
    ) -> list[dict[str, Any]]:
        """What each worker of this server is told."""
        workers_kwargs = super()._assemble_workers_kwargs(affinity, seed, n_envs_list)
        first_env, first_worker = self._server.envs.start, self._server.first_worker
        for worker_kwargs in workers_kwargs:
            worker_kwargs["rank"] += first_worker
            worker_kwargs["seed"] += first_worker
            worker_kwargs["first_env"] += first_env
            worker_kwargs["env_ranks"] = [first_env + b for b in worker_kwargs["env_ranks"]]
            worker_kwargs["sync"].life = self._lives[worker_kwargs["rank"]]
        return workers_kwargs

    def _evaluation_kwargs(self, spec: WorkerSpec) -> dict[str, Any]:
        first = self._server.eval_envs.start
        shifted = WorkerSpec(spec.rank, spec.group, first + spec.start, first + spec.stop)
        return super()._evaluation_kwargs(shifted)


class AsyncGpuSampler(AsyncActionServer, AsyncGpuSamplerBase):
    """All environments of a server step, then its agent acts for all of them."""


def _run_server(sampler: AsyncGpuSamplerBase, server_kwargs: dict[str, Any]) -> None:
    sampler.action_server_process(**server_kwargs)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where each of adjacent parts begins."""
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _joined(affinities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The CPUs of all servers, for the process which waits for them; of all, if one may use all."""
    cpus: list[int] = []
    for affinity in affinities:
        if affinity.get("master_cpus") is None or not affinity.get("set_affinity", True):
            return {}
        cpus += affinity["master_cpus"]
    return {"master_cpus": cpus}

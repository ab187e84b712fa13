"""Asynchronous sampler with action servers, each with workers that only step environments.

Process tree: the sampler starts a server for each entry of the affinity, with a copy of the agent
on its GPU or on the CPU, and every server starts its workers. Before and after each batch the
servers meet the sampler, and the workers their server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from rlpyt.processes.supervisor import Supervisor
from rlpyt.samplers.async_.action_server import AsyncActionServer
from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin, prepare_sampler_process
from rlpyt.samplers.async_.collectors import DbGpuResetCollector
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.parallel._channels import TrajInfoQueue, barriers
from rlpyt.samplers.parallel._division import (
    Offset,
    check_affinity,
    split_envs,
    worker_specs,
)
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.action_server import Group, connect_workers, serve_again
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.parallel.gpu.sampler import add_step_buffers, step_semaphores
from rlpyt.samplers.parallel.workers import Workers
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, derived_seed
from rlpyt.utils.shared_array import shared_memory_for
from rlpyt.utils.types import Nested


class ServerShare(NamedTuple):
    """Share of one action server.

    Args:
        first: indices of its first worker, environment and evaluation environment.
        n_envs: number of its environments.
        n_eval_envs: number of its evaluation environments, which may be 0.
    """

    first: Offset
    n_envs: int
    n_eval_envs: int


class AsyncGpuSamplerBase(AsyncParallelSamplerMixin, ParallelSamplerBase):
    """Spreads the environments over action servers, and those of each over its workers.

    The arguments are those of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`. An action
    server from :mod:`~rlpyt.samplers.async_.action_server` stands first among the bases.

    Attributes:
        groups, step_buffer_np, agent_inputs, ...: attributes in the process of a server, see
            :class:`~rlpyt.samplers.parallel.gpu.sampler.GpuSamplerBase`.
    """

    gpu = True

    step_buffer_np: Nested
    step_buffer_pyt: Nested
    agent_inputs: Nested
    groups: list[Group]
    overlap: bool
    eval_step_buffer_np: Nested
    eval_step_buffer_pyt: Nested
    eval_agent_inputs: Nested
    eval_groups: list[Group]
    _shares: list[ServerShare]

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
        """Return what an action server is given: all but the handles of other processes."""
        return {**self.__dict__, "supervisor": None, "workers": [], "_workers": None}

    # --- In the process of the sampler ------------------------------------------------------------

    def initialize(  # type: ignore[override]
        self, affinity: Any
    ) -> None:
        """Start action servers and their workers.

        Args:
            affinity: list with the affinity of each server, which has the entries that
                :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase` takes, and ``cuda_idx``;
                or the affinity of a single server.

        Raises:
            ValueError: if there are more servers than environments.
        """
        self.shutdown()
        is_list = isinstance(affinity, (list, tuple)) and len(affinity) > 0
        affinities = list(affinity) if is_list else [affinity]
        for server_affinity in affinities:
            check_affinity(server_affinity)
        n_envs_lists = self._get_n_envs_lists(affinities)
        prepare_sampler_process(_joined_cpus(affinities), self.seed)
        self.rank, self.world_size = 0, 1
        self.n_worker = sum(map(len, n_envs_lists))
        self.supervisor = Supervisor(self.start_method)
        with self.supervisor.task():
            self._build_parallel_ctrl(len(affinities), self.n_worker)
            for server_kwargs in self._assemble_servers_kwargs(affinities, self.seed, n_envs_lists):
                rank, ranks = server_kwargs["rank"], server_kwargs["env_ranks"]
                self.supervisor.start(
                    _run_server,
                    dict(sampler=self, server_kwargs=server_kwargs),
                    label=f"action server {rank} (environments {ranks[0]} to {ranks[-1]})",
                )
            self._workers.finish_task()  # All environments are started.
        logger.log(
            f"{type(self).__name__} initialized with {len(affinities)} action servers and "
            f"{self.n_worker} workers."
        )

    def obtain_samples(self, itr: int, db_idx: int = 0) -> Any:
        traj_infos = super().obtain_samples(itr, db_idx)
        self._restarted = set(np.flatnonzero(self.ctrl.cut).tolist())
        self.ctrl.cut[:] = [False] * self.batch_spec.B
        return traj_infos

    def state_dict(self) -> dict[str, Any]:
        """Raise ``NotImplementedError``: the workers belong to the servers, which are not asked."""
        return BaseSampler.state_dict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raise ``NotImplementedError``."""
        BaseSampler.load_state_dict(self, state)

    def _limit_for_workers(self) -> int | None:
        return self.eval_max_trajectories or self.eval_n_episodes

    def _get_n_envs_lists(self, affinity: Sequence[Any]) -> list[list[int]]:
        """Return the number of environments of each worker, for each server."""
        sizes = self._split_over_servers(self.batch_spec.B, len(affinity))
        if min(sizes) < 1:
            raise ValueError(
                f"batch_B is {self.batch_spec.B}, which does not give each of {len(affinity)} "
                "action servers an environment (or two, for alternating sampling): make it larger, "
                "or name fewer servers in the affinity"
            )
        return [
            self._get_n_envs_list(server_affinity, B=size)
            for server_affinity, size in zip(affinity, sizes)
        ]

    def _split_over_servers(self, n_envs: int, n_server: int) -> list[int]:
        """Return the number of environments of each server; all its groups have as many."""
        n = self._n_groups
        return [share.n_envs * n for share in split_envs(n_envs // n, n_server)]

    def _build_parallel_ctrl(  # type: ignore[override]
        self, n_server: int, n_worker: int
    ) -> None:
        """Make the barriers, flags and queues of sampler, servers and workers."""
        super()._build_parallel_ctrl(n_worker, n_server)
        self.ctrl.stop_eval = self.sync.stop_eval
        self.ctrl.cut = self._supervisor.context.RawArray("b", self.batch_spec.B)

    def _assemble_servers_kwargs(
        self, affinity: Sequence[Any], seed: int, n_envs_lists: Sequence[list[int]]
    ) -> list[dict[str, Any]]:
        """Return the arguments of :meth:`action_server_process` for each server."""
        self._divide_among_servers(n_envs_lists)
        servers_kwargs = []
        for rank, (share, n_envs_list) in enumerate(zip(self._shares, n_envs_lists)):
            envs = slice(share.first.env, share.first.env + share.n_envs)
            servers_kwargs.append(
                dict(
                    rank=rank,
                    env_ranks=list(range(envs.start, envs.stop)),
                    double_buffer_slice=tuple(batch[:, envs] for batch in self.double_buffer),
                    affinity=affinity[rank],
                    seed=derived_seed(seed, Purpose.SERVER, rank),
                    n_envs_list=n_envs_list,
                )
            )
        return servers_kwargs

    def _divide_among_servers(self, n_envs_lists: Sequence[Sequence[int]]) -> None:
        n_workers, n_envs = list(map(len, n_envs_lists)), list(map(sum, n_envs_lists))
        n_eval_envs = self._split_over_servers(self.eval_n_envs, len(n_envs_lists))
        firsts = map(Offset, *map(_starts, (n_workers, n_envs, n_eval_envs)))
        self._shares = list(map(ServerShare, firsts, n_envs, n_eval_envs))
        if self.eval_n_envs > 0:
            self.eval_specs = [
                spec._replace(rank=share.first.worker + spec.rank)
                for share, n in zip(self._shares, n_workers)
                for spec in split_envs(share.n_eval_envs, n, self._n_groups)
            ]

    # --- In the process of an action server -------------------------------------------------------

    def action_server_process(
        self,
        rank: int,
        env_ranks: list[int],
        double_buffer_slice: tuple[Nested, Nested],
        affinity: Mapping[str, Any],
        seed: int,
        n_envs_list: Sequence[int],
    ) -> None:
        """Start workers, and choose actions for them whenever the sampler has a task.

        Args:
            rank: index of the server.
            env_ranks: indices of its environments among all.
            double_buffer_slice: part of both batches that its environments fill.
            affinity: affinity of the server and its workers.
            seed: seed of the server.
            n_envs_list: number of environments of each worker.
        """
        prepare_sampler_process(affinity, seed, f"Action server {rank}")
        self._share = self._shares[rank]
        self._first = self._share.first
        try:
            self.launch_workers(double_buffer_slice, affinity, self.seed, n_envs_list)
            with self._supervisor.task():
                self._workers.finish_task()  # Their environments are started.
            self.agent.to_device(affinity.get("cuda_idx"))
            self.agent.async_cpu(share_memory=False)
            self.agent.collector_initialize(global_B=self.batch_spec.B, env_ranks=env_ranks)
            self.agent.reset()
            self._servers_ctrl.barrier_out.wait()
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
            double_buffer_slice: part of both batches that they fill.
            affinity: affinity of the server and its workers.
            seed: seed of the sampler.
            n_envs_list: number of environments of each worker.
        """
        self.double_buffer = double_buffer_slice
        self.samples_np = double_buffer_slice[0]
        n_worker = len(n_envs_list)
        self.supervisor = supervisor = Supervisor(self.start_method, self.worker_timeout_s)
        self._servers_ctrl, self._all_traj_infos = self.ctrl, self.traj_infos_queue
        self._all_eval_traj_infos = self.eval_traj_infos_queue
        for barrier in (self.ctrl.barrier_in, self.ctrl.barrier_out):
            barrier.supervisor = supervisor  # Waiting for other servers, it watches its workers.
        self.ctrl = AttrDict(self.ctrl, **barriers(supervisor, 1 + n_worker))
        self._workers = Workers(supervisor, self.ctrl, n_worker, self._first.env)
        self.traj_infos_queue = TrajInfoQueue(supervisor, n_worker)
        self.eval_traj_infos_queue = TrajInfoQueue(supervisor, n_worker)
        self.sync = AttrDict(
            stop_eval=supervisor.context.RawValue("b", False),
            db_idx=self.sync.db_idx,
            **step_semaphores(supervisor, n_worker),
        )
        if self.eval_n_envs > 0:
            self._divide_evaluation(self._share.n_eval_envs, n_worker)
        with shared_memory_for(supervisor.context.get_start_method()):
            add_step_buffers(self, self.examples, sum(n_envs_list), self._share.n_eval_envs)
        common_kwargs = self._assemble_common_kwargs(affinity, global_B=self.batch_spec.B)
        workers_kwargs = self._assemble_workers_kwargs(affinity, seed, n_envs_list)
        self._start_workers(common_kwargs, workers_kwargs)

    def _serve_once(self) -> bool:
        """Do one task of the sampler; return False if that was to end."""
        ctrl = self.ctrl
        self.sync.stop_eval.value = False
        with self._supervisor.task():
            self._servers_ctrl.barrier_in.wait()
            if ctrl.quit.value:
                return False
            itr = ctrl.itr.value
            self.agent.recv_shared_memory()
            groups: Sequence[Group] = ()
            if not ctrl.do_eval.value:
                groups = self.groups
                self.agent.sample_mode(itr)
                self.samples_np = self.double_buffer[self.sync.db_idx.value]
                self._workers.do_task(
                    lambda: self.serve_actions(itr), lambda: self._collect_again(itr)
                )
                for column in self._workers.end_batch(self.batch_spec.T):
                    ctrl.cut[column] = True
            elif self._share.n_eval_envs > 0:
                groups = self.eval_groups
                ctrl.eval_again.value |= bool(self._supervisor.restarted)
                self.agent.eval_mode(itr)
                self._workers.do_task(lambda: self.serve_actions_evaluation(itr))
            else:
                self._workers.do_task(lambda: None)
            self.traj_infos_queue.hand_on(self._all_traj_infos)
            self.hand_on_evaluation()
            self._servers_ctrl.barrier_out.wait()
        for group in groups:
            group.require_drained()
        return True

    def _collect_again(self, itr: int) -> None:
        serve_again(self, self._workers.present_columns(), lambda: self.serve_actions(itr))

    def hand_on_evaluation(self) -> None:
        """Send the sampler the trajectory infos of evaluation that have come by now."""
        self.eval_traj_infos_queue.hand_on(self._all_eval_traj_infos)

    def serve_actions(self, itr: int) -> None:
        """Choose the actions of one batch; implemented by the action server."""
        raise NotImplementedError

    def serve_actions_evaluation(self, itr: int) -> list[Any]:
        """Choose the actions of one evaluation; implemented by the action server."""
        raise NotImplementedError

    def shutdown_workers(self) -> None:
        """End the workers of this server, by force unless all processes were told to end."""
        supervisor, self.supervisor = self.supervisor, None
        if supervisor is None:
            return
        if self.ctrl.quit.value and not supervisor.is_over:
            for barrier in (self.ctrl.barrier_in, self.ctrl.barrier_out):
                barrier.open_for_all()
            supervisor.join()
        supervisor.terminate()

    def _assemble_common_kwargs(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**super()._assemble_common_kwargs(*args, **kwargs), "agent": None}

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: Sequence[int]
    ) -> list[dict[str, Any]]:
        """Return the arguments of each worker of this server."""
        workers_kwargs = super()._assemble_workers_kwargs(affinity, seed, n_envs_list)
        connect_workers(self, workers_kwargs, worker_specs(n_envs_list, self._n_groups))
        return workers_kwargs


class AsyncGpuSampler(AsyncActionServer, AsyncGpuSamplerBase):
    """All environments of a server step, then its agent acts for all of them."""


def _run_server(sampler: AsyncGpuSamplerBase, server_kwargs: dict[str, Any]) -> None:
    sampler.action_server_process(**server_kwargs)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the index at which each of adjacent parts begins."""
    return [0, *accumulate(sizes)][:-1]


def _joined_cpus(affinities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the CPUs of all servers, for the process that waits for them; {} for all CPUs."""
    cpus: list[int] = []
    for affinity in affinities:
        if affinity.get("master_cpus") is None or not affinity.get("set_affinity", True):
            return {}
        cpus += affinity["master_cpus"]
    return {"master_cpus": cpus}

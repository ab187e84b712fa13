"""Asynchronous sampler with action servers, each of which has a sampler over a part of the batch.

Process tree: the sampler starts a server for each entry of the affinity, with a copy of the agent
on its GPU or on the CPU, and every server starts the workers of its own sampler. The sampler
treats the servers as other samplers treat workers: they meet at its barriers around each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, count
from types import MethodType
from typing import Any

import numpy as np

from rlpyt.core.records import BatchSpec
from rlpyt.processes.child import Heartbeat
from rlpyt.processes.supervisor import Supervisor
from rlpyt.samplers.async_.action_server import AsyncActionServer
from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin, prepare_sampler_process
from rlpyt.samplers.async_.collectors import DbGpuResetCollector
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.parallel._channels import TrajInfoQueue
from rlpyt.samplers.parallel._division import Offset, check_affinity, split_envs, worker_specs
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase, add_step_buffers
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, derived_seed, evaluation_streams
from rlpyt.utils.shared_array import get_context, shared_memory_for
from rlpyt.utils.types import Nested


class AsyncGpuSamplerBase(AsyncParallelSamplerMixin, ParallelSamplerBase):
    """Base class of samplers that spread environments over action servers and their workers.

    The arguments are as for :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`. An action
    server from :mod:`~rlpyt.samplers.parallel.gpu.action_server` stands first among the bases: the
    samplers of all servers choose actions with its methods.

    Attributes:
        SamplerCls: class of each server's sampler.
        sampler: a server's sampler, in its process.
    """

    gpu = True
    SamplerCls: type[GpuSamplerBase] = GpuSamplerBase

    sampler: GpuSamplerBase
    # First worker, environment and evaluation environment of each server.
    _firsts: list[Offset]

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
        """Return what an action server receives: everything but the handles of other processes."""
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
        if self.supervisor is not None:
            self.shutdown()
        is_list = isinstance(affinity, (list, tuple)) and len(affinity) > 0
        affinities = list(affinity) if is_list else [affinity]
        for server_affinity in affinities:
            check_affinity(server_affinity)
        n_envs_lists = self._get_n_envs_lists(affinities)
        prepare_sampler_process(_joined_cpus(affinities), self.seed)
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
        """Raise ``NotImplementedError``: the states are in the workers of the servers."""
        return BaseSampler.state_dict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raise ``NotImplementedError``."""
        BaseSampler.load_state_dict(self, state)

    def _limit_for_workers(self) -> int | None:
        return self.eval_max_trajectories or self.eval_n_episodes

    def _get_n_envs_lists(self, affinity: Sequence[Any]) -> list[list[int]]:
        """Return each worker's number of environments, for each server."""
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
        """Return each server's number of environments; its groups have equally many."""
        n = self._n_groups
        return [share.n_envs * n for share in split_envs(n_envs // n, n_server)]

    def _build_parallel_ctrl(  # type: ignore[override]
        self, n_server: int, n_worker: int
    ) -> None:
        """Make the barriers, flags and queues of the sampler and its servers."""
        super()._build_parallel_ctrl(n_server)
        self.ctrl.cut = self._supervisor.context.RawArray("b", self.batch_spec.B)

    def _divide_evaluation(self, n_envs: int, n_worker: int) -> None:
        self.eval_specs = worker_specs(self._split_over_servers(n_envs, n_worker))

    def _assemble_servers_kwargs(
        self, affinity: Sequence[Any], seed: int, n_envs_lists: Sequence[list[int]]
    ) -> list[dict[str, Any]]:
        """Return the arguments of :meth:`action_server_process` for each server."""
        n_eval_envs = self._split_over_servers(self.eval_n_envs, len(n_envs_lists))
        numbers = [*map(len, n_envs_lists)], [*map(sum, n_envs_lists)], n_eval_envs
        self._firsts = [Offset(*first) for first in zip(*map(_starts, numbers))]
        servers_kwargs = []
        for rank, (first, n_envs_list) in enumerate(zip(self._firsts, n_envs_lists)):
            envs = slice(first.env, first.env + sum(n_envs_list))
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
        """Start the sampler of a server, and sample whenever there is a task.

        Args:
            rank: index of the server.
            env_ranks: indices of its environments among all.
            double_buffer_slice: part of both batches that its environments fill.
            affinity: affinity of the server and its workers.
            seed: seed of the server.
            n_envs_list: each worker's number of environments.
        """
        prepare_sampler_process(affinity, seed, f"Action server {rank}")
        self.sampler, self._heartbeat = self._part(rank, len(env_ranks)), self._heartbeats[rank]
        try:
            self.launch_workers(double_buffer_slice, affinity, self.seed, n_envs_list)
            self.agent.to_device(affinity.get("cuda_idx"))
            self.agent.async_cpu(share_memory=False)
            self.agent.collector_initialize(global_B=self.batch_spec.B, env_ranks=env_ranks)
            self.agent.reset()
            while self._await_task():
                self.agent.recv_shared_memory()
                if self.ctrl.do_eval.value:
                    self._evaluate_part(self.ctrl.itr.value)
                else:
                    self._obtain_part(self.ctrl.itr.value, self.sync.db_idx.value)
        finally:
            self.shutdown_workers()

    def _part(self, rank: int, n_envs: int) -> GpuSamplerBase:
        """Return a sampler with these settings, for the part of server ``rank``."""
        SamplerCls: Any = self.SamplerCls
        part: GpuSamplerBase = SamplerCls.__new__(SamplerCls)
        vars(part).update(vars(self), supervisor=None, ctrl=None, samples_pyt=None, rank=0)
        part._first = self._firsts[rank]
        part.batch_spec = BatchSpec(self.batch_spec.T, n_envs)
        if self.eval_n_envs > 0:
            spec, time_limit = self.eval_specs[rank], self._eval_time_limit()
            part.eval_n_envs = spec.n_envs
            part.eval_max_steps = None if time_limit is None else time_limit * spec.n_envs
            quota = self._eval_quota()
            part.eval_n_episodes = None if quota is None else sum(quota[spec.columns])
        for name in ("serve_actions", "serve_actions_evaluation"):
            setattr(part, name, MethodType(getattr(type(self), name), part))
        return part

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
            n_envs_list: each worker's number of environments.
        """
        part: Any = self.sampler
        part.double_buffer, part.samples_np = double_buffer_slice, double_buffer_slice[0]
        part.seed = seed
        with shared_memory_for(get_context(self.start_method).get_start_method()):
            add_step_buffers(part, self.examples, part.batch_spec.B, part.eval_n_envs)
        part._start(affinity, n_envs_list, self.batch_spec.B)
        part.ctrl.eval_again = self.ctrl.eval_again
        for name in ("traj_infos_queue", "eval_traj_infos_queue"):
            queues = getattr(part, name), getattr(self, name)
            setattr(part, name, ForwardingQueue(*queues, self._heartbeat, self.sync.stop_eval))
        for barrier in (self.ctrl.barrier_in, self.ctrl.barrier_out):
            barrier.supervisor = part.supervisor  # While it waits, it watches its workers.

    def _await_task(self) -> bool:
        """Report the end of the last task, and wait for the next; return False if there is none."""
        assert self.sampler.supervisor is not None
        with self.sampler.supervisor.task():
            self.ctrl.barrier_out.wait()
            self.ctrl.barrier_in.wait()
        return not self.ctrl.quit.value

    def _obtain_part(self, itr: int, db_idx: int) -> None:
        part = self.sampler
        part.sync.db_idx.value, part.samples_np = db_idx, part.double_buffer[db_idx]
        part.obtain_samples(itr)
        for column in part.take_restarted():
            self.ctrl.cut[part._first.env + column] = True

    def _evaluate_part(self, itr: int) -> None:
        if self.sampler.eval_n_envs > 0:
            with evaluation_streams(itr):
                self.sampler._prepare_agent(itr, to_evaluate=True)
                self.sampler._evaluate_once(itr)

    def shutdown_workers(self) -> None:
        """End the workers of this server, by force unless all processes were asked to end."""
        if self.ctrl.quit.value:
            self.sampler.shutdown()
        elif self.sampler.supervisor is not None:
            self.sampler.supervisor.terminate()


class AsyncGpuSampler(AsyncActionServer, AsyncGpuSamplerBase):
    """Asynchronous sampler: all environments of a server step, then its agent acts for them."""


class ForwardingQueue:
    """Queue of a server's sampler, which forwards everything to the queue of all servers.

    Args:
        queue: queue of the workers.
        onward: queue to the process of the sampler, where trajectories are counted.
        heartbeat: heartbeat of the server, by which its steps of an evaluation are counted there.
        stop: shared flag that is set there when an evaluation has reached its limit.
    """

    def __init__(
        self, queue: TrajInfoQueue, onward: TrajInfoQueue, heartbeat: Heartbeat, stop: Any
    ) -> None:
        self._queue, self._onward, self._heartbeat, self._stop = queue, onward, heartbeat, stop

    def take(self, limit: int | None = None) -> list[Any]:
        """Forward everything that has been put; return an empty list."""
        self._queue.hand_on(self._onward)
        return []

    def has_reached(self, limit: int) -> Callable[[], bool]:
        """Return a function, called after each step, that returns whether all servers stop."""
        n_steps = count()

        def must_stop() -> bool:
            self.take()
            self._heartbeat.values[Heartbeat.STEPS] = next(n_steps)
            return bool(self._stop.value)

        return must_stop


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

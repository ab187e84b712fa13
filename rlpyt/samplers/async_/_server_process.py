"""What an action server does: it starts workers, and acts for them when the sampler says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.samplers._serve import Group
from rlpyt.samplers._split import WorkerSpec
from rlpyt.samplers._workers import StateExchange
from rlpyt.samplers.async_._servers import ServerSpec
from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin, prepare_sampler_process
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase
from rlpyt.samplers.parallel.worker import sampling_process
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.processes.launch import shared_memory_for
from rlpyt.utils.processes.primitives import Semaphore
from rlpyt.utils.processes.supervisor import Supervisor
from rlpyt.utils.types import Nested


class ActionServerProcess(AsyncParallelSamplerMixin, GpuSamplerBase):
    """The part of an asynchronous sampler which runs in the process of each action server."""

    _server_specs: list[ServerSpec]
    _server: ServerSpec

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
        self.pool = pool = Supervisor(self.start_method, self.worker_timeout_s)
        self._states = StateExchange(pool, len(n_envs_list))
        for barrier in (self.ctrl.barrier_in, self.ctrl.barrier_out):
            barrier.supervisor = pool
        self.sync = AttrDict(
            stop_eval=pool.context.RawValue("b", False),
            db_idx=self.sync.db_idx,
            obs_ready=[Semaphore(pool, released_by=rank) for rank in range(len(n_envs_list))],
            act_ready=[Semaphore(pool) for _ in n_envs_list],
        )
        n_eval_envs = self._server.eval_envs.stop - self._server.eval_envs.start
        if self.eval_n_envs > 0:
            self._share_evaluation(n_eval_envs, len(n_envs_list))
        with shared_memory_for(pool.context.get_start_method()):
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
        groups: Sequence[Group] = ()
        if not ctrl.do_eval.value:
            self.agent.sample_mode(itr)
            self.samples_np = self.double_buffer[self.sync.db_idx.value]
            self.serve_actions(itr)
            groups = self.training_groups()
        elif self._server.eval_envs.stop > self._server.eval_envs.start:
            self.agent.eval_mode(itr)
            self.serve_actions_evaluation(itr)
            groups = self.evaluation_groups()
        ctrl.barrier_out.wait()
        for group in groups:
            group.require_drained()
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
            worker_kwargs["sync"].heartbeat = self._heartbeats[worker_kwargs["rank"]]
        return workers_kwargs

    def _evaluation_kwargs(self, spec: WorkerSpec) -> dict[str, Any]:
        first = self._server.eval_envs.start
        shifted = WorkerSpec(spec.rank, spec.group, first + spec.start, first + spec.stop)
        return super()._evaluation_kwargs(shifted)

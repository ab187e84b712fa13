"""What workers are given: buffers, what they share with the sampler, and their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.samplers._split import WorkerSpec, split_envs
from rlpyt.samplers._workers import StateExchange, TrajInfoQueue
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel._affinity import count_workers, cpus_of_worker
from rlpyt.samplers.parallel.worker import NOTHING
from rlpyt.utils._subclassing import library_method, overrides
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import Heartbeat
from rlpyt.utils.processes.primitives import Barrier
from rlpyt.utils.processes.supervisor import Supervisor
from rlpyt.utils.types import Nested


class WorkerAssembly(BaseSampler):
    """The hooks by which samplers with workers differ, in the order in which they are called."""

    # Subclasses may call the constructor of BaseSampler only.
    start_method: str | None = None
    worker_timeout_s: float | None = 300.0
    example_subprocess: bool | None = None

    # Groups of workers which are stepped in turn.
    _n_groups = 1

    pool: Supervisor | None = None
    agent: Any
    seed: int
    rank: int
    ctrl: Any = None
    sync: Any
    samples_np: Nested
    traj_infos_queue: TrajInfoQueue
    eval_traj_infos_queue: TrajInfoQueue
    eval_specs: Sequence[WorkerSpec]
    eval_n_envs_per: int
    eval_max_T: int | None
    _heartbeats: list[Heartbeat]
    _states: StateExchange
    _traj_info_kwargs: dict[str, Any] = {}

    @property
    def _pool(self) -> Supervisor:
        """That of the workers; made here for those who call the hooks from their own initialize."""
        if self.pool is None:
            self.pool = Supervisor(self.start_method, self.worker_timeout_s)
        return self.pool

    def _get_n_envs_list(
        self, affinity: Any = None, n_worker: int | None = None, B: int | None = None
    ) -> list[int]:
        """Number of environments of each worker.

        Args:
            affinity: says how many workers there are, if ``n_worker`` does not.
            n_worker: number of workers; there are no more of them than environments.
            B: number of environments; the batch's if None.
        """
        B = self.batch_spec.B if B is None else B
        if n_worker is None:
            n_worker = count_workers(affinity)
        if n_worker > B:
            logger.log(f"WARNING: {n_worker} workers for {B} environments: only {B} are started.")
            n_worker = B
        n_envs_list = [spec.n_envs for spec in split_envs(B, n_worker, self._n_groups)]
        if len(set(n_envs_list)) > 1:
            logger.log(
                f"WARNING: {B} environments on {n_worker} workers are {n_envs_list}: the workers "
                "wait for the largest share."
            )
        return n_envs_list

    def _agent_init(
        self, agent: Any, env: Any, global_B: int = 1, env_ranks: list[int] | None = None
    ) -> None:
        """Initialize the agent before there are workers, with its model in shared memory."""
        agent.initialize(env.spaces, share_memory=True, global_B=global_B, env_ranks=env_ranks)
        self.agent = agent

    def _build_buffers(self, env: Any, bootstrap_value: bool) -> dict[str, Any]:
        """Make the shared batch; return the examples."""
        forks = self._pool.context.get_start_method() == "fork"
        self.samples_pyt, self.samples_np, examples = build_samples_buffer(
            self.agent,
            env,
            self.batch_spec,
            bootstrap_value,
            agent_shared=True,
            env_shared=True,
            subprocess=forks if self.example_subprocess is None else self.example_subprocess,
            next_observation=self.record_next_observation,
        )
        return examples

    def _build_parallel_ctrl(self, n_worker: int) -> None:
        """Make what sampler and workers share, and give the workers their shares of evaluation."""
        if self.eval_n_envs > 0:
            self._share_evaluation(self.eval_n_envs, n_worker)
            self.eval_max_T = self._eval_time_limit()
        self._share_control(n_worker, n_parties=n_worker + 1)

    def _share_evaluation(self, n_envs: int, n_worker: int) -> None:
        self.eval_specs = split_envs(n_envs, n_worker, self._n_groups)
        self.eval_n_envs_per = max(spec.n_envs for spec in self.eval_specs)

    def _share_control(self, n_worker: int, n_parties: int) -> None:
        """The same, where others but the workers and this process come to the barriers."""
        pool = self._pool
        context = pool.context
        self.ctrl = AttrDict(
            quit=context.RawValue("b", False),
            barrier_in=Barrier(pool, n_parties),
            barrier_out=Barrier(pool, n_parties),
            do_eval=context.RawValue("b", False),
            itr=context.RawValue("l", 0),
            state_task=context.RawValue("b", NOTHING),
        )
        self.traj_infos_queue = TrajInfoQueue(pool)
        self.eval_traj_infos_queue = TrajInfoQueue(pool)
        self.sync = AttrDict(stop_eval=context.RawValue("b", False))
        self._heartbeats = [pool.heartbeat() for _ in range(n_worker)]
        self._states = StateExchange(pool, n_worker)

    def _complete_control(self, n_worker: int) -> None:
        """Add to what a subclass made by itself what the workers of this library need.

        Barriers and queues are replaced by those which tell when a worker fails.
        """
        theirs = self.ctrl, self.sync
        library_method(self, "_build_parallel_ctrl")(n_worker)
        self.ctrl, self.sync = (
            AttrDict(**{**own, **ours}) for own, ours in zip(theirs, (self.ctrl, self.sync))
        )

    def _assemble_common_kwargs(self, affinity: Any, global_B: int = 1) -> dict[str, Any]:
        """What all workers are told."""
        common_kwargs: dict[str, Any] = dict(
            EnvCls=self.EnvCls,
            env_kwargs=self.env_kwargs,
            agent=self.agent,
            batch_T=self.batch_spec.T,
            CollectorCls=self.CollectorCls,
            TrajInfoCls=self.TrajInfoCls,
            traj_info_kwargs=self._traj_info_kwargs,
            traj_infos_queue=self.traj_infos_queue,
            ctrl=self.ctrl,
            max_decorrelation_steps=self.max_decorrelation_steps,
            torch_threads=affinity.get("worker_torch_threads", 1),
            global_B=global_B,
            is_quiet=logger._disabled,
        )
        if self.eval_n_envs > 0:
            own = self.eval_env_kwargs
            common_kwargs.update(
                eval_n_envs=self.eval_n_envs_per,
                eval_CollectorCls=self.eval_CollectorCls,
                eval_env_kwargs=self.env_kwargs if own is None else own,
                eval_max_T=self.eval_max_T,
                eval_traj_infos_queue=self.eval_traj_infos_queue,
            )
        return common_kwargs

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: Sequence[int]
    ) -> list[dict[str, Any]]:
        """What each worker is told."""
        first = self.rank * self.batch_spec.B
        workers_kwargs = []
        for spec in self._worker_specs(n_envs_list):
            worker_kwargs = dict(
                rank=spec.rank,
                env_ranks=list(range(first + spec.start, first + spec.stop)),
                seed=seed + spec.rank,
                envs_seed=seed,
                cpus=cpus_of_worker(affinity, spec.rank),
                n_envs=spec.n_envs,
                first_env=spec.start,
                samples_np=self.samples_np[:, spec.columns],
                sync=AttrDict(stop_eval=self.sync.stop_eval, heartbeat=self._heartbeats[spec.rank]),
                state_pipe=self._states.worker_ends[spec.rank],
                n_eval_envs=0,
            )
            if self.eval_n_envs > 0:
                worker_kwargs.update(self._evaluation_kwargs(self.eval_specs[spec.rank]))
            workers_kwargs.append(worker_kwargs)
        return workers_kwargs

    def _complete_shares(
        self, workers_kwargs: list[dict[str, Any]], *args: Any
    ) -> list[dict[str, Any]]:
        """Add to what a subclass tells workers what it does not know of; ``args`` as it had."""
        if not overrides(self, "_assemble_workers_kwargs"):
            return workers_kwargs
        known = library_method(self, "_assemble_workers_kwargs")(*args)
        return [
            {**ours, **own, "sync": AttrDict(**{**ours["sync"], **own.get("sync", {})})}
            for own, ours in zip(workers_kwargs, known)
        ]

    def _evaluation_kwargs(self, spec: WorkerSpec) -> dict[str, Any]:
        first = self.rank * self.eval_n_envs
        quota = self._eval_quota()
        return dict(
            n_eval_envs=spec.n_envs,
            first_eval_env=spec.start,
            eval_env_ranks=list(range(first + spec.start, first + spec.stop)),
            eval_quota=None if quota is None else quota[spec.columns],
        )

    def _worker_specs(self, n_envs_list: Sequence[int]) -> list[WorkerSpec]:
        """The shares of the workers, of their sizes."""
        specs, start = [], 0
        for rank, n_envs in enumerate(n_envs_list):
            group = rank * self._n_groups // len(n_envs_list)
            specs.append(WorkerSpec(rank, group, start, start + n_envs))
            start += n_envs
        return specs

"""Base class of samplers whose environments are spread over worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from rlpyt.core.protocols import AgentLike, EnvLike
from rlpyt.processes.child import Heartbeat
from rlpyt.processes.supervisor import Supervisor, WorkerError as WorkerError
from rlpyt.samplers._env_states import envs_without_state
from rlpyt.samplers._env_statistics import shared_statistics
from rlpyt.samplers.base import BaseSampler, configure_traj_infos, set_alternation
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel._channels import TrajInfoQueue, make_control
from rlpyt.samplers.parallel._division import (
    Offset,
    WorkerSpec,
    check_affinity,
    count_workers,
    n_envs_of_workers,
    share_of_evaluation,
    share_of_worker,
    split_envs,
    worker_specs,
)
from rlpyt.samplers.parallel.worker import sampling_process
from rlpyt.samplers.parallel.workers import Workers
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import check_names
from rlpyt.utils.seed import EnvStreams, make_seed
from rlpyt.utils.shared_array import get_context, shared_memory_for
from rlpyt.utils.types import Nested

EVAL_TRAJ_CHECK = 0.1  # Seconds between checks of how many trajectories an evaluation completed.


class ParallelSamplerBase(BaseSampler):
    """Base class of samplers whose worker processes write into shared batches.

    For the same seed and agent parameters, batches do not depend on the number of workers.
    Further arguments are as for :class:`~rlpyt.samplers.base.BaseSampler`.

    Args:
        start_method: start method of processes: "fork", "forkserver" or "spawn". None for the
            environment variable ``RLPYT_START_METHOD``, or else "fork" on Linux and "spawn"
            elsewhere.
        worker_timeout_s: seconds after which a worker counts as hanging in a single step, reset or
            construction of an environment, or in a whole batch of a collector that has a loop of
            its own; None for no limit.
        example_subprocess: whether to make the example step, which shows what the buffers hold, in
            a temporary process; None to do so where processes fork, since a fork may inherit broken
            locks from the thread pools that a step starts.
        on_worker_failure: "raise" to end the run with an error if a worker dies, raises or hangs;
            "restart" to restart it with the same seeds and fresh episodes, in which it collects
            its columns of the current batch anew while the others wait.
        max_restarts_per_hour: number of worker restarts in an hour, in one process; one more
            failure ends the run.

    Attributes:
        n_worker: number of worker processes.
        workers: worker processes.
        ctrl: barriers and flags shared with all workers: ``barrier_in`` and ``barrier_out`` before
            and after every task, and the task: ``quit``, ``do_eval``, ``itr``.
        sync: values shared during a task: ``stop_eval`` ends an evaluation, ``db_idx`` is the index
            of the batch to fill if there are two.
        double_buffer: both batches [T,B,...] of an asynchronous sampler; None for a single one.
        supervisor: supervisor that starts, watches and ends the processes; None before the start
            and after the end.
    """

    # Subclasses may call the constructor of BaseSampler only.
    start_method: str | None = None
    worker_timeout_s: float | None = 300.0
    example_subprocess: bool | None = None
    on_worker_failure = "raise"
    max_restarts_per_hour = 10

    n_worker: int
    workers: list[Any]
    supervisor: Supervisor | None = None
    agent: AgentLike
    seed: int
    rank: int
    ctrl: Any = None
    sync: Any
    samples_pyt: Nested
    samples_np: Nested
    double_buffer: Any = None
    traj_infos_queue: TrajInfoQueue
    eval_traj_infos_queue: TrajInfoQueue
    eval_specs: Sequence[WorkerSpec]
    eval_n_envs_per: int
    eval_max_T: int | None

    # Each action server of an asynchronous sampler begins at another one.
    _first = Offset()
    _traj_info_kwargs: dict[str, Any] = {}
    _heartbeats: list[Heartbeat]
    _workers: Workers
    # Columns of the last batch whose workers were restarted.
    _restarted: set[int] = set()

    def __init__(
        self,
        *args: Any,
        start_method: str | None = None,
        worker_timeout_s: float | None = 300.0,
        example_subprocess: bool | None = None,
        on_worker_failure: str = "raise",
        max_restarts_per_hour: int = 10,
        **kwargs: Any,
    ) -> None:
        check_names(type(self), kwargs)
        super().__init__(*args, **kwargs)
        self.start_method = start_method
        self.worker_timeout_s = worker_timeout_s
        self.example_subprocess = example_subprocess
        if on_worker_failure not in ("raise", "restart"):
            raise ValueError(
                f"on_worker_failure is {on_worker_failure!r}: choose 'raise' or 'restart'"
            )
        if max_restarts_per_hour < 0:
            raise ValueError(f"max_restarts_per_hour is {max_restarts_per_hour}: give 0 or more")
        self.on_worker_failure = on_worker_failure
        self.max_restarts_per_hour = max_restarts_per_hour
        self._check_settings()

    # --- Start ------------------------------------------------------------------------------------

    def initialize(
        self,
        agent: AgentLike,
        affinity: Any,
        seed: int | None,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        world_size: int = 1,
        rank: int = 0,
        worker_process: Callable[..., Any] | None = None,
    ) -> dict[str, Any]:
        """Initialize the agent, make shared buffers, and start the workers.

        Args:
            agent: agent to initialize with the spaces of the environments.
            affinity: ``workers_cpus``, with an entry for each worker: a CPU, a list of CPUs, or
                None; or else the number of workers, which then run anywhere. Workers are not pinned
                if ``set_affinity`` is False. ``worker_torch_threads`` is 1 if not given.
            seed: seed from which the environments' seeds are derived, by their indexes over all
                processes; drawn if None.
            bootstrap_value: whether to record the agent's value after the last step of a batch.
            traj_info_kwargs: attributes ``_<name>`` of ``TrajInfoCls`` to set in all processes.
            world_size: number of processes that sample the same way.
            rank: index of this process among them.
            worker_process: function of ``common_kwargs`` and ``worker_kwargs`` to run in a worker;
                None for :func:`~rlpyt.samplers.parallel.worker.sampling_process`.

        Returns:
            Examples of what the buffers hold, see
            :func:`~rlpyt.samplers.buffer.build_samples_buffer`.

        Raises:
            ValueError: if the affinity names CPUs that may not be used.
            WorkerError: if a worker fails while it starts.
        """
        if self.supervisor is not None:
            self.shutdown()
        set_alternation(self, agent)
        check_affinity(affinity)
        self.rank, self.world_size = rank, world_size
        self.seed = make_seed() if seed is None else seed
        self._traj_info_kwargs = traj_info_kwargs or {}
        n_envs_list = self._get_n_envs_list(affinity=affinity)
        if self.eval_n_envs > 0 and self._needs_equal_shares(worker_process):
            n_worker = len(n_envs_list)
            self.eval_n_envs = n_worker * max(1, self.eval_n_envs // n_worker)
        B = self.batch_spec.B
        first = rank * B
        with shared_memory_for(get_context(self.start_method).get_start_method()):
            with EnvStreams():
                env = self._example_env(first)
            # Closed before the start, since some hold resources that processes should not inherit.
            with closing(env):
                env_ranks = list(range(first, first + B))
                self._agent_init(agent, env, global_B=B * world_size, env_ranks=env_ranks)
                self.examples = examples = self._build_buffers(env, bootstrap_value)
                self._statistics = shared_statistics(env, B)
            del env
        self._start(affinity, n_envs_list, B * world_size, worker_process)
        logger.log(f"{type(self).__name__} initialized with {self.n_worker} workers.")
        return examples

    def _start(
        self,
        affinity: Any,
        n_envs_list: Sequence[int],
        global_B: int,
        worker_process: Callable[..., Any] | None = None,
        agent: AgentLike | None = None,
    ) -> None:
        """Start the workers, once there are an agent and buffers.

        ``agent`` is that of earlier workers, since ours may be on another device by now.
        """
        self._started_with = affinity, n_envs_list, global_B, worker_process
        self.n_worker = len(n_envs_list)
        supervisor = self._supervisor
        with supervisor.task():
            with shared_memory_for(supervisor.context.get_start_method()):
                self._build_parallel_ctrl(self.n_worker)
            configure_traj_infos(self.TrajInfoCls, self._traj_info_kwargs)
            common_kwargs = self._assemble_common_kwargs(affinity, global_B=global_B)
            common_kwargs["agent"] = agent or common_kwargs["agent"]
            workers_kwargs = self._assemble_workers_kwargs(affinity, self.seed, n_envs_list)
            restarts = self.max_restarts_per_hour if self.on_worker_failure == "restart" else None
            process = worker_process or sampling_process
            self._workers.start(process, common_kwargs, workers_kwargs, self._heartbeats, restarts)
            self.workers = self._workers.processes
            self._workers.finish_task()  # All environments are started.
        self._workers.restarted.clear()

    def _needs_equal_shares(self, worker_process: Callable[..., Any] | None) -> bool:
        """Return whether all workers evaluate in the same number of environments, at least one.

        So it was in rlpyt 0.1.2, and code that replaces ours may count on it.
        """
        return worker_process is not None

    @property
    def _n_groups(self) -> int:
        """Number of groups of workers that are stepped in turn."""
        return 2 if self.alternating else 1

    # --- Hooks of the start, in the order of their calls ------------------------------------------

    @property
    def _supervisor(self) -> Supervisor:
        """Supervisor, made here for subclasses that call the hooks from their own initialize."""
        if self.supervisor is None:
            self.supervisor = Supervisor(self.start_method, self.worker_timeout_s)
        return self.supervisor

    def _get_n_envs_list(
        self, affinity: Any = None, n_worker: int | None = None, B: int | None = None
    ) -> list[int]:
        """Return each worker's number of environments.

        Args:
            affinity: affinity that gives the number of workers, if ``n_worker`` does not.
            n_worker: number of workers; reduced to one for each environment.
            B: number of environments; None for ``batch_B``.
        """
        n_worker = count_workers(affinity) if n_worker is None else n_worker
        B = self.batch_spec.B if B is None else B
        return n_envs_of_workers(B, n_worker, self._n_groups)

    def _agent_init(
        self, agent: AgentLike, env: EnvLike, global_B: int = 1, env_ranks: list[int] | None = None
    ) -> None:
        """Initialize the agent, whose model the workers share."""
        agent.initialize(env.spaces, share_memory=True, global_B=global_B, env_ranks=env_ranks)
        self.agent = agent

    def _build_buffers(self, env: EnvLike, bootstrap_value: bool) -> dict[str, Any]:
        """Make the shared batch; return the examples."""
        forks = get_context(self.start_method).get_start_method() == "fork"
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
        """Make the barriers, flags and queues of all processes, and divide the evaluation."""
        supervisor = self._supervisor
        self.ctrl = make_control(supervisor, n_parties=1 + n_worker)
        self.traj_infos_queue = TrajInfoQueue(supervisor, n_worker)
        self.eval_traj_infos_queue = TrajInfoQueue(supervisor, n_worker)
        context = supervisor.context
        self.sync = AttrDict(
            stop_eval=context.RawValue("b", False), db_idx=context.RawValue("i", 0)
        )
        self._restarted = set()
        self._heartbeats = [Heartbeat(context) for _ in range(n_worker)]
        self._workers = Workers(supervisor, self.ctrl, n_worker)
        if self.eval_n_envs > 0:
            self.eval_max_T = self._eval_time_limit()
            self._divide_evaluation(self.eval_n_envs, n_worker)

    def _divide_evaluation(self, n_envs: int, n_worker: int) -> None:
        self.eval_specs = split_envs(n_envs, n_worker, self._n_groups)
        self.eval_n_envs_per = max(spec.n_envs for spec in self.eval_specs)

    def _assemble_common_kwargs(self, affinity: Any, global_B: int = 1) -> dict[str, Any]:
        """Return the arguments that are the same for all workers."""
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
            is_quiet=logger.current().disabled,
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
        """Return the arguments of each worker."""
        quota = self._eval_quota()
        workers_kwargs = []
        for spec in worker_specs(n_envs_list, self._n_groups):
            n_before = self.rank * self.batch_spec.B
            worker_kwargs = share_of_worker(spec, self._first, n_before, affinity, seed)
            both = self.double_buffer and tuple(
                batch[:, spec.columns] for batch in self.double_buffer
            )
            worker_kwargs.update(
                samples_np=both or self.samples_np[:, spec.columns],
                double_buffer=both,
                statistics=self._statistics,
                sync=AttrDict(self.sync, heartbeat=self._heartbeats[spec.rank]),
                n_eval_envs=0,
            )
            if self.eval_n_envs > 0:
                eval_spec, n_before = self.eval_specs[spec.rank], self.rank * self.eval_n_envs
                worker_kwargs.update(share_of_evaluation(eval_spec, self._first, n_before, quota))
            workers_kwargs.append(worker_kwargs)
        return workers_kwargs

    # --- Work -------------------------------------------------------------------------------------

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch; see :meth:`BaseSampler.obtain_samples`.

        Raises:
            WorkerError: if a worker fails.
        """
        self._check_started()
        self._prepare_agent(itr, to_evaluate=False)
        with self._supervisor.task():
            self.ctrl.itr.value = itr
            self._workers.do_task(lambda: self._during_batch(itr), lambda: self._collect_again(itr))
            self._restarted = self._workers.end_batch(self.batch_spec.T)
            return self.samples_pyt, self.traj_infos_queue.take()

    def take_restarted(self) -> list[int]:
        restarted, self._restarted = self._restarted, set()
        return sorted(restarted)

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation in the workers, and return its trajectory infos.

        The evaluation is repeated if a worker is restarted meanwhile.

        Raises:
            ValueError: if the sampler has no evaluation environments.
            WorkerError: if a worker fails.
        """
        self._check_started(to_evaluate=True)
        self._prepare_agent(itr, to_evaluate=True)
        infos = self._evaluate(itr)
        limit = self.eval_max_trajectories or self.eval_n_episodes
        at_limit = ", the limit" if limit is not None and len(infos) >= limit else ""
        logger.log(f"Evaluation ended with {len(infos)} trajectories{at_limit}.")
        return infos

    def _evaluate(self, itr: int) -> list[Any]:
        while True:
            self.ctrl.eval_again.value = False
            infos = self._evaluate_once(itr)
            if not self.ctrl.eval_again.value:
                return infos
            logger.log("The evaluation is repeated, since a worker was restarted.")

    def _evaluate_once(self, itr: int) -> list[Any]:
        infos: list[Any] = []
        with self._supervisor.task():
            self.ctrl.itr.value = itr
            self.sync.stop_eval.value = False
            if self._supervisor.restarted:
                self.ctrl.eval_again.value = True
            for heartbeat in self._heartbeats:
                heartbeat.values[Heartbeat.STEPS] = 0
            self.ctrl.do_eval.value = True
            self._workers.do_task(lambda: infos.extend(self._during_evaluation(itr)))
            infos += self.eval_traj_infos_queue.take(self.eval_max_trajectories)
            self.ctrl.do_eval.value = False
        return infos

    def stop_evaluation(self) -> None:
        self.sync.stop_eval.value = True

    def _check_started(self, to_evaluate: bool = False) -> None:
        super()._check_started(to_evaluate)
        if self.supervisor is None:
            raise ValueError("the sampler has been shut down: initialize it again")

    def _prepare_agent(self, itr: int, to_evaluate: bool) -> None:
        """Prepare the agent before the workers begin."""

    def _during_batch(self, itr: int) -> None:
        """Work in this process while the workers collect."""

    def _collect_again(self, itr: int) -> None:
        """Work in this process while restarted workers collect and others wait."""
        self._during_batch(itr)

    def _during_evaluation(self, itr: int) -> list[Any]:
        """Wait for the limit of trajectories; return infos taken out of the queue meanwhile."""
        limit = self._limit_for_workers()
        if limit is not None:
            busy = [self._heartbeats[spec.rank] for spec in self.eval_specs if spec.n_envs]
            queue, stop = self.eval_traj_infos_queue, self.sync.stop_eval
            self._workers.stop_at_limit(queue, limit, busy, stop, EVAL_TRAJ_CHECK)
        return []

    def _limit_for_workers(self) -> int | None:
        """Return the number of trajectories at which the sampler stops its workers, if any."""
        return self.eval_max_trajectories

    # --- End --------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End all processes: between batches by request, otherwise by force."""
        supervisor, self.supervisor = self.supervisor, None
        if supervisor is None:
            return
        if self.ctrl is None:  # The start failed.
            supervisor.terminate()
            return
        start, end = self.ctrl.barrier_in, self.ctrl.barrier_out
        # Workers have finished their last task, and this process has given none since.
        if not supervisor.is_over and end.opened_at > start.opened_at:
            self.ctrl.quit.value = True
            for barrier in (start, end):  # One that was restarted waits at the end.
                barrier.open_for_all()
            supervisor.join()
        supervisor.terminate()

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Fetch and return the state of every worker; add the columns just restarted."""
        self._check_started()
        states = self._workers.get_states()
        return {"workers": states, "restarted": sorted(self._workers.restarted)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore ``state``; the sampler must be initialized with as many workers.

        Workers that an error has ended are started again.

        Raises:
            ValueError: if ``state`` belongs to another kind of sampler, or to other numbers of
                workers or environments.
        """
        self._check_started()
        if self._supervisor.is_over:
            agent = self._workers.agent
            self.shutdown()
            self._start(*self._started_with, agent)
        self._workers.set_states(state.get("workers", ()))
        self._workers.restarted.update(state.get("restarted", ()))

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        return envs_without_state(env for worker in state["workers"] for env in worker["envs"])

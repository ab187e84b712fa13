"""What samplers with workers have in common: starting, meeting, watching and ending them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rlpyt.samplers.base import check_recurrence, configure_traj_infos, make_env
from rlpyt.samplers.parallel._affinity import check_affinity
from rlpyt.samplers.parallel._assembly import WorkerAssembly
from rlpyt.samplers.parallel._enough import stop_at_limit
from rlpyt.samplers.parallel.worker import GIVE_STATE, NOTHING, TAKE_STATE, sampling_process
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import Heartbeat
from rlpyt.utils.processes.launch import shared_memory_for
from rlpyt.utils.processes.supervisor import Supervisor, WorkerError as WorkerError
from rlpyt.utils.seed import make_seed

EVAL_TRAJ_CHECK = 0.1  # Seconds between looks at how many trajectories an evaluation completed.


class ParallelSamplerBase(WorkerAssembly):
    """Spreads the environments over worker processes, which write into shared batches.

    For the same seed and an agent which acts deterministically, batches do not depend on the number
    of workers.

    Args:
        *args: of :class:`~rlpyt.samplers.base.BaseSampler`.
        start_method: of processes: "fork", "forkserver" or "spawn". None for the environment
            variable ``RLPYT_START_METHOD``, or else "fork" on Linux and "spawn" elsewhere.
        worker_timeout_s: how long a single step, reset or construction of an environment may take
            before the worker counts as hanging; None for no limit. With a collector which has a
            loop of its own it is the time of a whole batch.
        example_subprocess: make the example step, which shows what the buffers hold, in a temporary
            process; None to do so where processes fork, since a fork may inherit broken locks from
            the thread pools which a step starts.
        **kwargs: of :class:`~rlpyt.samplers.base.BaseSampler`.

    Attributes:
        n_worker: number of worker processes.
        workers: the processes.
        ctrl: what sampler and all workers share: ``barrier_in`` and ``barrier_out``, where they
            meet before and after every task, and the task: ``quit``, ``do_eval``, ``itr``.
        sync: what is shared about a task: ``stop_eval`` ends an evaluation.
        pool: starts, watches and ends the processes.
    """

    n_worker: int
    workers: list[Any]

    def __init__(
        self,
        *args: Any,
        start_method: str | None = None,
        worker_timeout_s: float | None = 300.0,
        example_subprocess: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.start_method = start_method
        self.worker_timeout_s = worker_timeout_s
        self.example_subprocess = example_subprocess
        self._check_settings()

    # --- Start -------------------------------------------------------------------------------

    def initialize(
        self,
        agent: Any,
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
            agent: is initialized with the spaces of the environments.
            affinity: ``workers_cpus``, with an entry for each worker: a CPU, a list of CPUs, or
                None; or else the number of workers, which then run anywhere. Workers are not pinned
                if ``set_affinity`` is False. ``worker_torch_threads`` is 1 if not given.
            seed: the environment of global index i gets ``seed + i``; evaluation is offset.
            bootstrap_value: record the agent's value after the last step of a batch.
            traj_info_kwargs: set as attributes ``_<name>`` of ``TrajInfoCls``, in all processes.
            world_size: processes which sample the same way.
            rank: of this process among them.
            worker_process: what a worker does, called with ``common_kwargs`` and ``worker_kwargs``;
                None for :func:`~rlpyt.samplers.parallel.worker.sampling_process`.

        Returns:
            Examples of what the buffers hold, see
            :func:`~rlpyt.samplers.buffer.build_samples_buffer`.

        Raises:
            ValueError: if the affinity names CPUs which may not be used.
            WorkerError: if a worker fails while it starts.
        """
        if self.pool is not None:
            self.shutdown()
        check_recurrence(self, agent)
        self.rank, self.world_size = rank, world_size
        self.seed = make_seed() if seed is None else seed
        self._traj_info_kwargs = traj_info_kwargs or {}
        check_affinity(affinity)
        n_envs_list = self._get_n_envs_list(affinity=affinity)
        self.n_worker = len(n_envs_list)
        B = self.batch_spec.B
        self.pool = Supervisor(self.start_method, self.worker_timeout_s)
        with self.pool.task():
            with shared_memory_for(self.pool.context.get_start_method()):
                examples = self._make_shared(agent, bootstrap_value)
            configure_traj_infos(self.TrajInfoCls, self._traj_info_kwargs)
            common_kwargs = self._assemble_common_kwargs(affinity, global_B=B * world_size)
            division = affinity, self.seed, n_envs_list
            shares = self._assemble_workers_kwargs(*division)
            self._shares = self._complete_shares(shares, *division)
            self.workers = [
                self._start_worker(worker_process or sampling_process, common_kwargs, share)
                for share in self._shares
            ]
            self.ctrl.barrier_out.wait()  # All environments are started.
        logger.log(f"{type(self).__name__} initialized with {self.n_worker} workers.")
        return examples

    def _make_shared(self, agent: Any, bootstrap_value: bool) -> dict[str, Any]:
        """Initialize the agent and make what all processes share; return the examples."""
        B = self.batch_spec.B
        first = self.rank * B
        env = make_env(self.EnvCls, self.env_kwargs, 0, first)
        try:
            env_ranks = list(range(first, first + B))
            self._null_action = env.action_space.null_value()
            self._agent_init(agent, env, global_B=B * self.world_size, env_ranks=env_ranks)
            examples = self._build_buffers(env, bootstrap_value)
        finally:
            env.close()  # Some hold resources which processes should not inherit.
        del env
        self._heartbeats = []
        self._build_parallel_ctrl(self.n_worker)
        if not self._heartbeats:
            self._complete_control(self.n_worker)
        return examples

    def _start_worker(self, target: Any, common_kwargs: Any, worker_kwargs: Any) -> Any:
        ranks = worker_kwargs["env_ranks"]
        return self._pool.start(
            target,
            {"common_kwargs": common_kwargs, "worker_kwargs": worker_kwargs},
            label=f"worker {worker_kwargs['rank']} (environments {ranks[0]} to {ranks[-1]})",
            heartbeat=self._heartbeats[worker_kwargs["rank"]],
        )

    # --- Work ----------------------------------------------------------------------------------

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch; see :meth:`BaseSampler.obtain_samples`.

        Raises:
            WorkerError: if a worker fails.
        """
        self._check_started()
        self._prepare_agent(itr, to_evaluate=False)
        with self._pool.task():
            self.ctrl.itr.value = itr
            self.ctrl.barrier_in.wait()
            self._during_batch(itr)
            self.ctrl.barrier_out.wait()
        return self.samples_pyt, self.traj_infos_queue.take()

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation in the workers, and return its trajectory infos.

        Raises:
            ValueError: if the sampler has no evaluation environments.
            WorkerError: if a worker fails.
        """
        self._check_started(to_evaluate=True)
        self._prepare_agent(itr, to_evaluate=True)
        with self._pool.task():
            self.ctrl.itr.value = itr
            self.sync.stop_eval.value = False
            for heartbeat in self._heartbeats:
                heartbeat.values[Heartbeat.STEPS] = 0
            self.ctrl.do_eval.value = True
            self.ctrl.barrier_in.wait()
            infos = self._during_evaluation(itr)
            self.ctrl.barrier_out.wait()
            self.ctrl.do_eval.value = False
        infos += self.eval_traj_infos_queue.take(self.eval_max_trajectories)
        self._log_evaluation(len(infos))
        return infos

    def _check_started(self, to_evaluate: bool = False) -> None:
        super()._check_started(to_evaluate)
        if self.pool is None:
            raise ValueError("the sampler has been shut down: initialize it again")

    def _prepare_agent(self, itr: int, to_evaluate: bool) -> None:
        """What this process does before the workers begin."""

    def _during_batch(self, itr: int) -> None:
        """What this process does while the workers collect."""

    def _during_evaluation(self, itr: int) -> list[Any]:
        """What this process does while the workers evaluate: see when there are enough.

        Returns:
            Trajectory infos which were taken out of the queue meanwhile.
        """
        limit = self._limit_for_workers()
        if limit is None:
            return []
        stop_at_limit(
            self._pool,
            self.eval_traj_infos_queue,
            limit,
            [self._heartbeats[spec.rank] for spec in self.eval_specs if spec.n_envs],
            self.ctrl.barrier_out,
            self.sync.stop_eval,
            EVAL_TRAJ_CHECK,
        )
        return []

    def _limit_for_workers(self) -> int | None:
        """The number of trajectories at which workers have to be told to stop, if there is one."""
        return self.eval_max_trajectories

    def _log_evaluation(self, n_trajs: int) -> None:
        limit = self.eval_max_trajectories or self.eval_n_episodes
        reached = "trajectories" if limit is not None and n_trajs >= limit else "time steps"
        logger.log(f"Evaluation ended at its limit of {reached}: {n_trajs} trajectories.")

    # --- End -----------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End all processes: those which are between batches by themselves, others by force."""
        pool, self.pool = self.pool, None
        if pool is None:
            return
        if not pool.is_over and self._is_between_batches():
            self.ctrl.quit.value = True
            # All others may be there before, so that nobody has to be waited for.
            self.ctrl.barrier_in.arrive()
            pool.join()
        pool.terminate()
        if self.ctrl is not None:  # It was not the start that failed.
            self.traj_infos_queue.close()
            self.eval_traj_infos_queue.close()

    def _is_between_batches(self) -> bool:
        """Whether all workers have come out of their last task, and none has been given since."""
        ctrl = self.ctrl
        return (
            ctrl is not None
            and ctrl.barrier_out.generation == ctrl.barrier_in.generation + 1
            and ctrl.barrier_in.n_waiting < ctrl.barrier_in.parties
        )

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every worker, fetched from there."""
        return {"workers": self._exchange_state(GIVE_STATE)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``; the sampler must be initialized with as many workers.

        Raises:
            ValueError: if ``state`` is of another kind of sampler, or of other numbers.
        """
        saved = [(len(w["envs"]), len(w["eval_envs"])) for w in state.get("workers", ())]
        own = [(kwargs["n_envs"], kwargs["n_eval_envs"]) for kwargs in self._shares]
        if saved != own:
            raise ValueError(
                f"the saved sampler had workers of {saved} environments (training, evaluation), "
                f"this one has {own}: resume with the same sampler, sizes and number of workers"
            )
        self._exchange_state(TAKE_STATE, state["workers"])

    def _exchange_state(self, task: int, states: Iterable[Any] = ()) -> list[Any]:
        self._check_started()
        with self._pool.task():
            self.ctrl.state_task.value = task
            self.ctrl.barrier_in.wait()
            self._states.distribute(states)
            collected = self._states.collect() if task == GIVE_STATE else []
            self.ctrl.barrier_out.wait()
            self.ctrl.state_task.value = NOTHING
        return collected

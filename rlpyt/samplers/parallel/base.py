"""What samplers with workers have in common: starting, meeting, watching and ending them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rlpyt.samplers._collect import LoopEvalCollector
from rlpyt.samplers._split import WorkerSpec, split_envs
from rlpyt.samplers._workers import StateExchange, TrajInfoQueue
from rlpyt.samplers.base import BaseSampler, make_env
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel.worker import GIVE_STATE, NOTHING, TAKE_STATE, sampling_process
from rlpyt.utils._pool import LifeSign, ProcessPool
from rlpyt.utils._processes import check_cpus, sharing_with
from rlpyt.utils._rendezvous import Rendezvous
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import make_seed

EVAL_TRAJ_CHECK = 0.1  # Seconds between looks at how many trajectories an evaluation completed.


class ParallelSamplerBase(BaseSampler):
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

    # Subclasses may call the constructor of BaseSampler only.
    start_method: str | None = None
    worker_timeout_s: float | None = 300.0
    example_subprocess: bool | None = None

    # Groups of workers which are stepped in turn.
    _n_groups = 1

    pool: ProcessPool | None = None
    agent: Any
    n_worker: int
    workers: list[Any]
    ctrl: Any
    sync: Any
    eval_specs: Sequence[WorkerSpec]
    eval_max_T: int | None

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
        self._check_evaluation()

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
        self.shutdown()
        self.rank, self.world_size = rank, world_size
        self.seed = make_seed() if seed is None else seed
        self._traj_info_kwargs = traj_info_kwargs or {}
        self._check_affinity(affinity)
        n_envs_list = self._get_n_envs_list(affinity=affinity)
        self.n_worker = len(n_envs_list)
        B = self.batch_spec.B
        if self.eval_n_envs > 0:
            self.eval_specs = split_envs(self.eval_n_envs, self.n_worker, self._n_groups)
            self.eval_max_T = self._eval_time_limit()
        self.pool = ProcessPool(self.start_method, self.worker_timeout_s)
        with sharing_with(self.pool.context.get_start_method()):
            env = make_env(self.EnvCls, self.env_kwargs, 0, rank * B)
            env_ranks = list(range(rank * B, (rank + 1) * B))
            self._agent_init(agent, env, global_B=B * world_size, env_ranks=env_ranks)
            examples = self._build_buffers(env, bootstrap_value)
            env.close()
            del env  # Some hold resources which processes should not inherit.
            self._build_parallel_ctrl(self.n_worker)
        for name, value in self._traj_info_kwargs.items():
            setattr(self.TrajInfoCls, "_" + name, value)
        common_kwargs = self._assemble_common_kwargs(affinity, global_B=B * world_size)
        workers_kwargs = self._assemble_workers_kwargs(affinity, self.seed, n_envs_list)
        self._shares = workers_kwargs
        self.workers = [
            self._start_worker(worker_process or sampling_process, common_kwargs, worker_kwargs)
            for worker_kwargs in workers_kwargs
        ]
        self.ctrl.barrier_out.wait()  # All environments are started.
        logger.log(f"{type(self).__name__} initialized with {self.n_worker} workers.")
        return examples

    def _start_worker(self, target: Any, common_kwargs: Any, worker_kwargs: Any) -> Any:
        ranks = worker_kwargs["env_ranks"]
        return self._pool.start(
            target,
            {"common_kwargs": common_kwargs, "worker_kwargs": worker_kwargs},
            label=f"worker {worker_kwargs['rank']} (environments {ranks[0]} to {ranks[-1]})",
            life=self._lives[worker_kwargs["rank"]],
        )

    @property
    def _pool(self) -> ProcessPool:
        if self.pool is None:
            raise ValueError("the sampler is not initialized, or has been shut down: initialize it")
        return self.pool

    def _check_affinity(self, affinity: Any) -> None:
        workers_cpus = None if affinity is None else affinity.get("workers_cpus")
        if workers_cpus is None or (isinstance(workers_cpus, Sequence) and not workers_cpus):
            raise ValueError(
                f"the affinity has workers_cpus {workers_cpus}: give a list with the CPU (or list "
                "of CPUs) of each worker, as in dict(workers_cpus=[0, 1]), or the number of workers"
            )
        if affinity.get("set_affinity", True) and not isinstance(workers_cpus, int):
            named = {int(cpu) for cpus in workers_cpus for cpu in _as_list(cpus)}
            check_cpus(sorted(named))

    # --- Hooks of subclasses -------------------------------------------------------------------

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
            workers_cpus = affinity["workers_cpus"]
            n_worker = workers_cpus if isinstance(workers_cpus, int) else len(workers_cpus)
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
        """Make what sampler and workers share."""
        self._share_control(n_worker, n_parties=n_worker + 1)

    def _share_control(self, n_worker: int, n_parties: int) -> None:
        """The same, where others but the workers and this process come to the barriers."""
        pool = self._pool
        context = pool.context
        self.ctrl = AttrDict(
            quit=context.RawValue("b", False),
            barrier_in=Rendezvous(pool, n_parties),
            barrier_out=Rendezvous(pool, n_parties),
            do_eval=context.RawValue("b", False),
            itr=context.RawValue("l", 0),
            state_task=context.RawValue("b", NOTHING),
        )
        self.traj_infos_queue = TrajInfoQueue(pool)
        self.eval_traj_infos_queue = TrajInfoQueue(pool)
        self.sync = AttrDict(stop_eval=context.RawValue("b", False))
        self._lives = [pool.life_sign() for _ in range(n_worker)]
        self._states = StateExchange(pool, n_worker)

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
            seed=self.seed,
            is_quiet=logger._disabled,
        )
        if self.eval_n_envs > 0:
            own = self.eval_env_kwargs
            common_kwargs.update(
                eval_n_envs=max(spec.n_envs for spec in self.eval_specs),
                eval_CollectorCls=self._eval_collector_class(),
                eval_env_kwargs=self.env_kwargs if own is None else own,
                eval_max_T=self.eval_max_T,
                eval_traj_infos_queue=self.eval_traj_infos_queue,
            )
        return common_kwargs

    def _eval_collector_class(self) -> Any:
        CollectorCls = self.eval_CollectorCls
        knows_quota = isinstance(CollectorCls, type) and issubclass(CollectorCls, LoopEvalCollector)
        if self.eval_n_episodes is not None and not knows_quota:
            raise ValueError(
                f"eval_n_episodes is {self.eval_n_episodes}, but {CollectorCls} does not know how "
                "to count episodes: use an evaluation collector of the library, or "
                "eval_max_trajectories"
            )
        return CollectorCls

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: Sequence[int]
    ) -> list[dict[str, Any]]:
        """What each worker is told."""
        workers_cpus = affinity["workers_cpus"]
        is_pinned = affinity.get("set_affinity", True) and not isinstance(workers_cpus, int)
        first = self.rank * self.batch_spec.B
        workers_kwargs = []
        for spec in self._worker_specs(n_envs_list):
            worker_kwargs = dict(
                rank=spec.rank,
                env_ranks=list(range(first + spec.start, first + spec.stop)),
                seed=seed + spec.rank,
                cpus=workers_cpus[spec.rank] if is_pinned else None,
                n_envs=spec.n_envs,
                first_env=spec.start,
                samples_np=self.samples_np[:, spec.columns],
                sync=AttrDict(stop_eval=self.sync.stop_eval, life=self._lives[spec.rank]),
                state_pipe=self._states.worker_ends[spec.rank],
                n_eval_envs=0,
            )
            if self.eval_n_envs > 0:
                worker_kwargs.update(self._evaluation_kwargs(self.eval_specs[spec.rank]))
            workers_kwargs.append(worker_kwargs)
        return workers_kwargs

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

    # --- Work ----------------------------------------------------------------------------------

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch; see :meth:`BaseSampler.obtain_samples`.

        Raises:
            WorkerError: if a worker fails.
        """
        self._pool.check()
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
        if self.eval_n_envs < 1:
            raise ValueError(
                f"eval_n_envs is {self.eval_n_envs}, so there is nothing to evaluate in: give the "
                "sampler eval_n_envs >= 1, eval_env_kwargs and eval_max_steps"
            )
        self._pool.check()
        self.ctrl.itr.value = itr
        self.sync.stop_eval.value = False
        for life in self._lives:
            life.values[LifeSign.STEPS] = 0
        self.ctrl.do_eval.value = True
        self.ctrl.barrier_in.wait()
        self._during_evaluation(itr)
        self.ctrl.barrier_out.wait()
        self.ctrl.do_eval.value = False
        infos = self.eval_traj_infos_queue.take(self.eval_max_trajectories)
        self._log_evaluation(len(infos))
        return infos

    def _during_batch(self, itr: int) -> None:
        """What this process does while the workers collect."""

    def _during_evaluation(self, itr: int) -> None:
        """What this process does while the workers evaluate: see when there are enough."""
        limit = self._limit_for_workers()
        if limit is None:
            return
        busy = [self._lives[spec.rank] for spec in self.eval_specs if spec.n_envs]

        def is_settled(block: bool = True, timeout: float | None = None) -> bool:
            # The steps first: what was completed in them has been counted by then.
            n_steps = min(life.values[LifeSign.STEPS] for life in busy)
            self.eval_traj_infos_queue.receive()
            last = self.eval_traj_infos_queue.time_of(limit)
            if self.ctrl.barrier_out.n_waiting == self.ctrl.barrier_out.parties - 1:
                return True
            if last is not None and n_steps > last:
                self.sync.stop_eval.value = True
                return True
            time.sleep(EVAL_TRAJ_CHECK)
            return False

        self._pool.wait_for(is_settled)

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
            self.ctrl.barrier_in.leave()
            pool.join()
        pool.terminate()
        for queue in (self.traj_infos_queue, self.eval_traj_infos_queue):
            queue.close()

    def _is_between_batches(self) -> bool:
        """Whether all workers have come out of their last task, and none has been given since."""
        ctrl = self.__dict__.get("ctrl")
        return (
            ctrl is not None
            and ctrl.barrier_out.n_meetings == ctrl.barrier_in.n_meetings + 1
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
        self._pool.check()
        self.ctrl.state_task.value = task
        self.ctrl.barrier_in.wait()
        self._states.distribute(states)
        collected = self._states.collect() if task == GIVE_STATE else []
        self.ctrl.barrier_out.wait()
        self.ctrl.state_task.value = NOTHING
        return collected


def _as_list(cpus: Any) -> list[Any]:
    if cpus is None:
        return []
    return [cpus] if isinstance(cpus, int) else list(cpus)

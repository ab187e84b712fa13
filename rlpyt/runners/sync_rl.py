"""The synchronous loop in several processes, each with its own agent, algorithm and sampler.

Every process (a rank) samples and trains the same way, and gradients are averaged, so that all
ranks keep the same parameters. Batch sizes are those of one process: two processes collect twice as
much in an iteration, and train on twice as much. Rank 0 also evaluates, logs and saves.

On one machine the runner starts the others itself, one for each entry of ``affinity``. On
several machines, start the script on each by ``torchrun``, which tells every process its rank.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rlpyt.runners._member import TeamMember
from rlpyt.runners._process import check_affinity
from rlpyt.runners._replicas import Replicas, await_verdict
from rlpyt.runners._team import (
    SEND_STATE,
    Team,
    connect_store,
    host_store,
    launcher_store,
)
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.utils._pool import WorkerError
from rlpyt.utils._processes import LaunchedPlace, launched_place
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import make_seed

# The seeds of two ranks differ by at least this.
_SEED_STEP = 100


class SyncRlMixin(TeamMember):
    """Makes a runner the rank 0 of several processes; first base, before a runner.

    Args:
        *args: of the runner. ``affinity`` is a list, with the affinity of each process; under
            ``torchrun`` with those of the processes on this machine, or it is one mapping for all.
            If these name a ``cuda_idx``, gradients are averaged by NCCL, else by gloo.
        start_method: of the other processes: "fork", "forkserver" or "spawn"; None for the usual
            one of the system.
        rank_timeout_s: for how long a process may keep the others waiting, other than in
            evaluation; None for no limit.
        **kwargs: of the runner.

    Raises:
        ValueError: if ``affinity`` does not fit the processes.
    """

    par = AttrDict(barrier=None)
    _replicas: Replicas | None = None
    _explanation: WorkerError | None = None

    def __init__(
        self,
        *args: Any,
        start_method: str | None = None,
        rank_timeout_s: float | None = 1800.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if rank_timeout_s is not None and rank_timeout_s <= 0:
            raise ValueError(f"rank_timeout_s is {rank_timeout_s}: give more than 0, or None")
        self.start_method = start_method
        self.rank_timeout_s = rank_timeout_s
        self.affinities = _affinities(self.affinity, launched_place())

    @property
    def WorkerCls(self) -> Any:
        """The runner of the other processes."""
        raise NotImplementedError(f"{type(self).__name__} does not define WorkerCls")

    def train(self) -> None:
        """Run until ``n_steps``; under ``torchrun`` as the process which this one is.

        Raises:
            WorkerError: if another process failed; shows its own traceback.
        """
        place = launched_place()
        if place is not None and place.rank > 0:
            self._train_as_worker(place)
            return
        try:
            super().train()
        except BaseException as error:
            if self._replicas is not None and not self._failed:  # It failed as it ended.
                self._explanation = self._replicas.explain(error)
            if self._explanation is not None:
                raise self._explanation from error
            raise

    def startup(self) -> int:
        """Start the other processes, then this one, and wait until all are ready."""
        self.team = self._replicas = self._explanation = None
        self.launch_workers()
        return super().startup()

    def launch_workers(self) -> None:
        """Start the other processes, or find those which ``torchrun`` has started."""
        place = launched_place()
        check_affinity(self.affinities)
        self.affinity = self.affinities[0 if place is None else place.local_rank]
        self.rank = 0
        self.world_size = len(self.affinities) if place is None else place.world_size
        if self.seed is None:
            self.seed = make_seed()
        if self.world_size == 1:
            return
        backend = _backend(self.affinity)
        store = host_store(self.world_size) if place is None else launcher_store()
        self.team = Team(0, self.world_size, backend, store, self.rank_timeout_s)
        if place is not None:
            self.team.agree_on("seed", self.seed)
            return
        self._replicas = Replicas(self.start_method, self.rank_timeout_s)
        if backend == "nccl":
            self._replicas.check_cuda()
        self.par = self.build_par_objs(self.world_size)
        states = self._resume_states()
        for rank in range(1, self.world_size):
            kwargs = {
                "WorkerCls": self.WorkerCls,
                "resume_state": states[rank],
                "worker_kwargs": self._worker_kwargs(rank, self.affinities[rank], store.port),
            }
            self._replicas.start(_run_worker, kwargs, rank)

    def build_par_objs(self, world_size: int) -> AttrDict:
        """What the processes of one machine share: a ``barrier`` for their start."""
        assert self._replicas is not None
        return AttrDict(
            barrier=self._replicas.barrier(world_size), rank_timeout_s=self.rank_timeout_s
        )

    def _worker_kwargs(self, rank: int, affinity: Any, port: int | None) -> dict[str, Any]:
        assert self.seed is not None
        step = max(_SEED_STEP, self.sampler.batch_spec.B)
        return {
            "algo": self.algo,
            "agent": self.agent,
            "sampler": self.sampler,
            "n_steps": self.n_steps,
            "seed": self.seed + step * rank,
            "affinity": affinity,
            "log_interval_steps": self.log_interval_steps,
            "rank": rank,
            "world_size": self.world_size,
            "port": port,
            "backend": _backend(affinity),
            "par": self.par,
        }

    def _train_as_worker(self, place: LaunchedPlace) -> None:
        self.world_size = place.world_size
        affinity = self.affinities[place.local_rank]
        store = launcher_store()
        team = Team(place.rank, self.world_size, _backend(affinity), store, self.rank_timeout_s)
        self.seed = team.agree_on("seed", None)
        worker = self.WorkerCls(**self._worker_kwargs(place.rank, affinity, None))
        worker.team = team
        worker._resume_state = self._resume_states()[place.rank]
        worker.train()

    def _make_data_parallel(self) -> None:
        super()._make_data_parallel()
        if self._replicas is not None:
            self._replicas.watch()

    def shutdown(self) -> None:
        """Shut down as in one process, and wait for the end of the others."""
        if self._replicas is not None:
            self._replicas.stop_watching()
        super().shutdown()
        if self._replicas is not None and not self._failed:
            self._replicas.join()

    def _shutdown_after_failure(self) -> None:
        if self._replicas is not None:
            self._explanation = self._replicas.explain(sys.exc_info()[1])
        super()._shutdown_after_failure()

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all that the run needs to go on, of every process.

        Raises:
            RuntimeError: if called by anything but ``on_log`` of a callback: the other processes
                can be asked only while they wait for the log row.
        """
        state = super().state_dict()
        if self.team is None:
            return state
        if not self._others_follow:
            raise RuntimeError(
                "the state of a run of several processes can be had only while a row is logged: "
                "save it in on_log of a callback, as SaveState does"
            )
        self.team.follow(SEND_STATE)
        return {"ranks": self.team.collect(state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let :meth:`train` go on from ``state``, which comes from as many processes."""
        n_saved = len(state.get("ranks", [None]))
        place = launched_place()
        world_size = len(self.affinities) if place is None else place.world_size
        if n_saved != world_size:
            raise ValueError(
                f"the state is of a run of {n_saved} processes, and this one has {world_size}: "
                "resume with as many"
            )
        self._saved_ranks = state.get("ranks", [state])
        super().load_state_dict(self._saved_ranks[0])

    def _resume_states(self) -> list[Any]:
        return getattr(self, "_saved_ranks", [None] * self.world_size)


class SyncRl(SyncRlMixin, MinibatchRl):
    """Trains in several processes, and measures performance online, over the trajectories of all.

    Args:
        *args: of :class:`SyncRlMixin` and :class:`~rlpyt.runners.minibatch_rl.MinibatchRl`.
    """

    @property
    def WorkerCls(self) -> Any:
        """The runner of the other processes."""
        return SyncWorker


class SyncRlEval(SyncRlMixin, MinibatchRlEval):
    """Trains in several processes; rank 0 evaluates before each log row, and the others wait.

    Args:
        *args: of :class:`SyncRlMixin` and :class:`~rlpyt.runners.minibatch_rl.MinibatchRlEval`.
    """

    @property
    def WorkerCls(self) -> Any:
        """The runner of the other processes."""
        return SyncWorkerEval


class SyncWorkerMixin(TeamMember):
    """Makes a runner one of the other processes: the same loop, which reports to rank 0.

    Args:
        algo: as in rank 0, not initialized.
        agent: as in rank 0, not initialized.
        sampler: as in rank 0, not initialized.
        n_steps: of the whole run, over all processes.
        seed: of this process.
        affinity: of this process.
        log_interval_steps: between log rows, over all processes.
        rank: of this process, from 1.
        world_size: number of processes.
        port: at which rank 0 waits on this machine; None under ``torchrun``.
        backend: "gloo" or "nccl".
        par: what the processes share, see :meth:`SyncRlMixin.build_par_objs`.
    """

    life: Any = None

    def __init__(
        self,
        algo: Any,
        agent: Any,
        sampler: Any,
        n_steps: float,
        seed: int,
        affinity: Mapping[str, Any],
        log_interval_steps: float,
        rank: int,
        world_size: int,
        port: int | None,
        backend: str,
        par: Any,
    ) -> None:
        super().__init__(
            algo=algo,
            agent=agent,
            sampler=sampler,
            n_steps=n_steps,
            seed=seed,
            affinity=affinity,
            log_interval_steps=log_interval_steps,
        )
        self.rank, self.world_size = rank, world_size
        self.port, self.backend, self.par = port, backend, par

    def train(self) -> None:
        """Run as long as rank 0 does; nothing is logged here."""
        with logger.using(logger.Logger(sinks=[])):
            super().train()

    def startup(self) -> int:
        """Start as rank 0 does."""
        if self.team is None:
            store = connect_store(self.port or 0, self.world_size)
            limit = self.par.rank_timeout_s
            self.team = Team(self.rank, self.world_size, self.backend, store, limit)
        return super().startup()

    def initialize_logging(self) -> None:
        """Set all counters to their start; there is no progress bar."""
        super().initialize_logging()
        self.pbar = None

    def log_diagnostics(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing: rank 0 does."""
        self._opt_infos = {name: [] for name in self._opt_infos}

    def _shutdown_after_failure(self) -> None:
        error = sys.exc_info()[1]
        super()._shutdown_after_failure()
        await_verdict(error, self.life)


class SyncWorker(SyncWorkerMixin, MinibatchRl):
    """A process of :class:`SyncRl`."""


class SyncWorkerEval(SyncWorkerMixin, MinibatchRlEval):
    """A process of :class:`SyncRlEval`."""

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate nothing: rank 0 does."""
        return [], 0.0


def _run_worker(
    WorkerCls: Any, worker_kwargs: dict[str, Any], resume_state: Any, life: Any
) -> None:
    """What the process of a rank does."""
    worker = WorkerCls(**worker_kwargs)
    worker.life = life
    worker._resume_state = resume_state
    worker.train()


def _backend(affinity: Mapping[str, Any]) -> str:
    return "gloo" if affinity.get("cuda_idx") is None else "nccl"


def _affinities(affinity: Any, place: LaunchedPlace | None) -> list[Any]:
    """The affinity of each process on this machine."""
    if isinstance(affinity, Mapping):
        if place is None:
            raise ValueError(
                f"affinity is {affinity}: give a list, with the affinity of each process, as in "
                "[dict(cuda_idx=0), dict(cuda_idx=1)], or start the script by torchrun"
            )
        affinities = [affinity] * place.local_world_size
    else:
        affinities = list(affinity)
    if place is not None and len(affinities) != place.local_world_size:
        raise ValueError(
            f"affinity has {len(affinities)} entries, but torchrun has started "
            f"{place.local_world_size} processes on this machine: give one for each"
        )
    devices = [each.get("cuda_idx") for each in affinities]
    if not affinities:
        raise ValueError("affinity is empty: give a list, with the affinity of each process")
    is_on_gpu = any(device is not None for device in devices)
    if is_on_gpu and (None in devices or len(set(devices)) < len(devices)):
        raise ValueError(
            f"affinity has the cuda_idx {devices}: give each process a GPU of its own, or none a "
            "GPU at all"
        )
    return affinities

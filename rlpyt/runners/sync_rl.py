"""The synchronous loop in several processes, each with its own agent, algorithm and sampler.

Every process (a rank) samples and trains the same way, and gradients are averaged, so that all
ranks keep the same parameters. Batch sizes are per process: two processes collect twice as much in
an iteration, and train on twice as much. Rank 0 also evaluates, logs and saves.

On one machine the runner starts the others itself, one for each entry of ``affinity``. On
several machines, start the script on each with ``torchrun``, which gives every process its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from rlpyt.processes.launch import check_cuda_after_fork
from rlpyt.processes.primitives import Barrier
from rlpyt.processes.supervisor import Supervisor
from rlpyt.runners._checks import (
    affinities_of_ranks,
    check_cpus_in,
    check_sync_roles,
    check_time_limit,
)
from rlpyt.runners._process_group import (
    SEND_STATE,
    ProcessGroup,
    backend_for,
    host_store,
    launcher_store,
)
from rlpyt.runners._sync_worker import (
    DistributedRunner,
    SyncWorker as SyncWorker,
    SyncWorkerEval as SyncWorkerEval,
    SyncWorkerMixin as SyncWorkerMixin,
    run_worker,
)
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, derived_seed, make_seed
from rlpyt.utils.torchrun import TorchrunRanks, torchrun_ranks


class SyncRlMixin(DistributedRunner):
    """Mixin for the runner of rank 0; list it before the runner class.

    Args:
        *args: arguments of the runner. ``affinity`` is a list with one mapping per process. Under
            ``torchrun`` it covers only this machine's processes, and may be one mapping for all of
            them. NCCL averages gradients if mappings have a ``cuda_idx``, otherwise gloo.
        start_method: start method of the other processes: "fork", "forkserver" or "spawn"; None for
            the default of the system.
        rank_timeout_s: longest time that a process may keep the others waiting, other than in
            evaluation; None for no limit.
        **kwargs: further arguments of the runner.

    Raises:
        ValueError: if ``affinity`` does not fit the processes.
    """

    par = AttrDict(barrier=None)
    _saved_ranks: list[Any] | None = None

    def __init__(
        self,
        *args: Any,
        start_method: str | None = None,
        rank_timeout_s: float | None = 1800.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.start_method = start_method
        self.rank_timeout_s = check_time_limit("rank_timeout_s", rank_timeout_s)
        self.affinities = affinities_of_ranks(self.affinity, torchrun_ranks())

    @property
    def WorkerCls(self) -> Any:
        """Runner class of the other processes."""
        raise NotImplementedError(f"{type(self).__name__} does not define WorkerCls")

    def train(self, **kwargs: Any) -> None:
        """Run until ``n_steps``; under ``torchrun``, as the rank of this process.

        Args:
            **kwargs: arguments of :meth:`~rlpyt.runners.minibatch_rl.MinibatchRlBase.train`.
                Checkpoints are in directories ``rank_0``, ``rank_1``, ...; a path in ``resume``
                must be a checkpoint of rank 0.

        Raises:
            WorkerError: if another process failed, with its traceback.
        """
        place = torchrun_ranks()
        if place is not None and place.rank > 0:
            self._train_as_worker(place)
        else:
            super().train(**kwargs)

    def startup(self) -> int:
        """Start the other processes, then this one, and wait until all are ready."""
        self._group = self.supervisor = None
        self.launch_workers()
        n_itr = super().startup()
        if self.world_size > 1:
            self._warn_of_separate_networks()
        return n_itr

    def _warn_of_separate_networks(self) -> None:
        """Warn of networks of the algorithm that each process trains for itself."""
        networks = {k: x for k, x in vars(self.algo).items() if isinstance(x, torch.nn.Module)}
        names = [k for k, x in networks.items() if not isinstance(x, DistributedDataParallel)]
        if names:
            logger.log(
                f"WARNING: {names} of {type(self.algo).__name__} differ from process to process: "
                "wrap them in torch.nn.parallel.DistributedDataParallel to average their gradients"
            )

    def launch_workers(self) -> None:
        """Start the other processes, or connect to processes that ``torchrun`` has started."""
        place = torchrun_ranks()
        check_sync_roles(self)
        check_cpus_in(self.affinities)
        self.affinity = self.affinities[0 if place is None else place.local_rank]
        self.rank = 0
        self.world_size = self._n_synchronous()
        plan = None if self.checkpoints is None else self.checkpoints.plan
        if self.seed is None:
            self.seed = make_seed()
        states = self._take_states()
        if self.world_size == 1:
            return
        backend = backend_for(self.affinity)
        store = host_store(self.world_size) if place is None else launcher_store()
        self._group = ProcessGroup(0, self.world_size, backend, store, self.rank_timeout_s)
        if place is not None:
            self._group.agree_on("seed", self.seed)
            self._group.agree_on("checkpoints", plan)
            return
        self.supervisor = Supervisor(self.start_method, self.rank_timeout_s, "rank_timeout_s")
        if backend == "nccl":
            check_cuda_after_fork(self.supervisor.context.get_start_method())
        self.par = self.build_par_objs(self.world_size)
        for rank in range(1, self.world_size):
            kwargs = {
                "WorkerCls": self.WorkerCls,
                "rank_timeout_s": self.rank_timeout_s,
                "resume_state": states[rank],
                "plan": plan,
                "worker_kwargs": self._worker_kwargs(rank, self.affinities[rank], store.port),
            }
            self.supervisor.start(run_worker, kwargs, f"rank {rank}")

    def _take_states(self) -> list[dict[str, Any] | None]:
        """Return the loaded state of each process, once; None where a run begins."""
        states, self._saved_ranks = self._saved_ranks or [None] * self.world_size, None
        return states

    def build_par_objs(self, world_size: int) -> AttrDict:
        """Make the objects that the processes of one machine share.

        ``barrier`` is for the start, ``traj_infos_queue`` for a rank with a loop of its own.
        """
        assert self.supervisor is not None
        queue = self.supervisor.context.Queue()
        return AttrDict(barrier=Barrier(self.supervisor, world_size), traj_infos_queue=queue)

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep the opt info of one iteration, and the trajectories of all processes."""
        if not self._is_in_step and "traj_infos_queue" in self.par:
            traj_infos = list(traj_infos)
            while not self.par.traj_infos_queue.empty():
                traj_infos.append(self.par.traj_infos_queue.get())
        super().store_diagnostics(itr, traj_infos, opt_info)

    def _worker_kwargs(self, rank: int, affinity: Any, port: int | None) -> dict[str, Any]:
        assert self.seed is not None
        return {
            "algo": self.algo,
            "agent": self.agent,
            "sampler": self.sampler,
            "n_steps": self.n_steps,
            "seed": derived_seed(self.seed, Purpose.RANK, rank),
            "affinity": affinity,
            "log_interval_steps": self.log_interval_steps,
            "rank": rank,
            "world_size": self.world_size,
            "port": port,
            "backend": backend_for(affinity),
            "par": self.par,
        }

    def _train_as_worker(self, place: TorchrunRanks) -> None:
        self.world_size = place.world_size
        affinity = self.affinities[place.local_rank]
        store = launcher_store()
        group = ProcessGroup(
            place.rank, self.world_size, backend_for(affinity), store, self.rank_timeout_s
        )
        self.seed = group.agree_on("seed", None)
        worker = self.WorkerCls(**self._worker_kwargs(place.rank, affinity, None))
        worker._group = group
        worker._resume_state = self._take_states()[place.rank]
        worker.use_checkpoints(group.agree_on("checkpoints", None))
        worker.train()

    def _n_synchronous(self) -> int:
        place = torchrun_ranks()
        return len(self.affinities) if place is None else place.world_size

    def _make_data_parallel(self) -> None:
        super()._make_data_parallel()
        if self.supervisor is not None:
            self.supervisor.watch()

    def shutdown(self) -> None:
        """Shut down as in one process, and wait until the other processes end."""
        if self.supervisor is None:
            super().shutdown()
            return
        self.supervisor.stop_watching()
        self.par.pop("traj_infos_queue", None)  # The reader of such a queue cannot close it.
        try:
            super().shutdown()
            if not self._failed:
                self.supervisor.join()
        except BaseException as error:
            cause = error if self._failed else self._explain(error)
            if cause is not error:
                raise cause from error
            raise

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every process, to resume from.

        Raises:
            RuntimeError: if called outside of ``on_log`` of a callback: the other processes can
                send their states only while they wait for the log row.
        """
        state = super().state_dict()
        if self._group is None:
            return state
        if not self._others_wait:
            raise RuntimeError(
                "the state of a run with several processes exists only while a row is logged: "
                "save it in on_log of a callback, as SaveState does"
            )
        self._group.broadcast(SEND_STATE)
        return {"ranks": self._group.gather(state)}

    def _save_checkpoint(self) -> None:
        if self.checkpoints is not None:
            counts = self._cum_steps, self.algo.update_counter
            self.checkpoints.save(super().state_dict, *counts, self._group)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the ``state`` that :meth:`train` resumes from, for as many processes."""
        n_saved, world_size = len(state.get("ranks", [None])), self._n_synchronous()
        if n_saved != world_size:
            raise ValueError(
                f"the state is from a run of {n_saved} processes, and this one has {world_size}: "
                f"resume with {n_saved}"
            )
        self._saved_ranks = state.get("ranks", [state])
        super().load_state_dict(self._saved_ranks[0])


class SyncRl(SyncRlMixin, MinibatchRl):
    """Runner of several training processes, which measures performance online in all of them.

    Args:
        *args: arguments of :class:`SyncRlMixin` and of
            :class:`~rlpyt.runners.minibatch_rl.MinibatchRl`.
    """

    @property
    def WorkerCls(self) -> Any:
        """Runner class of the other processes."""
        return SyncWorker


class SyncRlEval(SyncRlMixin, MinibatchRlEval):
    """Runner of several training processes; rank 0 evaluates before each log row.

    Args:
        *args: arguments of :class:`SyncRlMixin` and of
            :class:`~rlpyt.runners.minibatch_rl.MinibatchRlEval`.
    """

    @property
    def WorkerCls(self) -> Any:
        """Runner class of the other processes."""
        return SyncWorkerEval

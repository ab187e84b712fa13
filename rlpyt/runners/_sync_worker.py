"""The runners of ranks above 0 in a synchronous run, and the mixin that they share with rank 0."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlpyt.core.protocols import AgentLike, AlgoLike, SamplerLike
from rlpyt.processes.child import delay_secondary_error, heartbeat_paused
from rlpyt.runners._process_group import (
    CONTINUE,
    SEND_STATE,
    SIGNALLED,
    STOP,
    ProcessGroup,
    connect_store,
    leave_data_parallel,
)
from rlpyt.runners.checkpointing import STOP_SIGNALS, CheckpointPlan, RunCheckpoints, StopSignals
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlBase, MinibatchRlEval
from rlpyt.utils.logging import logger


class DistributedRunner(MinibatchRlBase):
    """A runner that iterates and logs in step with other processes; rank 0 logs for all.

    Attributes:
        par: objects that the processes of this machine share, see ``SyncRlMixin.build_par_objs``.
    """

    par: Any
    rank_timeout_s: float | None = 1800.0

    _others_wait = False

    def startup(self) -> int:
        """Start as in one process, and begin together with the others."""
        n_itr = super().startup()
        if self._group is not None:
            start = time.time()
            self._group.broadcast()
            _, (is_out_of_step,) = self._group.end_iteration((), [not self._is_in_step])
            self._is_in_step = not is_out_of_step
            waited = time.time() - start
            self._start_time += waited
            self._last_time += waited
        return n_itr

    def _make_data_parallel(self) -> None:
        # Last, so that processes forked by the sampler hold no connections of this process.
        assert self._group is not None
        if self.par.barrier is not None:
            with heartbeat_paused():
                self.par.barrier.wait()
        self._group.join()
        if self._group.backend == "nccl":
            torch.cuda.set_device(self.affinity["cuda_idx"])
        super()._make_data_parallel()
        self._group.share_state(self.agent)

    def _end_iteration(self, itr: int, traj_infos: Sequence[Any]) -> Sequence[Any]:
        # Not in a hook: a program that replaces it in one rank would keep the others waiting.
        if self._group is None or not self._is_in_step:
            return traj_infos
        received = self._signals.received
        requests = [
            self._stop_requested,
            self._is_checkpoint_due(itr),
            *(received == number for number in STOP_SIGNALS),
        ]
        traj_infos, requests = self._group.end_iteration(traj_infos, requests)
        is_last, self._saves_now, *signals = requests
        self._stopping = self._stopping or is_last
        self._agreed_signal = next(itertools.compress(STOP_SIGNALS, signals), None)
        return traj_infos if self.rank == 0 else ()

    def _measure_and_log(self, itr: int) -> None:
        is_in_step = self._group is not None and self._is_in_step
        self._others_wait = is_in_step
        super()._measure_and_log(itr)
        self._others_wait = False
        if not is_in_step:
            return
        assert self._group is not None
        command = STOP if self._stop_requested else CONTINUE
        if self._is_row_due:
            command = SIGNALLED + (self._signal or self._signals.received or 0)
        command = self._group.broadcast(command)
        while self.rank > 0 and command == SEND_STATE:
            self._group.gather(super().state_dict())
            command = self._group.broadcast()
        self._is_row_due = command > SIGNALLED  # As in rank 0, even if a signal came here alone.
        if self._is_row_due:
            self._agreed_signal = command - SIGNALLED
        self._stopping = self._stopping or command == STOP

    def shutdown(self) -> None:
        """Shut down as in one process, and leave the process group."""
        try:
            super().shutdown()
            if self._group is not None and not self._failed:
                self._group.broadcast()
        finally:
            if self._group is not None:
                self._group.leave()
                leave_data_parallel(self.agent)


class SyncWorkerMixin(DistributedRunner):
    """Mixin for runners of ranks above 0: the same loop, which reports to rank 0.

    Args:
        algo: algorithm of rank 0, not initialized.
        agent: agent of rank 0, not initialized.
        sampler: sampler of rank 0, not initialized.
        n_steps: steps of the whole run, over all processes.
        seed: seed of this process.
        affinity: affinity of this process.
        log_interval_steps: steps from one log row to the next, over all processes.
        rank: rank of this process, from 1.
        world_size: number of processes.
        port: port of the store that rank 0 hosts on this machine; None under ``torchrun``.
        backend: "gloo" or "nccl".
        par: objects that the processes share, see ``SyncRlMixin.build_par_objs``.
    """

    def __init__(
        self,
        algo: AlgoLike,
        agent: AgentLike,
        sampler: SamplerLike,
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

    def train(self, **kwargs: Any) -> None:
        """Run as long as rank 0 does; nothing is logged here."""
        with logger.using(logger.Logger(sinks=[])):
            super().train()

    def use_checkpoints(self, plan: CheckpointPlan | None) -> None:
        """Save checkpoints at the same steps as rank 0, and resume from the same checkpoint."""
        if plan is not None:
            self.checkpoints = RunCheckpoints(plan, self.rank)
            self._resume_state = self.checkpoints.load() or self._resume_state

    def _catch_signals(self) -> StopSignals:
        # Rank 0 ends the processes that it started by SIGTERM.
        return super()._catch_signals() if self.port is None else StopSignals(())

    def startup(self) -> int:
        """Connect to rank 0, unless a launcher has done so, and start in the same way."""
        if self._group is None:
            store = connect_store(self.port or 0, self.world_size)
            self._group = ProcessGroup(
                self.rank, self.world_size, self.backend, store, self.rank_timeout_s
            )
        return super().startup()

    def initialize_logging(self) -> None:
        """Reset all counters; there is no progress bar."""
        super().initialize_logging()
        self.pbar = None

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep the opt info; send trajectories to a rank 0 that runs a loop of its own."""
        if not self._is_in_step and "traj_infos_queue" in self.par:
            for traj_info in traj_infos:
                self.par.traj_infos_queue.put(traj_info)
        super().store_diagnostics(itr, traj_infos, opt_info)

    def log_diagnostics(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing: rank 0 does."""
        self.run_log.drop_opt_infos()

    def _shutdown_after_failure(self, error: BaseException) -> None:
        super()._shutdown_after_failure(error)
        delay_secondary_error(error)


class SyncWorker(SyncWorkerMixin, MinibatchRl):
    """A process of :class:`~rlpyt.runners.sync_rl.SyncRl`."""


class SyncWorkerEval(SyncWorkerMixin, MinibatchRlEval):
    """A process of :class:`~rlpyt.runners.sync_rl.SyncRlEval`."""

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate nothing: rank 0 does."""
        return [], 0.0


def run_worker(
    WorkerCls: Any,
    worker_kwargs: dict[str, Any],
    rank_timeout_s: float | None,
    resume_state: dict[str, Any] | None,
    plan: CheckpointPlan | None,
) -> None:
    """Run the process of one rank above 0."""
    worker = WorkerCls(**worker_kwargs)
    worker.rank_timeout_s = rank_timeout_s
    worker._resume_state = resume_state
    worker.use_checkpoints(plan)
    worker.train()

"""The processes of a synchronous run other than rank 0: they train along, and log nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rlpyt.runners._member import TeamMember
from rlpyt.runners._team import Team, connect_store
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import delay_secondary_error


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
        par: what the processes share, see ``SyncRlMixin.build_par_objs``.
    """

    heartbeat: Any = None

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
        delay_secondary_error(error, self.heartbeat)


class SyncWorker(SyncWorkerMixin, MinibatchRl):
    """A process of :class:`~rlpyt.runners.sync_rl.SyncRl`."""


class SyncWorkerEval(SyncWorkerMixin, MinibatchRlEval):
    """A process of :class:`~rlpyt.runners.sync_rl.SyncRlEval`."""

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate nothing: rank 0 does."""
        return [], 0.0


def run_worker(
    WorkerCls: Any, worker_kwargs: dict[str, Any], resume_state: Any, heartbeat: Any
) -> None:
    """What the process of a rank does."""
    worker = WorkerCls(**worker_kwargs)
    worker.heartbeat = heartbeat
    worker._resume_state = resume_state
    worker.train()


def backend_of(affinity: Mapping[str, Any]) -> str:
    """By which library processes with such an affinity average their gradients."""
    return "gloo" if affinity.get("cuda_idx") is None else "nccl"

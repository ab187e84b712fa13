"""What the synchronous loop does together with the other processes, in any of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.runners._team import GO_ON, SEND_STATE, STOP, Team
from rlpyt.runners.minibatch_rl import MinibatchRlBase
from rlpyt.utils.processes.child import heartbeat_paused


class TeamMember(MinibatchRlBase):
    """A runner whose iterations and log rows are those of a team; rank 0 logs for all."""

    team: Team | None = None
    par: Any
    _wants_to_stop = False
    _failed = False
    _others_follow = False

    def startup(self) -> int:
        """Start as in one process, and begin together with the others."""
        self._wants_to_stop = self._failed = False
        n_itr = super().startup()
        if self.team is not None:
            start = time.time()
            self.team.follow()
            waited = time.time() - start
            self._start_time += waited
            self._last_time += waited
        return n_itr

    def _make_data_parallel(self) -> None:
        # Not before: what the sampler has forked should not hold connections of this process.
        assert self.team is not None
        if self.par.barrier is not None:
            with heartbeat_paused(getattr(self, "heartbeat", None)):
                self.par.barrier.wait()
        self.team.join()
        if self.team.backend == "nccl":
            torch.cuda.set_device(self.affinity["cuda_idx"])
        super()._make_data_parallel()
        self.team.share_state(self.agent)

    def stop(self) -> None:
        """End the run in all processes, with a last log row.

        Asked while a row is logged, at once; asked within an iteration, after the next one.
        """
        if self.team is None:
            super().stop()
        self._wants_to_stop = True

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep what one iteration reports; rank 0 gets the trajectories of all."""
        if self.team is not None:
            traj_infos, stops = self.team.merge(traj_infos, self._wants_to_stop)
            self._stopping = self._stopping or stops
        super().store_diagnostics(itr, traj_infos, opt_info)

    def _measure_and_log(self, itr: int) -> None:
        self._others_follow = self.team is not None
        super()._measure_and_log(itr)
        self._others_follow = False
        if self.team is not None:
            said = self._follow(STOP if self._wants_to_stop else GO_ON)
            self._stopping = self._stopping or said == STOP

    def _follow(self, command: int) -> int:
        assert self.team is not None
        said = self.team.follow(command)
        while self.team.rank > 0 and said == SEND_STATE:
            self.team.collect(super().state_dict())
            said = self.team.follow()
        return said

    def shutdown(self) -> None:
        """Shut down as in one process, and let go of the others."""
        try:
            super().shutdown()
            if self.team is not None and not self._failed:
                self.team.follow()
        finally:
            if self.team is not None:
                self.team.leave()

    def _shutdown_after_failure(self) -> None:
        self._failed = True
        super()._shutdown_after_failure()

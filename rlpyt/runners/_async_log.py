"""The log of the asynchronous loop: counts of two processes, rows, snapshots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rlpyt.runners._async_control import Throttle
from rlpyt.runners._run import Run
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter

NAN = float("nan")


class AsyncLog(Run):
    """Counts what is sampled and what is learned from it, and writes it down.

    Attributes:
        ctrl: what all processes share, see :func:`~rlpyt.runners._async_control.make_control`.
        throttle: keeps optimizer and sampler in step.
        sampler_batch_size: environment steps of a batch.
    """

    ctrl: Any
    throttle: Throttle
    sampler_batch_size: int

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._opt_infos = {name: [] for name in self.algo.opt_info_fields}
        self._start_time = self._last_time = time.time()
        self._throttle_time = 0.0
        self._last_sampler_itr = 0
        self._last_update_counter = 0
        self._last_eval_time = 0.0
        self._n_logs = 0
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def get_itr_snapshot(self, itr: int, sampler_itr: int | None = None) -> dict[str, Any]:
        """What is saved at each log row, to use the trained agent: tensors and numbers only.

        Args:
            itr: iteration of the optimizer.
            sampler_itr: batches which are in the replay buffer; None for those of now.
        """
        n_batches = self.throttle.n_copied if sampler_itr is None else sampler_itr
        return {
            "itr": itr,
            "sampler_itr": n_batches,
            "cum_steps": n_batches * self.sampler_batch_size,
            "cum_updates": self.algo.update_counter,
            "agent_state_dict": self.agent.state_dict(),
            "optimizer_state_dict": self.algo.optim_state_dict(),
        }

    def save_itr_snapshot(self, itr: int, sample_itr: int) -> None:
        """Save the snapshot as the logger's snapshot mode says."""
        logger.log("saving snapshot...")
        logger.save_itr_params(itr, self.get_itr_snapshot(itr, sample_itr))
        logger.log("saved")

    def store_diagnostics(
        self, itr: int, sampler_itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Keep what one iteration reports until the next log row."""
        self._store_opt_info(opt_info)
        if self.pbar is not None:
            self.pbar.update(sampler_itr % self.log_interval_itrs)
        self._notify("on_itr", itr, traj_infos, opt_info)

    def log_diagnostics(
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Save a snapshot, and write one row of all that is known to the log.

        Args:
            itr: iteration of the optimizer.
            sampler_itr: batches which the sampler has filled.
            throttle_time: s, spent waiting for the sampler since the last row.
            prefix: of the keys about the run itself.
        """
        if self.pbar is not None:
            self.pbar.stop()
        self.save_itr_snapshot(itr, sampler_itr)
        with logger.tabular_prefix(prefix):
            self._log_progress(itr, sampler_itr, throttle_time)
        infos = list(self._traj_infos)
        self._log_infos()
        logger.dump_tabular(with_prefix=False)
        logger.log(f"Optimizing over {self.log_interval_itrs} sampler iterations.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, infos)

    def _log_progress(self, itr: int, sampler_itr: int, throttle_time: float) -> None:
        """Counters, and what became of them since the last row."""
        now, updates = time.time(), self.algo.update_counter
        elapsed = max(now - self._last_time, 1e-9)
        eval_time = self.ctrl.eval_time.value
        cum_steps = sampler_itr * self.sampler_batch_size
        new_steps = (sampler_itr - self._last_sampler_itr) * self.sampler_batch_size
        new_updates = updates - self._last_update_counter
        trained = self.algo.batch_size * self.world_size
        sampling_time = elapsed - (eval_time - self._last_eval_time)
        logger.record_tabular("Iteration", itr)
        logger.record_tabular("SamplerIteration", sampler_itr)
        logger.record_tabular("CumTime (s)", now - self._start_time)
        logger.record_tabular("CumSteps", cum_steps)
        logger.record_tabular("CumUpdates", updates)
        logger.record_tabular("ReplayRatio", new_updates * trained / max(1, new_steps))
        logger.record_tabular("CumReplayRatio", updates * trained / max(1, cum_steps))
        logger.record_tabular("StepsPerSecond", new_steps / elapsed if new_steps else NAN)
        if self._eval:
            rate = new_steps / sampling_time if new_steps and sampling_time > 0 else NAN
            logger.record_tabular("NonEvalSamplesPerSecond", rate)
        logger.record_tabular("UpdatesPerSecond", new_updates / elapsed if new_steps else NAN)
        logger.record_tabular("OptThrottle", max(0.0, elapsed - throttle_time) / elapsed)
        self._last_time, self._last_eval_time = now, eval_time
        self._last_sampler_itr, self._last_update_counter = sampler_itr, updates
        self._throttle_time = 0.0

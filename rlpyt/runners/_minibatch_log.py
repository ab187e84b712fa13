"""The log of the synchronous loop: counts, rows, snapshots, and the state to go on from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rlpyt.runners._diagnostics import Interval
from rlpyt.runners._run import Run
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.seed import rng_state, set_rng_state


class MinibatchLog(Run):
    """Counts iterations and what is done in them, and writes it down.

    Attributes:
        itr_batch_size: environment steps of an iteration, over all processes.
        min_itr_learn: iterations before it leave no snapshot.
        start_itr: iterations of an earlier run which this one goes on with.
    """

    itr_batch_size: int
    min_itr_learn: int
    start_itr = 0

    _cum_eval_time = 0.0
    _cum_completed_trajs = 0
    _itr = -1  # the last one which was stored
    _n_itrs_logged = 0
    _resume_state: dict[str, Any] | None = None

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._opt_infos = {name: [] for name in self.algo.opt_info_fields}
        self._start_time = self._last_time = time.time()
        self._cum_time = 0.0
        self._cum_eval_time = 0.0
        self._cum_completed_trajs = 0
        self._last_update_counter = 0
        self._itr = -1
        self._n_itrs_logged = 0
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def _n_itrs_done(self, itr: int) -> int:
        """Iterations that are over when ``itr`` is logged: none, in an evaluation at the start."""
        return 0 if itr == 0 and self._itr < 0 else itr + 1

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep what one iteration reports until the next log row."""
        self._cum_completed_trajs += len(traj_infos)
        self._store_opt_info(opt_info)
        self._itr = itr
        if self.pbar is not None:
            self.pbar.update((itr + 1) % self.log_interval_itrs)
        self._notify("on_itr", itr, traj_infos, opt_info)

    def log_diagnostics(
        self,
        itr: int,
        traj_infos: Sequence[Any] | None = None,
        eval_time: float = 0,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Save a snapshot, and write one row of all that is known to the log.

        Args:
            itr: the present iteration.
            traj_infos: whose statistics are logged; None for those of the window.
            eval_time: s, spent in evaluation since the last row.
            prefix: of the keys about the run itself.
        """
        if self.pbar is not None:
            self.pbar.stop()
        if itr >= self.min_itr_learn - 1:
            self.save_itr_snapshot(itr)
        with logger.tabular_prefix(prefix):
            self._log_progress(itr, eval_time)
        infos = self._traj_infos if traj_infos is None else traj_infos
        self._log_infos(traj_infos)
        logger.dump_tabular(with_prefix=False)
        logger.log(f"Optimizing over {self.log_interval_itrs} iterations.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, list(infos))

    def _log_progress(self, itr: int, eval_time: float) -> None:
        """Counters, and what became of them since the last row."""
        n_itrs_done = self._n_itrs_done(itr)
        cum_steps = n_itrs_done * self.itr_batch_size
        now, updates = time.time(), self.algo.update_counter
        new_updates = updates - self._last_update_counter
        batch_size = getattr(self.algo, "batch_size", 0) * self.world_size
        rates = Interval(
            steps=cum_steps - self._n_itrs_logged * self.itr_batch_size,
            updates=new_updates,
            train_time_s=now - self._last_time - eval_time,
            samples_used=new_updates * batch_size,
        ).rates()
        self._cum_time = now - self._start_time
        self._last_time, self._last_update_counter = now, updates
        self._n_itrs_logged = n_itrs_done
        if self._eval:  # Known only now that the total time is.
            logger.record_tabular("CumTrainTime", self._cum_time - self._cum_eval_time)
        logger.record_tabular("Iteration", itr)
        logger.record_tabular("CumTime (s)", self._cum_time)
        logger.record_tabular("CumSteps", cum_steps)
        logger.record_tabular("CumCompletedTrajs", self._cum_completed_trajs)
        logger.record_tabular("CumUpdates", updates)
        for name, value in rates.items():
            logger.record_tabular(name, value)
        logger.record_tabular("CumReplayRatio", updates * batch_size / max(cum_steps, 1))

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
        """What is saved at each log row, to use the trained agent: tensors and numbers only."""
        return {
            "itr": itr,
            "cum_steps": self._n_itrs_done(itr) * self.itr_batch_size,
            "agent_state_dict": self.agent.state_dict(),
            "optimizer_state_dict": self.algo.optim_state_dict(),
        }

    def save_itr_snapshot(self, itr: int) -> None:
        """Save the snapshot as the logger's snapshot mode says."""
        logger.log("saving snapshot...")
        logger.save_itr_params(itr, self.get_itr_snapshot(itr))
        logger.log("saved")

    def state_dict(self) -> dict[str, Any]:
        """Return all that the run needs to go on after the present iteration, replay included.

        Arrays in it are the live ones: save it before the next iteration.
        """
        return {
            "itr": self._itr,
            "seed": self.seed,
            "rng": rng_state(),
            "agent": self.agent.state_dict(),
            "algo": self.algo.state_dict(),
            "sampler": self.sampler.state_dict(),
            "cum_time": time.time() - self._start_time,
            "time_since_log": time.time() - self._last_time,
            "cum_eval_time": self._cum_eval_time,
            "cum_completed_trajs": self._cum_completed_trajs,
            "last_update_counter": self._last_update_counter,
            "n_itrs_logged": self._n_itrs_logged,
            "opt_infos": self._opt_infos,
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let :meth:`train` go on from ``state`` rather than from the start.

        Call it before ``train``, on a runner made from the same settings; ``n_steps`` may be
        larger. A subclass with a ``train`` of its own begins its loop at ``self.start_itr``, which
        ``startup`` has set by then.
        """
        self._resume_state = state

    def _resume(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.algo.load_state_dict(state["algo"])
        self.sampler.load_state_dict(state["sampler"])
        self._itr = state["itr"]
        self.start_itr = state["itr"] + 1
        now = time.time()
        self._last_time = now - state["time_since_log"]
        self._start_time = now - state["cum_time"]
        self._cum_eval_time = state["cum_eval_time"]
        self._cum_completed_trajs = state["cum_completed_trajs"]
        self._last_update_counter = state["last_update_counter"]
        self._n_itrs_logged = state["n_itrs_logged"]
        self._opt_infos = {name: list(values) for name, values in state["opt_infos"].items()}
        for callback, callback_state in zip(self.callbacks, state["callbacks"]):
            callback.load_state_dict(callback_state)
        # The log may be ahead of the state: those iterations are done again.
        logger.drop_tabular_after("Diagnostics/CumSteps", self.start_itr * self.itr_batch_size)
        # Last, since what was initialized above has drawn from the streams.
        set_rng_state(state["rng"])
        logger.log(f"Resuming after iteration {self._itr}.")

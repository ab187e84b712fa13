"""The log of a run: its counters, and the values of a row."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.utils.collections import AttrDict, fields_of
from rlpyt.utils.logging import logger

NAN = float("nan")
# Columns that are in the files, and not in the table of the console.
UNREAD = (
    "NewCompletedTrajs",
    "StepsInTrajWindow",
    "StepsInEval",
    "CumEvalTime",
    "CumTrainTime",
    "ReplayRatio",
    "CumReplayRatio",
    "DiscountedReturnAverage",
    "NonzeroRewardsAverage",
)
# Fields of the log that are saved without conversion.
COUNTERS = (
    "cum_completed_trajs",
    "new_completed_trajs",
    "cum_eval_time",
    "last_steps",
    "last_update_counter",
    "sum_training_returns",
    "n_training_returns",
    "n_ends",
    "n_time_limits",
)


class RunLog:
    """Counters, clocks, opt infos and trajectories of a run.

    Attributes:
        opt_infos: values since the last row, by field of the opt info.
        traj_infos: trajectories that performance is measured on.
        cum_completed_trajs: number of training trajectories.
        new_completed_trajs: number of training trajectories since the last row.
        start_time: time at the start of the run.
        last_time: time at the last row.
        cum_time: seconds from the start to the last row.
        cum_eval_time: seconds spent in evaluation, up to the last row.
        last_steps: number of environment steps at the last row.
        last_update_counter: number of updates at the last row.
        sum_training_returns: sum of the returns of training trajectories since the last row, in
            runs that measure performance on others.
        n_training_returns: number of these trajectories.
        n_ends: number of ends of episodes since the last row, where time limits are known.
        n_time_limits: number of these ends that were time limits.
    """

    def __init__(self) -> None:
        self.traj_infos: Any = ()
        self.has_window = False
        self.start([])

    def start(self, opt_info_fields: Sequence[str]) -> None:
        """Reset all counters and clocks."""
        self.opt_infos: dict[str, list[Any]] = {name: [] for name in opt_info_fields}
        self.start_time = self.last_time = time.time()
        self.cum_time = self.cum_eval_time = 0.0
        self.last_steps = self.last_update_counter = 0
        self.cum_completed_trajs = self.new_completed_trajs = 0
        self.sum_training_returns, self.n_training_returns = 0.0, 0
        self.n_ends = self.n_time_limits = 0

    def keep_window(self, n_trajectories: int) -> None:
        """Measure performance on the last trajectories of training, ``n_trajectories`` at most."""
        self.traj_infos = deque(maxlen=n_trajectories)
        self.has_window = True

    def add_trajectories(self, traj_infos: Sequence[Any]) -> None:
        """Count trajectories of training, and add them to the window if there is one.

        Without it, a runner of the user's may count the new ones, as in rlpyt 0.1.2.
        """
        self.cum_completed_trajs += len(traj_infos)
        if self.has_window:
            self.new_completed_trajs += len(traj_infos)
            self.traj_infos.extend(traj_infos)
        else:
            self.sum_training_returns += sum(info.get("Return", NAN) for info in traj_infos)
            self.n_training_returns += len(traj_infos)

    def add_opt_info(self, opt_info: Any) -> None:
        """Keep the fields of ``opt_info``, lists or single values, until the next row."""
        for name, values in self.opt_infos.items():
            new = getattr(opt_info, name, [])  # A user's algorithm may return any object.
            values.extend(new if isinstance(new, (list, tuple)) else [new])

    # --- Rows ------------------------------------------------------------------------------------

    def measure(
        self,
        cum_steps: int,
        updates: int,
        batch_size: int,
        traj_infos: Sequence[Any] | None = None,
        eval_time: float = 0.0,
        wait_time: float | None = None,
    ) -> dict[str, Any]:
        """Return the values of a row, by column, and reset the counts for the next row.

        Rates cover the time since the last row, and are NaN if there were no steps.

        Args:
            cum_steps: number of environment steps so far.
            updates: number of updates so far.
            batch_size: number of samples in an update, over all processes.
            traj_infos: trajectories that performance is measured on; None for the window in this
                log.
            eval_time: seconds spent in evaluation since the last row.
            wait_time: seconds spent waiting for an asynchronous sampler since the last row; None if
                sampling, training and evaluation take turns; rates then exclude evaluation.
        """
        now = time.time()
        elapsed = max(now - self.last_time, 1e-9)
        new_steps, new_updates = cum_steps - self.last_steps, updates - self.last_update_counter
        measured = self.traj_infos if traj_infos is None else traj_infos
        n_measured_steps = sum(info["Length"] for info in measured)
        self.cum_time = now - self.start_time

        def per_second(count: int, seconds: float) -> float:
            return count / seconds if new_steps and seconds > 0 else NAN

        take_turns = wait_time is None
        active = elapsed - eval_time if take_turns else elapsed
        row = {
            "NewCompletedTrajs": self.new_completed_trajs,
            "StepsInTrajWindow": n_measured_steps,
            "StepsInEval": n_measured_steps,
            "TrajsInEval": len(measured),
            "CumEvalTime": self.cum_eval_time,
            "CumTrainTime": self.cum_time - self.cum_eval_time,
            "CumTime (s)": self.cum_time,
            "CumSteps": cum_steps,
            "CumCompletedTrajs": self.cum_completed_trajs,
            "CumUpdates": updates,
            "StepsPerSecond": per_second(new_steps, active),
            "NonEvalSamplesPerSecond": per_second(new_steps, elapsed - eval_time),
            "UpdatesPerSecond": per_second(new_updates, active),
            "ReplayRatio": new_updates * batch_size / max(1, new_steps),
            "CumReplayRatio": updates * batch_size / max(1, cum_steps),
            "OptThrottle": max(0.0, elapsed - (wait_time or 0.0)) / elapsed,
        }
        if take_turns and not new_steps:
            row["ReplayRatio"] = NAN
        self.last_time, self.last_steps, self.last_update_counter = now, cum_steps, updates
        self.new_completed_trajs = 0
        return row

    def count_ends(self, env: Any, mid_batch_reset: bool) -> None:
        """Count the ends of episodes in a batch of environments [T,B], and time limits among them.

        Only on the CPU, where nothing waits for the numbers.
        """
        done = env.done
        if "timeout" not in fields_of(env.env_info) or done.device.type != "cpu" or not done.any():
            return
        if not mid_batch_reset:  # The rows after an end are blank.
            done = done & (done.cumsum(0) == 1)
        self.n_ends += int(done.sum())
        self.n_time_limits += int((done & env.env_info.timeout.bool()).sum())

    def training_columns(self) -> dict[str, float]:
        """Return the columns of training trajectories since the last row, and begin the next.

        ``TrainingReturn`` is their mean return, if performance is measured on others;
        ``timeLimitShare``, the share of time limits among the ends of episodes.
        """
        columns = {}
        if self.n_training_returns:
            columns["TrainingReturn"] = self.sum_training_returns / self.n_training_returns
        if self.n_ends:
            columns["timeLimitShare"] = self.n_time_limits / self.n_ends
        self.sum_training_returns, self.n_training_returns = 0.0, 0
        self.n_ends = self.n_time_limits = 0
        return columns

    def record_infos(self, traj_infos: Sequence[Any]) -> None:
        """Record the statistics of trajectories, and of all opt infos since the last row."""
        for name in dict.fromkeys(name for info in traj_infos for name in info):
            if not name.startswith("_"):
                values = [info[name] for info in traj_infos if name in info]
                logger.record_tabular_misc_stat(name, values)
        successes = [info["_is_success"] for info in traj_infos if "_is_success" in info]
        if successes:
            logger.record_tabular("SuccessRate", float(np.mean(successes)))
        for name, values in self.opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self.drop_opt_infos()

    def drop_opt_infos(self) -> None:
        """Forget the opt infos up to now."""
        self.opt_infos = {name: [] for name in self.opt_infos}

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, with elapsed times in place of clock times."""
        now = time.time()
        return {
            "opt_infos": {name: _packed(values) for name, values in self.opt_infos.items()},
            "traj_infos": [dict(info) for info in self.traj_infos] if self.has_window else [],
            "cum_time": now - self.start_time,
            "time_since_log": now - self.last_time,
            **{name: getattr(self, name) for name in COUNTERS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``, after :meth:`start`."""
        now = time.time()
        self.opt_infos = {
            name: values.tolist() if isinstance(values, np.ndarray) else list(values)
            for name, values in state["opt_infos"].items()
        }
        if self.has_window:
            self.traj_infos.extend(AttrDict(info) for info in state["traj_infos"])
        for name in COUNTERS:
            setattr(self, name, state.get(name, 0))
        self.start_time = now - state["cum_time"]
        self.last_time = now - state["time_since_log"]


class InLog:
    """Attribute of a runner that is stored in its log, without the leading underscore."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name.lstrip("_")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance.run_log, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.run_log, self._name, value)


def drop_rows_after(itr: int, cum_steps: int) -> None:
    """Drop the rows after an iteration from the log, since they will be repeated."""
    logger.drop_tabular_after("Diagnostics/CumSteps", cum_steps)
    logger.drop_values_after(itr)


def _packed(values: list[Any]) -> Any:
    """Return ``values``, which may be a million, as an array if all are plain floats."""
    return np.array(values) if {*map(type, values)} == {float} else values

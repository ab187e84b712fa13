"""Hooks into a run without subclassing the runner: watch it, stop it, save from it.

runner = MinibatchRlEval(..., callbacks=[StopAtReturn(475), SaveState()])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt.core.protocols import Stateful
from rlpyt.utils.files import replacing
from rlpyt.utils.logging import logger
from rlpyt.utils.torch_compat import load


class Callback:
    """Is told what the runner does; override what you need.

    Every method gets the runner, whose parts (``algo``, ``agent``, ``sampler``) are at hand and
    whose ``stop()`` ends the run after the present iteration.
    """

    def on_start(self, runner: Any) -> None:
        """Everything is initialized, nothing is sampled yet."""

    def on_itr(self, runner: Any, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """An iteration has sampled, completing these trajectories, and learned."""

    def on_eval(self, runner: Any, itr: int, traj_infos: Sequence[Any]) -> None:
        """An evaluation has completed these trajectories."""

    def on_log(self, runner: Any, itr: int, traj_infos: Sequence[Any]) -> None:
        """A row was logged, whose performance was measured on these trajectories."""

    def on_end(self, runner: Any) -> None:
        """The run is over, completed, stopped or failed; nothing is shut down yet."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered between iterations, for runs which are continued."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``."""


def mean_return(traj_infos: Sequence[Any], field: str = "Return") -> float:
    """Mean of ``field`` over trajectories; -inf if there are none."""
    return float(np.mean([info[field] for info in traj_infos])) if traj_infos else -math.inf


class StopAtReturn(Callback):
    """Stops the run once the logged trajectories reach a mean return.

    Args:
        threshold: of the mean.
        field: of the trajectory info, such as ``Return`` or ``GameScore``.
        min_trajectories: fewer are not trusted.
    """

    def __init__(self, threshold: float, field: str = "Return", min_trajectories: int = 1) -> None:
        self.threshold = threshold
        self.field = field
        self.min_trajectories = min_trajectories

    def on_log(self, runner: Any, itr: int, traj_infos: Sequence[Any]) -> None:
        """Stop if the mean is reached."""
        mean = mean_return(traj_infos, self.field)
        if len(traj_infos) >= self.min_trajectories and mean >= self.threshold:
            logger.log(f"Mean {self.field} {mean:.4g} reached {self.threshold:g}: stopping.")
            runner.stop()


class SaveBest(Callback):
    """Saves the snapshot with the best mean return so far into the snapshot directory.

    Args:
        file_name: in the snapshot directory.
        field: of the trajectory info.
    """

    def __init__(self, file_name: str = "best.pkl", field: str = "Return") -> None:
        self.file_name = file_name
        self.field = field
        self.best = -math.inf

    def on_log(self, runner: Any, itr: int, traj_infos: Sequence[Any]) -> None:
        """Save if the mean is better than ever."""
        mean = mean_return(traj_infos, self.field)
        directory = logger.get_snapshot_dir()
        if directory is not None and mean > self.best:
            self.best = mean
            _save_whole(runner.get_itr_snapshot(itr), Path(directory) / self.file_name)

    def state_dict(self) -> dict[str, Any]:
        """Return the best mean so far."""
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``."""
        self.best = state["best"]


class SaveState(Callback):
    """Saves all a run needs to be continued as if it had not been stopped.

    Load the file with :func:`load_run_state` and give it to ``runner.load_state_dict`` before
    ``runner.train()``. It holds the replay buffer, so it is as large as that.

    Args:
        file_name: in the snapshot directory; overwritten each time, by an atomic replacement.
        interval_logs: save at every so many log rows.
    """

    def __init__(self, file_name: str = "run_state.pkl", interval_logs: int = 1) -> None:
        self.file_name = file_name
        self.interval_logs = interval_logs
        self._n_logs = 0

    def on_start(self, runner: Any) -> None:
        """Refuse runners which cannot go on from a state, before anything is lost."""
        if not isinstance(runner, Stateful):
            raise ValueError(
                f"SaveState cannot be a callback of {type(runner).__name__}, which cannot be "
                "continued: use MinibatchRl or SyncRl, or SaveBest and the snapshots of the logger"
            )

    def on_log(self, runner: Any, itr: int, traj_infos: Sequence[Any]) -> None:
        """Save if due."""
        self._n_logs += 1
        directory = logger.get_snapshot_dir()
        if directory is not None and self._n_logs % self.interval_logs == 0:
            _save_whole(runner.state_dict(), Path(directory) / self.file_name)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of log rows so far."""
        return {"n_logs": self._n_logs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``."""
        self._n_logs = state["n_logs"]


def load_run_state(file: str | Path) -> dict[str, Any]:
    """Load what :class:`SaveState` saved.

    Like all unpickling this can run code: open only files which you trust.
    """
    state: dict[str, Any] = load(file, trusted=True)
    return state


def _save_whole(obj: Any, file: Path) -> None:
    """Save ``obj``; a failure leaves the file as it was."""
    with replacing(file, "wb") as opened:
        torch.save(obj, opened)

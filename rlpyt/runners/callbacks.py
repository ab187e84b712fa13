"""Hooks into a run without subclassing the runner: watch it, stop it, save from it.

runner = MinibatchRlEval(..., callbacks=[StopAtReturn(475), SaveState()])
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt.checkpoints.files import MANIFEST
from rlpyt.checkpoints.store import Checkpoints
from rlpyt.core.protocols import RunnerLike, Stateful
from rlpyt.utils.files import replacing
from rlpyt.utils.logging import logger


class Callback:
    """Base class of callbacks: the runner calls a method at each event; override what you need.

    Every method gets the runner, with ``algo``, ``agent`` and ``sampler``; ``runner.stop()`` ends
    the run after the current iteration.
    """

    def on_start(self, runner: RunnerLike) -> None:
        """Called once everything is initialized, before anything is sampled.

        In a resumed run, this is after :meth:`load_state_dict`.
        """

    def on_itr(
        self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Called after each iteration, with the trajectories that it completed."""

    def on_eval(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Called after each evaluation, with the trajectories that it completed."""

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Called after each log row, with the trajectories behind its performance statistics."""

    def on_error(self, runner: RunnerLike, itr: int, error: Exception) -> bool:
        """Called when an iteration of a synchronous run fails, before the run ends with the error.

        Returns:
            Whether the callback made the runner go back to a checkpoint, to continue from there.
        """
        return False

    def on_end(self, runner: RunnerLike) -> None:
        """Called when the run is completed, stopped or failed, before anything is shut down."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to keep between iterations, for runs that are resumed."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""


def mean_return(traj_infos: Sequence[Any], field: str = "Return") -> float:
    """Return the mean of ``field`` over trajectories; -inf if there are none."""
    return float(np.mean([info[field] for info in traj_infos])) if traj_infos else -math.inf


class StopAtReturn(Callback):
    """Callback that stops the run once the logged trajectories reach a mean return.

    Args:
        threshold: mean that ends the run.
        field: field of the trajectory info, such as ``Return`` or ``GameScore``.
        min_trajectories: smallest number of trajectories for a reliable mean.
    """

    def __init__(self, threshold: float, field: str = "Return", min_trajectories: int = 1) -> None:
        self.threshold = threshold
        self.field = field
        self.min_trajectories = min_trajectories

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Stop if the mean is reached."""
        mean = mean_return(traj_infos, self.field)
        if len(traj_infos) >= self.min_trajectories and mean >= self.threshold:
            logger.log(f"Mean {self.field} {mean:.4g} reached {self.threshold:g}: stopping.")
            runner.stop()


class SaveBest(Callback):
    """Callback that saves the snapshot with the best mean return so far.

    Args:
        file_name: name of the file in the snapshot directory.
        field: field of the trajectory info.
    """

    def __init__(self, file_name: str = "best.pkl", field: str = "Return") -> None:
        self.file_name = file_name
        self.field = field
        self.best = -math.inf

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Save if the mean is the best so far."""
        mean = mean_return(traj_infos, self.field)
        directory = logger.get_snapshot_dir()
        if directory is not None and mean > self.best:
            file = Path(directory) / self.file_name
            if _save_whole(runner.get_itr_snapshot(itr), file):
                self.best = mean

    def state_dict(self) -> dict[str, Any]:
        """Return the best mean so far."""
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""
        self.best = state["best"]


class SaveState(Callback):
    """Callback that saves the whole state of a run into one file, to resume in another script.

    ``runner.train(checkpoint_interval_steps=...)`` saves in the background, and writes only the
    changed parts. Load the file with :func:`load_run_state` and pass the result to
    ``runner.load_state_dict`` before ``runner.train()``. The file contains the replay buffer, and
    is at least as large.

    Args:
        file_name: name of the file in the snapshot directory, replaced atomically each time.
        interval_logs: number of log rows from one save to the next.
    """

    def __init__(self, file_name: str = "run_state.pkl", interval_logs: int = 1) -> None:
        self.file_name = file_name
        self.interval_logs = interval_logs
        self._n_logs = 0

    def on_start(self, runner: RunnerLike) -> None:
        """Refuse runners that cannot resume, before training starts."""
        if not isinstance(runner, Stateful):
            raise ValueError(
                f"SaveState cannot be a callback of {type(runner).__name__}, which cannot be "
                "resumed: use a runner of the library, or SaveBest and the snapshots of the logger"
            )

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Save if due."""
        self._n_logs += 1
        directory = logger.get_snapshot_dir()
        if directory is not None and self._n_logs % self.interval_logs == 0:
            assert isinstance(runner, Stateful)
            # With a pickle protocol that supports arrays above 4 GiB.
            _save_whole(runner.state_dict(), Path(directory) / self.file_name, pickle_protocol=4)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of log rows so far."""
        return {"n_logs": self._n_logs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""
        self._n_logs = state["n_logs"]


class LoadReplay(Callback):
    """Callback that starts a run with the replay buffer of another run, in runs of one learner.

    The environments begin new episodes, so the last ones in the buffer are truncated. A run that is
    resumed has the buffer of its checkpoint.

    Args:
        path: directory of a run that saved checkpoints, or a snapshot in it, for the newest
            checkpoint; or path of a checkpoint.
    """

    _is_resumed = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def on_start(self, runner: RunnerLike) -> None:
        """Load the replay buffer.

        Raises:
            ValueError: if the run has several learners or no replay buffer, or if there is none to
                load.
        """
        is_resumed, self._is_resumed = self._is_resumed, False
        if is_resumed:
            return
        algo: Any = runner.algo
        if runner.world_size > 1 or not hasattr(algo, "replay_buffer"):
            lacks = "no replay buffer" if runner.world_size == 1 else "several learners"
            raise ValueError(
                f"LoadReplay fills the replay buffer of one learner, but this run of "
                f"{type(algo).__name__} has {lacks}: leave it out"
            )
        run_dir = self.path.parent if self.path.is_file() else self.path
        is_checkpoint = (run_dir / MANIFEST).exists()
        path = run_dir if is_checkpoint else Checkpoints(run_dir / "checkpoints").latest()
        saved = {} if path is None else Checkpoints(path.parent).load(path).get("algo", {})
        if "replay_buffer" not in saved:
            raise ValueError(
                f"{self.path} has no checkpoint with a replay buffer: runs save checkpoints that "
                "are started with --resume, or with resume='auto'"
            )
        algo.replay_buffer.load_state_dict(saved["replay_buffer"])
        algo.truncate_trajectories(range(runner.sampler.batch_spec.B))
        logger.log(f"Loaded the replay buffer of {path}.")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Keep the replay buffer of the resumed run."""
        self._is_resumed = True


class ResetLayers(Callback):
    """Callback that periodically gives the last layers of a Q-network new parameters.

    The optimizer forgets its state of them, and the target network gets the same parameters. What
    was learned returns from the replay buffer, without the overfitting to the first experience.

    Args:
        interval_updates: number of gradient updates from one reset to the next. The last one should
            come long before the end of the run.
        layers: names of submodules of the model, "head" in the models of the library.

    Source: Nikishin et al. 2022, arXiv:2205.07802, section 4; 20,000 updates for Atari 100k.
    """

    def __init__(self, interval_updates: int = 20_000, layers: Sequence[str] = ("head",)) -> None:
        self.interval_updates = interval_updates
        self.layers = layers
        self._n_resets = 0

    def on_start(self, runner: RunnerLike) -> None:
        """Refuse other agents and layers, and processes that would draw different parameters."""
        agent: Any = runner.agent
        if runner.world_size > 1 or not hasattr(agent, "reset_layers"):
            raise ValueError(
                f"ResetLayers needs one learner of Q-values, but this run of "
                f"{type(agent).__name__} has {runner.world_size} learners: leave it out"
            )
        agent.find_layers(agent.model, self.layers)

    def on_itr(
        self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Reset if due."""
        algo: Any = runner.algo
        n_resets = algo.update_counter // self.interval_updates
        if n_resets == self._n_resets:
            return
        self._n_resets = n_resets
        agent: Any = runner.agent
        for parameter in agent.reset_layers(self.layers):
            for value in algo.optimizer.state.get(parameter, {}).values():
                if isinstance(value, torch.Tensor):
                    value.zero_()  # In place, for compiled updates.
        logger.log(f"Reset {', '.join(self.layers)} after {algo.update_counter} updates.")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of resets so far."""
        return {"n_resets": self._n_resets}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""
        self._n_resets = state["n_resets"]


def load_run_state(file: str | Path) -> dict[str, Any]:
    """Load a file of :class:`SaveState`.

    Unpickling can run code: open only files that you trust.
    """
    state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=False)
    return state


def _save_whole(obj: Any, file: Path, pickle_protocol: int = 2) -> bool:
    """Save ``obj``, and return whether it is saved; after a failure, an earlier file is unchanged.

    A full disk does not end the run.
    """
    try:
        with replacing(file, "wb") as opened:
            torch.save(obj, opened, pickle_protocol=pickle_protocol)
    except (OSError, RuntimeError) as error:  # Torch raises the second.
        logger.log(f"WARNING: {file} could not be saved: {error!r}. The run continues.")
        return False
    return True

"""A guard against divergence, which saves a bundle to reproduce it, and stops or goes back.

A bundle is a directory with the checkpoint before the failure, the batch, and ``bundle.json``: the
error, seed, versions, and the program that was run. ``python -m rlpyt.reproduce BUNDLE`` runs it
again from there.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt.checkpoints.files import free_path, link_or_copy
from rlpyt.core.protocols import AlgoLike, RunnerLike
from rlpyt.core.records import NotFiniteError
from rlpyt.processes.child import WorkerError
from rlpyt.runners.callbacks import Callback, mean_return
from rlpyt.utils.buffer import as_numpy, named_leaves
from rlpyt.utils.files import replacing
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import reproduced_bundle, versions
from rlpyt.utils.types import Nested

BUNDLE, BATCH, CHECKPOINTS = "bundle.json", "batch.npz", "checkpoints"


class DivergenceError(RuntimeError):
    """A run that diverged: an observation or reward is not finite, or its return has collapsed."""


class ReturnCollapse(DivergenceError):
    """A mean return far below the best one."""


class DivergenceGuard(Callback):
    """Callback that detects divergence, writes a bundle to reproduce it, and stops or goes back.

    A run diverges if a loss, gradient, observation or reward is not finite, or if the mean return
    falls far below its best value. The bundle is written into the snapshot directory.

    Args:
        goes_back: whether the run continues from its last good checkpoint, with lower learning
            rates; False ends it with the error.
        learning_rate_factor: factor of all learning rates each time the run goes back.
        max_times: number of times a run goes back before it ends with the error.
        collapse: fraction of the improvement in the mean return, from the first logged value to the
            best; a greater loss counts as a collapse, unless it is within three standard errors of
            the mean. None to ignore returns.
        min_trajectories: smallest number of trajectories for a mean that counts.
        field: field of the trajectory info that is the return.

    Raises:
        ValueError: if a number is out of its range.
    """

    def __init__(
        self,
        goes_back: bool = False,
        learning_rate_factor: float = 0.5,
        max_times: int = 3,
        collapse: float | None = None,
        min_trajectories: int = 10,
        field: str = "Return",
    ) -> None:
        if not 0 < learning_rate_factor <= 1:
            raise ValueError(
                f"learning_rate_factor is {learning_rate_factor}: choose above 0 and at most 1"
            )
        if collapse is not None and not collapse > 0:
            raise ValueError(f"collapse is {collapse}: give a fraction above 0, or None")
        self.goes_back = goes_back
        self.learning_rate_factor = learning_rate_factor
        self.max_times = max_times
        self.collapse = collapse
        self.min_trajectories = min_trajectories
        self.field = field
        self._n_times = 0
        self._first: float | None = None
        self._best = -np.inf
        self._good_steps: int | None = None

    def on_start(self, runner: RunnerLike) -> None:
        """Refuse ``goes_back`` in runs that cannot go back, before training starts."""
        if not self.goes_back or reproduced_bundle() is not None:
            return
        if not runner.can_go_back:
            raise ValueError(
                "goes_back=True needs a run that one process trains, such as MinibatchRl: leave it "
                f"False with {type(runner).__name__}"
            )
        if runner.checkpoints is None:
            raise ValueError(
                "goes_back=True needs checkpoints to go back to: give train() "
                "checkpoint_interval_steps or checkpoint_interval_minutes"
            )

    def on_itr(
        self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Raise ``DivergenceError`` if the batch holds numbers that are not finite."""
        found = _not_finite(runner.sampler.samples_np)
        if found is not None:
            raise DivergenceError(f"{found} in the batch of iteration {itr}: fix the environment")

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Raise ``ReturnCollapse`` if the mean return has collapsed."""
        if self.collapse is None or len(traj_infos) < self.min_trajectories:
            return
        mean = mean_return(traj_infos, self.field)
        self._first = mean if self._first is None else self._first
        self._best = max(self._best, mean)
        limit = self._best - self.collapse * (self._best - self._first)
        spread = np.std([info[self.field] for info in traj_infos]) / math.sqrt(len(traj_infos))
        is_better = self._best > self._first
        if is_better and mean < min(limit, self._best - 3 * spread):
            raise ReturnCollapse(
                f"the mean {self.field} collapsed to {mean:.6g}, from {self._best:.6g}; it began "
                f"with {self._first:.6g} and collapse={self.collapse} sets the limit {limit:.6g}"
            )
        self._good_steps = (itr + 1) * runner.itr_batch_size

    def on_error(self, runner: RunnerLike, itr: int, error: Exception) -> bool:
        """Write the bundle; return whether the runner continues from an earlier checkpoint."""
        if reproduced_bundle() is not None or not _is_divergence(error, runner.sampler.samples_np):
            return False
        max_steps = self._good_steps if isinstance(error, ReturnCollapse) else None
        is_alone = runner.checkpoints is not None and runner.world_size == 1
        checkpoint = runner.checkpoints.last(max_steps) if is_alone else None
        directory = logger.get_snapshot_dir()
        if directory is None:
            logger.log("WARNING: the log has no directory, so no bundle is written.")
        else:
            try:
                bundle = write_bundle(Path(directory), runner, itr, error, checkpoint)
                logger.log(f"ERROR: {error}\nTo reproduce it: python -m rlpyt.reproduce {bundle}")
            except OSError as failure:  # As on a full disk.
                logger.log(f"WARNING: the bundle could not be written: {failure!r}.")
        if not self.goes_back or checkpoint is None or self._n_times >= self.max_times:
            return False
        n_times, best = self._n_times + 1, (self._first, self._best, self._good_steps)
        runner.go_back(checkpoint)
        # A checkpoint saved after the run last went back has lower learning rates already.
        factor = self.learning_rate_factor ** (n_times - self._n_times)
        self._n_times = n_times
        self._first, self._best, self._good_steps = best
        rates = scale_learning_rates(runner.algo, factor)
        logger.log(
            f"WARNING: going back to {checkpoint.name} ({n_times} of at most {self.max_times} "
            f"times), with learning rates {rates}."
        )
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the first and best return, and how often the run went back."""
        return {
            "n_times": self._n_times,
            "first": self._first,
            "best": self._best,
            "good_steps": self._good_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""
        self._n_times = state["n_times"]
        self._first, self._best = state["first"], state["best"]
        self._good_steps = state["good_steps"]


def scale_learning_rates(algo: AlgoLike, factor: float) -> list[float]:
    """Multiply the learning rates of all optimizers of ``algo``, and of their schedules.

    Returns:
        The learning rates of all parameter groups.
    """
    rates = []
    for optimizer in attributes_of(algo, torch.optim.Optimizer):
        for group in optimizer.param_groups:
            group["lr"] *= factor
            if "initial_lr" in group:
                group["initial_lr"] *= factor
            rates.append(float(group["lr"]))
    for schedule in attributes_of(algo, torch.optim.lr_scheduler.LRScheduler):
        schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
    return rates


def attributes_of(algo: AlgoLike, cls: type) -> list[Any]:
    """Return the objects of a class among the attributes of ``algo``, and in their lists."""
    values = vars(algo).values()
    parts = chain.from_iterable(x if isinstance(x, (list, tuple)) else [x] for x in values)
    # Two attributes may share one.
    return list({id(part): part for part in parts if isinstance(part, cls)}.values())


def write_bundle(
    directory: Path, runner: RunnerLike, itr: int, error: Exception, checkpoint: Path | None
) -> Path:
    """Write a bundle, and return its directory.

    Args:
        directory: parent directory of the bundle.
        runner: runner that failed.
        itr: failed iteration.
        error: error in this iteration.
        checkpoint: checkpoint before the failure; None to reproduce from the start of the run, as
            in runs of several processes.
    """
    bundle = free_path(directory / f"divergence_{itr}")
    bundle.mkdir(parents=True)
    if checkpoint is not None:
        copied = bundle / CHECKPOINTS / checkpoint.name
        shutil.copytree(checkpoint, copied, copy_function=link_or_copy)
    batch = runner.sampler.samples_np
    if batch is not None:
        arrays: dict[str, Any] = {name: as_numpy(x) for name, x in named_leaves(batch)}
        np.savez(bundle / BATCH, **arrays)
    main = vars(sys.modules["__main__"])
    spec = main.get("__spec__")
    content = {
        "error": {"type": type(error).__name__, "message": str(error)},
        "batch": _not_finite(batch) or "all observations and rewards are finite",
        "itr": itr,
        "seed": runner.seed,
        "program": {
            "module": None if spec is None else spec.name,
            "script": main.get("__file__"),
            "arguments": sys.argv[1:],
            "directory": os.getcwd(),
        },
        "versions": versions(),
    }
    with replacing(bundle / BUNDLE) as file:
        json.dump(content, file, indent=2)
    return bundle


def read_bundle(bundle: Path) -> dict[str, Any]:
    """Return the content of ``bundle.json``.

    Raises:
        ValueError: if ``bundle`` is not the directory of a bundle.
    """
    try:
        content: dict[str, Any] = json.loads((bundle / BUNDLE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{bundle} is not a bundle, since its {BUNDLE} cannot be read ({error}): give a "
            "directory divergence_... in the log of a run with DivergenceGuard"
        ) from error
    return content


def start_of(bundle: Path) -> tuple[Path | None, int]:
    """Return the checkpoint and the seed from which to reproduce the run of ``bundle``."""
    checkpoints = sorted((bundle / CHECKPOINTS).glob("checkpoint_*"))
    return (checkpoints[0] if checkpoints else None), read_bundle(bundle)["seed"]


def _not_finite(batch: Nested) -> str | None:
    """Return the name and place of the first observation or reward that is not finite."""
    if batch is None:
        return None
    for field in ("observation", "reward"):
        for name, array in named_leaves(getattr(batch.env, field), field):
            x = torch.as_tensor(array)
            # The sum is not finite if an element is not, and costs no memory.
            if x.is_floating_point() and not torch.isfinite(x.sum(dtype=torch.double)):
                places = torch.argwhere(~torch.isfinite(x)).tolist()
                if len(places):
                    t, b = places[0][:2]
                    return f"{name} of environment {b} is not finite at step {t}"
    return None


def _is_divergence(error: Exception, batch: Nested) -> bool:
    """Return whether ``error`` comes from numbers that are not finite, or from a collapse."""
    if isinstance(error, (FloatingPointError, DivergenceError)):
        return True
    # The error contains the traceback of the worker.
    in_worker = isinstance(error, WorkerError) and NotFiniteError.__name__ in str(error)
    return in_worker or _not_finite(batch) is not None  # Agents cannot act on such observations.

"""Branches: runs that continue from a checkpoint of another run, with some settings changed.

A branch has the state and the random numbers of its parent, and its log begins with the parent's
rows. So it differs from the parent, or from another branch, only by what was changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rlpyt.checkpoints.store import Checkpoints, step_of
from rlpyt.core.protocols import RunnerLike
from rlpyt.experiments.evaluation import configuration_in
from rlpyt.experiments.results.runs import read_params
from rlpyt.experiments.settings import checked, overridden
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.experiments.train import with_steps
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.checkpointing import DEFAULT_INTERVAL_MINUTES
from rlpyt.runners.divergence import attributes_of
from rlpyt.utils.names import flat

# Settings that are passed to optimizers, beside learning rates.
OF_OPTIMIZERS = ("optim.", "algo.optim_kwargs.")


class Branch(NamedTuple):
    """Start of a branch."""

    config: Config
    seed: int  # that of its parent
    checkpoint: Path  # to continue from
    changes: dict[str, Any]  # settings that differ from the parent's, by dotted name

    def record(self) -> dict[str, Any]:
        """Return the parameter that names the parent."""
        run_dir, step = self.checkpoint.parents[1].resolve(), step_of(self.checkpoint)
        return {"branch": {"run": str(run_dir), "step": step, "changes": self.changes}}

    def saving(self, saving: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments ``saving`` of ``runner.train`` for the start of the branch."""
        resumes = "resume" in saving and "checkpoint_interval_steps" not in saving
        minutes = {"checkpoint_interval_minutes": DEFAULT_INTERVAL_MINUTES} if resumes else {}
        return {**saving, **minutes, "resume": str(self.checkpoint)}

    def copy_log(self, run_dir: Path) -> None:
        """Begin the log with the rows of the parent; the runner drops those that come later."""
        shutil.copy(self.checkpoint.parents[1] / "progress.csv", run_dir)


def read_branch(text: str, words: Sequence[str], steps: float | None = None) -> Branch:
    """Return the start of a branch.

    Args:
        text: ``RUN@STEP``: directory of a run of ``rlpyt train``, and step of a checkpoint there.
        words: settings to change, in the form ``name=value``.
        steps: environment steps of the whole run; None for those of the parent.
    """
    run_dir, _, step = (text if "@" in text else f"{text}@").rpartition("@")
    paths = {step_of(path): path for path in Checkpoints(Path(run_dir, "checkpoints")).complete()}
    try:
        checkpoint = paths[int(float(step))]
    except (KeyError, ValueError):
        raise ValueError(
            f"--branch={text}: give RUN@STEP, with the directory of a run and the step of one of "
            f"its checkpoints; {run_dir} has {', '.join(map(str, paths)) or 'none'}"
        ) from None
    parent = checked(configuration_in(Path(run_dir)))
    config = checked(overridden(parent if steps is None else with_steps(parent, steps), words))
    before = dict(flat(parent))
    changes = {name: x for name, x in flat(config) if name not in before or x != before[name]}
    seed = read_params(Path(run_dir, "params.json"))["seed"]
    return Branch(config, seed, checkpoint, changes)


class ChangedOptimizers(Callback):
    """Callback that gives optimizers the settings that a branch changes, by dotted name.

    Their settings are part of their state, the parent's. A learning rate that follows a
    schedule keeps its place in it.
    """

    def __init__(self, changes: Iterable[str]) -> None:
        names = {name.rpartition(".")[2] for name in changes if name.startswith(OF_OPTIMIZERS)}
        is_rate = any(name.endswith("learning_rate") for name in changes)
        self.names = names | ({"lr"} if is_rate else set())

    def on_start(self, runner: RunnerLike) -> None:
        """Set what the constructors of the optimizers were given."""
        for optimizer in attributes_of(runner.algo, torch.optim.Optimizer):
            own = {name: x for name, x in optimizer.defaults.items() if name in self.names}
            for group in optimizer.param_groups:
                if "lr" in own and "initial_lr" in group:
                    scheduled = group["lr"] / group["initial_lr"] * own["lr"]
                    group.update({**own, "lr": scheduled, "initial_lr": own["lr"]})
                else:
                    group.update(own)
        if self.names:  # For schedules, which take their rates from the groups.
            runner.algo.load_optim_state_dict(runner.algo.optim_state_dict())

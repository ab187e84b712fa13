"""Comparison of two settings with as many seeds as it takes, added one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments.evaluation import configuration_in
from rlpyt.experiments.results.comparison import Comparison
from rlpyt.experiments.results.runs import (
    LoggedRun,
    files_of_runs,
    number,
    read_params,
    read_rows,
    task_of,
)
from rlpyt.experiments.results.sequential import SequentialTest
from rlpyt.experiments.results.statistics import probability_of_improvement
from rlpyt.experiments.settings import checked
from rlpyt.experiments.start import library_code, origin_of, run_calls, train_run
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.experiments.train import CHECKPOINT_INTERVAL_MINUTES


class Setting:
    """Runs of one setting below a directory, which differ in their seeds.

    Attributes:
        config: configuration that all runs have.
        origin: parameters that name the run with whose weights all start, if they do.
        runs: directories of the runs, by seed.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        records = files_of_runs(self.directory, "params.json")
        if not records:
            raise ValueError(
                f"{directory} has no run: start one with rlpyt train ... --log-dir {directory}"
            )
        if records[0].parent == self.directory:
            raise ValueError(
                f"{directory} is a run, and further seeds are trained beside it: give the "
                "directory above"
            )
        self.config: Config = {}
        self.origin: dict[str, Any] = {}
        self.runs: dict[int, Path] = {}
        for record in records:
            config, params = checked(configuration_in(record.parent)), read_params(record)
            if "branch" in params:
                raise ValueError(
                    f"{record.parent} is a branch of {params['branch']['run']}, and further seeds "
                    "have no run to branch from: compare as many branches of each with --paired"
                )
            seed, origin = params["seed"], origin_of(params)
            if not self.runs:
                self.config, self.origin = config, origin
            same = {**config, "affinity": {}} == {**self.config, "affinity": {}}
            if not same or origin != self.origin:
                raise ValueError(
                    f"{record.parent} has other settings than {next(iter(self.runs.values()))}: "
                    "give a directory of one setting and task"
                )
            if seed in self.runs:
                raise ValueError(f"{record.parent} and {self.runs[seed]} have one seed: remove one")
            self.runs[seed] = record.parent

    def seed(self, index: int) -> int:
        """Return a seed by its place: those of runs in order, then the next greater ones."""
        greater = itertools.count(max(self.runs) + 1)  # So that later calls have the same order.
        free = (s for s in greater if not (self.directory / f"run_{s}").exists())
        seeds = itertools.chain(sorted(self.runs), free)
        return next(itertools.islice(seeds, index, None))

    def train(self, seed: int) -> Path:
        """Return the directory of the finished run with this seed, trained if there is none.

        A run that was interrupted continues from its latest checkpoint.

        Raises:
            ValueError: if the run is to be made or continued by other code than the others.
        """
        run_dir = self.runs.get(seed, self.directory / f"run_{seed}")
        rows = read_rows(run_dir / "progress.csv")
        n_steps = self.config["runner"]["n_steps"]
        if rows and number(rows[-1].get("CumSteps")) >= 0.99 * n_steps:
            return run_dir
        others = [read_params(path / "params.json").get("code") for path in self.runs.values()]
        if {*others} - {library_code()}:
            raise ValueError(
                f"{self.directory} needs a run of seed {seed}, but its runs are of another version "
                "of the library: install that version, or train all seeds again"
            )
        if rows and not any((run_dir / "checkpoints").glob("*")):
            raise ValueError(f"{run_dir} ended early, without checkpoints: remove it")
        directory, name = str(run_dir.parent), run_dir.name.removeprefix("run_")
        calls = run_calls(self.config, seed, directory, name, bool(rows), self.origin)
        train_run(*calls, checkpoint_interval_minutes=CHECKPOINT_INTERVAL_MINUTES, resume="auto")
        self.runs[seed] = run_dir
        return run_dir


def compare_until(
    runs: str | Path,
    baseline: str | Path,
    confidence: float = 0.95,
    max_seeds: int = 20,
    y: str = "ReturnAverage",
    score_fraction: float = 0.5,
    tell: Callable[[str], Any] = print,
) -> str:
    """Add seeds to two settings, one at a time, until they differ or cannot differ any more.

    Finished runs count in the order of their seeds, and are not repeated; new ones have the
    settings that the others recorded. For ``y`` and ``score_fraction`` see
    :class:`~rlpyt.experiments.results.comparison.Comparison`.

    Args:
        runs: directory of runs of one setting and task, at least one.
        baseline: directory of runs of another.
        confidence: 1 minus the probability to decide if there is no difference.
        max_seeds: largest number of seeds of each setting.
        tell: function that is called with a line after each seed.

    Returns:
        "better", "worse" or "undecided", of ``runs``.
    """
    test = SequentialTest(confidence, max_seeds)
    settings = Setting(runs), Setting(baseline)
    names = [task_of(setting.config) for setting in settings]
    if names[0] != names[1]:
        raise ValueError(
            f"{runs} has the environment {names[0]}, {baseline} has {names[1]}: compare runs of one"
        )
    lengths = [setting.config["runner"]["n_steps"] for setting in settings]
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"runs of {runs} have {lengths[0]:,.0f} steps, those of {baseline} {lengths[1]:,.0f}: "
            "compare runs of one length"
        )
    seeds = [[setting.seed(i) for i in range(max_seeds)] for setting in settings]
    for n in range(1, max_seeds + 1):
        logged = [
            LoggedRun(setting.train(seed) / "progress.csv", label)
            for setting, chosen, label in zip(settings, seeds, ("runs", "baseline"))
            for seed in chosen[:n]
        ]
        scores = Comparison(logged, y=y, score_fraction=score_fraction, n_resamples=1).scores
        ours, theirs = (scores.get(("", x), np.zeros(0)) for x in ("runs", "baseline"))
        if not len(ours) == len(theirs) == n:
            raise ValueError(f"a run has no number in {y}: name another column, or look at the run")
        verdict = test.verdict(ours, theirs)
        needed = 0.5 + test.critical[n - 1]
        limit = f"decides at {needed:.2f} or {1 - needed:.2f}" if needed < 2 else "too few"
        share = probability_of_improvement([ours], [theirs])
        tell(f"{n} seeds each: better in {share:.2f} of all pairs; {limit}")
        if verdict is not None:
            return verdict
    raise AssertionError("the last look always has a verdict")

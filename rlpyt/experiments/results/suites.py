"""Suites of tasks with published scores: benchmarks that are reported over all their tasks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from rlpyt.experiments.results.comparison import Comparison, interval_text
from rlpyt.experiments.results.runs import LoggedRun, write_rows
from rlpyt.experiments.results.statistics import (
    Estimate,
    Statistic,
    interquartile_mean,
    mean,
    median_of_tasks,
    optimality_gap,
)
from rlpyt.utils.types import NDArray

AGGREGATES: dict[str, Statistic] = {
    "IQM": interquartile_mean,
    "median": median_of_tasks,
    "mean": mean,
    "optimality gap": optimality_gap,
}


class Suite(NamedTuple):
    """Tasks that are reported together, on the scale 0 for random actions and 1 for a human."""

    ranges: dict[str, tuple[float, float]]  # scores of random actions and of a human
    published: dict[str, dict[str, float]]  # by algorithm and task
    column: str  # column of the log with the score
    n_steps: int  # environment steps of a run


# Column and steps; a csv file has the scores, and a table of entries the same name.
SUITES = {"atari_100k": ("GameScoreAverage", 100_000)}


def load_suite(name: str) -> Suite:
    """Return the suite of this name, whose scores are in ``NAME.csv`` beside this module."""
    if name not in SUITES:
        raise ValueError(f"there is no suite {name!r}: choose one of {', '.join(SUITES)}")
    with Path(__file__).with_name(f"{name}.csv").open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    labels = [column for column in rows[0] if column not in ("task", "random", "human")]
    return Suite(
        {row["task"]: (float(row["random"]), float(row["human"])) for row in rows},
        {label: {row["task"]: float(row[label]) for row in rows} for label in labels},
        *SUITES[name],
    )


class SuiteComparison(Comparison):
    """Comparison of runs on a suite, beside published scores on the tasks that the runs have.

    Column, steps and ranges of the suite are defaults of the settings, the arguments of
    :class:`~rlpyt.experiments.results.comparison.Comparison`.

    Attributes:
        published: [1] score of each task on the common scale, for each published algorithm.
    """

    def __init__(self, runs: Sequence[LoggedRun], suite: Suite, **settings: Any) -> None:
        own = {"y": suite.column, "min_steps": suite.n_steps, "score_ranges": suite.ranges}
        super().__init__(runs, **{**own, **settings})
        self.scale = "human-normalized score"
        self.published: dict[str, list[NDArray]] = {
            label: [self._scaled(task, np.array([scores[task]])) for task in self.tasks]
            for label, scores in suite.published.items()
        }
        missing = [task for task in suite.ranges if task not in self.tasks]
        if missing:
            self.notes.append(
                f"All numbers, the published ones too, are of {len(self.tasks)} of "
                f"{len(suite.ranges)} tasks; without runs: {', '.join(missing)}"
            )

    @cached_property
    def aggregates(self) -> dict[tuple[str, str], Estimate]:
        """Statistics over all tasks, for each (name, label); of published scores too."""
        return {
            (name, label): self._estimate(statistic, scores)
            for name, statistic in AGGREGATES.items()
            for label, scores in self.scaled_scores.items()
        }

    @cached_property
    def scaled_scores(self) -> dict[str, list[NDArray]]:
        """Scores of each complete label, and published ones, for each task, on one scale."""
        return {**super().scaled_scores, **self.published}

    def table(self) -> str:
        rows = [
            [name, label, found.value, interval_text(found)]
            for (name, label), found in self.aggregates.items()
        ]
        head = [self.scale, "label", "value", f"{self.level} interval"]
        return "\n\n".join([super().table(), tabulate(rows, head)])

    def write_csv(self, directory: str | Path) -> list[Path]:
        written = super().write_csv(directory)
        file = Path(directory) / "aggregates.csv"
        rows = ([*key, *found] for key, found in self.aggregates.items())
        write_rows(file, ("statistic", "label", "value", "low", "high"), rows)
        return [*written, file]

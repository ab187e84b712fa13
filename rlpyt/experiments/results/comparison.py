"""Numbers of a comparison of runs: curves, scores and their statistics, as tables and csv files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from rlpyt.experiments.results import runs as logs
from rlpyt.experiments.results.runs import STEPS, LoggedRun
from rlpyt.experiments.results.statistics import (
    STATISTICS,
    Estimate,
    Statistic,
    estimate,
    performance_profile,
    probability_of_improvement,
)
from rlpyt.utils.names import did_you_mean
from rlpyt.utils.types import NDArray

# Points of a curve; more would only cost time, without a visible difference.
MAX_POINTS = 400
ALL_TASKS = "all tasks"


class Curve(NamedTuple):
    """Statistic of one label's runs along their curves."""

    x: NDArray  # [P] x-values, up to the last one that all runs reach.
    runs: NDArray  # [N, P] values of the runs.
    estimate: Estimate  # [P] values, with their intervals.


class Comparison:
    """Comparison of runs with several labels on one or several tasks.

    The score of a run is the mean of its values over the last part of the steps that are common to
    all runs of its task. Scores of different tasks are brought to one scale, (score - low) / (high
    - low), before they are combined; with one task they are unchanged.

    Args:
        runs: runs, for example from :func:`~rlpyt.experiments.results.runs.find_runs`.
        y: column to compare.
        x: column of the horizontal axis.
        statistic: ``"iqm"`` (interquartile mean), ``"mean"`` or ``"median"`` of the runs.
        confidence: confidence level of the intervals.
        smooth: number of log rows over which curves are averaged; scores are not smoothed.
        score_fraction: fraction of the steps, at the end of a run, over which its score is
            averaged.
        score_ranges: scores (low, high) of each task that become 0 and 1, such as those of a random
            and a human player; if None, the lowest and the highest score on the task.
        min_steps: smallest end of a run on the horizontal axis; shorter runs are left out.
        baseline: label that others are compared with; if None, the first.
        n_resamples: number of bootstrap resamples.

    Attributes:
        labels: labels, in the order of the runs.
        complete_labels: labels with runs of every task, the only ones compared over all tasks.
        tasks: tasks in alphabetical order.
        scores: [N] scores of the runs with each (task, label).
        scale: name of the scale on which scores of all tasks are put together.
        notes: sentences about runs that are left out or short.

    Raises:
        ValueError: if no run has values, or an argument has an unknown name.
    """

    def __init__(
        self,
        runs: Sequence[LoggedRun],
        y: str = "ReturnAverage",
        x: str = STEPS,
        statistic: str = "iqm",
        confidence: float = 0.95,
        smooth: int = 1,
        score_fraction: float = 0.1,
        score_ranges: Mapping[str, tuple[float, float]] | None = None,
        min_steps: float = 0,
        baseline: str | None = None,
        n_resamples: int = 2000,
    ) -> None:
        if not 0 <= score_fraction <= 1:
            raise ValueError(f"score_fraction={score_fraction} must lie between 0 and 1")
        self.y, self.x, self.smooth, self.confidence = y, x, smooth, confidence
        self.score_fraction = score_fraction
        self.n_resamples = n_resamples
        self.statistic = _known(statistic, STATISTICS, "statistic")
        self.notes: list[str] = []
        self._curves = self._read(runs, min_steps)
        self.labels = list(dict.fromkeys(run.label for run in self._curves))
        self.tasks = sorted({run.task for run in self._curves})
        self.complete_labels = [
            label for label in self.labels if all(self._of(task, label) for task in self.tasks)
        ]
        if self.complete_labels != self.labels:
            others = ", ".join(sorted(set(self.labels) - set(self.complete_labels)))
            self.notes.append(f"Not compared over all tasks, since runs are missing: {others}")
        self.baseline = self.complete_labels[0] if self.complete_labels else ""
        if baseline is not None:
            self.baseline = _known(baseline, self.complete_labels, "baseline")
        self.scores = {
            (task, label): np.array([self._score(run) for run in self._of(task, label)])
            for task in self.tasks
            for label in self.labels
            if self._of(task, label)
        }
        self.scale, self._ranges = self._make_scale(score_ranges)

    @property
    def level(self) -> str:
        """Confidence level of the intervals as text, such as "95%"."""
        return f"{100 * self.confidence:g}%"

    @cached_property
    def curves(self) -> dict[tuple[str, str], Curve]:
        """Curve of each (task, label); with several tasks also of ``ALL_TASKS``, on one scale."""
        found = {}
        for task, label in self.scores:
            runs = self._of(task, label)
            x = self._places(runs)
            values = self._values(runs, x)
            found[task, label] = Curve(x, values, self._estimate(self._pooled, [values]))
        for label in self.complete_labels if len(self.tasks) > 1 else ():
            x = self._places([run for run in self._curves if run.label == label])
            of_tasks = [
                self._scaled(task, self._values(self._of(task, label), x)) for task in self.tasks
            ]
            together = self._estimate(self._pooled, of_tasks)
            found[ALL_TASKS, label] = Curve(x, np.concatenate(of_tasks), together)
        return found

    @cached_property
    def summary(self) -> dict[tuple[str, str], Estimate]:
        """Score of each (task, label); with several tasks also of ``ALL_TASKS``, on one scale."""
        found = {key: self._estimate(self._pooled, [scores]) for key, scores in self.scores.items()}
        for label in self.complete_labels if len(self.tasks) > 1 else ():
            found[ALL_TASKS, label] = self._estimate(self._pooled, self.scaled_scores[label])
        return found

    @cached_property
    def scaled_scores(self) -> dict[str, list[NDArray]]:
        """Scores [N] of each complete label for each task, on one scale."""
        return {
            label: [self._scaled(task, self.scores[task, label]) for task in self.tasks]
            for label in self.complete_labels
        }

    @cached_property
    def thresholds(self) -> NDArray:
        """Scores of the performance profiles, from below the lowest to above the highest."""
        if not self.scaled_scores:
            return np.zeros(0)
        scores = np.concatenate([x for of_label in self.scaled_scores.values() for x in of_label])
        margin = 0.02 * (scores.max() - scores.min()) or 0.1 * (abs(scores.max()) or 1.0)
        return np.linspace(scores.min() - margin, scores.max() + margin, 200)

    @cached_property
    def profiles(self) -> dict[str, Estimate]:
        """For each label with scaled scores, the fraction of its runs above each threshold."""
        return {
            label: self._estimate(lambda x: performance_profile(x, self.thresholds), scores)
            for label, scores in self.scaled_scores.items()
        }

    @cached_property
    def improvements(self) -> dict[str, Estimate]:
        """For each other complete label, the probability that a run beats one of the baseline."""
        n = len(self.tasks)
        return {
            label: self._estimate(
                lambda drawn: probability_of_improvement(drawn[:n], drawn[n:]),
                [*self.scaled_scores[label], *self.scaled_scores[self.baseline]],
            )
            for label in self.complete_labels
            if label != self.baseline
        }

    def n_runs(self, task: str, label: str) -> int:
        """Return the number of a label's runs on a task, or on all tasks."""
        tasks = self.tasks if task == ALL_TASKS else [task]
        return sum(len(self.scores.get((name, label), ())) for name in tasks)

    def table(self) -> str:
        """Return the scores, the probabilities of improvement and the notes as text."""
        interval = f"{self.level} interval"
        rows = [
            [*key, self.n_runs(*key), found.value, interval_text(found)]
            for key, found in self.summary.items()
        ]
        parts = [tabulate(rows, ["task", "label", "runs", self.statistic, interval])]
        if self.improvements:
            rows = [[name, p.value, interval_text(p)] for name, p in self.improvements.items()]
            head = ["label", f"probability of more than {self.baseline}", interval]
            parts.append(tabulate(rows, head))
        uneven = [
            f"IQM and mean of {label}: tasks count by their number of runs"
            for label in self.complete_labels
            if len({self.n_runs(task, label) for task in self.tasks}) > 1
        ]
        return "\n\n".join([*parts, *self.notes, *uneven])

    def write_csv(self, directory: str | Path) -> list[Path]:
        """Write scores, summary, curves, profiles and improvement, and return the paths."""
        named, limits = (self.statistic, "low", "high"), ("low", "high")
        counts = {key: (*key, self.n_runs(*key)) for key in (*self.summary, *self.curves)}
        files: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]] = {
            "scores": (
                ("task", "label", "file", "score"),
                ((run.task, run.label, run.csv_file, self._score(run)) for run in self._curves),
            ),
            "summary": (
                ("task", "label", "runs", *named),
                ((*counts[key], *found) for key, found in self.summary.items()),
            ),
            "curves": (
                ("task", "label", "runs", self.x, *named),
                (
                    (*counts[key], *row)
                    for key, curve in self.curves.items()
                    for row in zip(curve.x, *curve.estimate)
                ),
            ),
            "profiles": (
                ("label", "score", "fraction", *limits),
                (
                    (label, *row)
                    for label, profile in self.profiles.items()
                    for row in zip(self.thresholds, *profile)
                ),
            ),
            "improvement": (
                ("label", "baseline", "probability", *limits),
                ((label, self.baseline, *found) for label, found in self.improvements.items()),
            ),
        }
        for name, (head, rows) in files.items():
            logs.write_rows(Path(directory, f"{name}.csv"), head, rows)
        return [Path(directory, f"{name}.csv") for name in files]

    def _read(self, runs: Sequence[LoggedRun], min_steps: float) -> dict[LoggedRun, NDArray]:
        """Return the curves of the runs that have values."""
        curves: dict[LoggedRun, NDArray] = {}
        lacks, has_column = None, False
        for run in runs:
            if not logs.read_rows(run.csv_file):
                self.notes.append(f"Left out, without a row yet: {run.csv_file}")
                continue
            try:
                curve = logs.read_curve(run.csv_file, self.y, self.x)
                has_column = True
            except ValueError as error:  # Before its first episode ends, a run lacks such columns.
                curve, lacks = np.empty(0), error
            if not curve.size:
                self.notes.append(f"Left out, without a number in {self.y}: {run.csv_file}")
            elif curve[0, -1] < min_steps:
                self.notes.append(f"Left out, ends at {curve[0, -1]:,.0f}: {run.csv_file}")
            else:
                curves[run] = curve
        if lacks is not None and not has_column:
            raise lacks
        if not curves:
            least = f" and {min_steps:,.0f} steps" if min_steps else ""
            raise ValueError("\n".join([f"No run has values of y={self.y!r}{least}", *self.notes]))
        for task in sorted({run.task for run in curves}):
            ends = {run: curve[0, -1] for run, curve in curves.items() if run.task == task}
            shortest = min(ends, key=lambda run: ends[run])
            if ends[shortest] < 0.9 * max(ends.values()):
                self.notes.append(
                    f"Scores are taken at {ends[shortest]:,.0f} of {max(ends.values()):,.0f}, "
                    f"where the shortest run ends; min_steps leaves it out: {shortest.csv_file}"
                )
        return curves

    def _make_scale(
        self, given: Mapping[str, tuple[float, float]] | None
    ) -> tuple[str, dict[str, tuple[float, float]]]:
        """Return the name of the common scale, and the scores of each task that become 0 and 1."""
        if given is not None:
            for task, (low, high) in given.items():
                if not -np.inf < low < high < np.inf:
                    raise ValueError(
                        f"the range {low:g}:{high:g} of {task!r} in score_ranges is none: give two "
                        "numbers, the lower first"
                    )
            missing = [task for task in self.tasks if task not in given]
            if missing:
                raise ValueError(
                    f"score_ranges lacks the task {missing[0]!r}{did_you_mean(missing[0], given)}; "
                    f"it has {', '.join(given) or 'none'}"
                )
            return "score on the scale of the given ranges", dict(given)
        if len(self.tasks) == 1:
            return axis_label(self.y), {self.tasks[0]: (0.0, 1.0)}
        ranges = {}
        for task in self.tasks:
            scores = np.concatenate([s for (other, _), s in self.scores.items() if other == task])
            low, high = float(scores.min()), float(scores.max())
            ranges[task] = (low, high if high > low else low + 1.0)
        return "score, 0 for the lowest and 1 for the highest run of each task", ranges

    def _pooled(self, scores: Sequence[NDArray]) -> NDArray:
        return STATISTICS[self.statistic](scores)

    def _estimate(self, statistic: Statistic, scores: Sequence[NDArray]) -> Estimate:
        return estimate(statistic, scores, self.confidence, self.n_resamples)

    def _scaled(self, task: str, values: NDArray) -> NDArray:
        low, high = self._ranges[task]
        return np.asarray((values - low) / (high - low))

    def _of(self, task: str, label: str) -> list[LoggedRun]:
        return [run for run in self._curves if (run.task, run.label) == (task, label)]

    def _places(self, runs: Sequence[LoggedRun]) -> NDArray:
        """Return the places of all rows where every run has values, at most ``MAX_POINTS``."""
        start = max(self._curves[run][0, 0] for run in runs)
        end = min(self._curves[run][0, -1] for run in runs)
        places = np.unique(np.concatenate([self._curves[run][0] for run in runs]))
        places = places[(places >= min(start, end)) & (places <= end)]
        if len(places) > MAX_POINTS:
            places = places[np.linspace(0, len(places) - 1, MAX_POINTS).astype(int)]
        return np.asarray(places)

    def _values(self, runs: Sequence[LoggedRun], x: NDArray) -> NDArray:
        curves = [self._curves[run] for run in runs]
        return np.stack(
            [np.interp(x, places, logs.moving_mean(y, self.smooth)) for places, y in curves]
        )

    def _score(self, run: LoggedRun) -> float:
        """Return the mean over the last part of the steps that all runs of the task have."""
        end = min(c[0, -1] for other, c in self._curves.items() if other.task == run.task)
        places, values = self._curves[run]
        last = (places > (1 - self.score_fraction) * end) & (places <= end)
        return float(values[last].mean() if last.any() else np.interp(end, places, values))


def axis_label(column: str) -> str:
    """Return the readable name of a column, or the column if it has none."""
    return {STEPS: "environment steps", "ReturnAverage": "mean return"}.get(column, column)


def interval_text(found: Estimate) -> str:
    """Return the limits of an interval in words."""
    if np.isnan(found.low):
        return "none: one run only"
    return " to ".join(number_text(float(x)) for x in (found.low, found.high))


def number_text(x: float) -> str:
    """Return a number with four significant digits, or up to seven before the point."""
    return f"{x:.0f}" if 1000 <= abs(x) < 1e7 else f"{x:.4g}"


def _known(name: str, known: Iterable[str], argument: str) -> str:
    if name not in known:
        raise ValueError(
            f"{argument}={name!r} must be one of {', '.join(known)}{did_you_mean(name, known)}"
        )
    return name

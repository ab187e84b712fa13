"""A gate, which tests whether runs learn worse than a baseline: any other directory of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from rlpyt.experiments.catalog import located
from rlpyt.experiments.results.comparison import ALL_TASKS, Comparison
from rlpyt.experiments.results.runs import (
    STEPS,
    LoggedRun,
    files_of_runs,
    is_repetition,
    params_beside,
    read_columns,
    read_params,
    task_of,
)
from rlpyt.experiments.results.statistics import (
    Estimate,
    estimate,
    interquartile_mean,
    probability_of_improvement,
)
from rlpyt.utils.types import NDArray

RUNS, OTHERS = "runs", "baseline"


class Line(NamedTuple):
    """Comparison on one task, or on all of them."""

    task: str
    n_runs: tuple[int, int]  # of runs and of baseline runs
    improvement: Estimate  # probability that a run outscores a baseline run
    effect: Estimate  # difference of interquartile means, in units of the baseline's range
    is_worse: bool  # whether the runs learn worse
    is_open: bool  # whether there are too few runs for a verdict


def compare(
    runs: str | Path,
    baseline: str | Path,
    tolerance: float = 0.1,
    y: str = "ReturnAverage",
    score_fraction: float = 0.5,
    confidence: float = 0.95,
    paired: bool = False,
) -> tuple[list[Line], list[str]]:
    """Compare runs with a baseline, on each task and on all tasks together.

    Runs are worse if the confidence interval for their probability of improvement lies below 1/2,
    and their interquartile mean falls short by more than ``tolerance`` times the baseline's range
    (from the lowest to the highest interquartile mean on its curve). The first condition alone
    would report differences that do not matter, the second alone would report bad luck. All tasks
    have equal weight. With fewer than three runs on a side there is no verdict. Each of n lines has
    the confidence 1 - (1 - confidence) / n (Bonferroni), since luck may befall any of them.

    With ``paired``, runs of equal seed are compared with each other, such as branches of one run:
    P(improvement) and effect are of the differences, and resamples draw pairs. For ``y`` and
    ``score_fraction`` see :class:`~rlpyt.experiments.results.comparison.Comparison`.

    Returns:
        A line for each task, and for all tasks if there are several; and sentences about runs that
        are left out or short.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1, such as 0.95")
    found, known = _tasks(located(runs)), _tasks(located(baseline))
    if len(found) == len(known) == 1:  # The name of the directory does not matter.
        found = {next(iter(known)): files for files in found.values()}
    name = Path(runs).resolve().name
    found, known = ({task or name: x for task, x in tasks.items()} for tasks in (found, known))
    both = [task for task in known if task in found]
    if not both:
        raise ValueError(
            f"runs={str(runs)!r} has the tasks {', '.join(found) or 'none'}, and "
            f"baseline={str(baseline)!r} has {', '.join(known) or 'none'}: give directories with a "
            "task in common; each directory in them is a task, with runs inside"
        )
    for task in both:
        _check_environments(found[task], known[task])
        if paired:
            found[task], known[task] = _in_pairs(task, found[task], known[task])
    comparison = Comparison(
        [
            LoggedRun(csv_file, label, task)
            for label, tasks in ((OTHERS, known), (RUNS, found))
            for task in both
            for csv_file in tasks[task]
        ],
        y=y,
        score_fraction=score_fraction,
        n_resamples=1,
    )
    scores = {}
    for task in both:
        if {(task, RUNS), (task, OTHERS)} <= comparison.scores.keys():
            n_scores = {len(comparison.scores[task, label]) for label in (RUNS, OTHERS)}
            if paired and n_scores != {len(found[task])}:
                raise ValueError(f"a run of {task} has no number in {y}: pairs need both")
            curve = comparison.curves[task, OTHERS].estimate.value
            if len(curve) < 2:
                raise ValueError(
                    f"the baseline of {task} has one row, and no range to measure the effect by: "
                    "log more rows"
                )
            unit = float(np.ptp(curve)) or 1.0
            scores[task] = [comparison.scores[task, label] / unit for label in (RUNS, OTHERS)]
    if missing := [task for task in both if task not in scores]:
        raise ValueError(
            f"no run of {', '.join(missing)} has a number in {y} in both runs={str(runs)!r} and "
            f"baseline={str(baseline)!r}: name another column, or look at why the runs ended"
        )
    for task in both:
        _check_ends(task, [*found[task], *known[task]], y)
    groups = {task: [pair] for task, pair in scores.items()}
    if len(scores) > 1:
        groups[ALL_TASKS] = list(scores.values())
    confidence = 1 - (1 - confidence) / len(groups)
    lines = [_line(task, pairs, tolerance, confidence, paired) for task, pairs in groups.items()]
    one_sided = sorted(found.keys() ^ known.keys())
    notes = [f"Not compared, in one directory only: {', '.join(one_sided)}"] if one_sided else []
    return lines, [*comparison.notes, *notes]


def _check_environments(ours: Sequence[Path], theirs: Sequence[Path]) -> None:
    """Raise ``ValueError`` if the runs of both sides recorded different environments."""
    sides = [sorted({task_of(params_beside(file)) for file in x} - {""}) for x in (ours, theirs)]
    if all(sides) and sides[0] != sides[1]:
        names = [", ".join(side) for side in sides]
        raise ValueError(
            f"{ours[0].parent} has the environment {names[0]}, {theirs[0].parent} has {names[1]}: "
            "compare runs of one environment, or those of several below directories of equal names"
        )


def _check_ends(task: str, files: Sequence[Path], y: str) -> None:
    """Raise ``ValueError`` if a run breaks off: all would be compared at its last step."""
    all_places = [read_columns(file, STEPS, y) for file in files]
    longest = max(places[0].max(initial=0) for places in all_places)
    for file, places in zip(files, all_places):
        end = places[0, np.isfinite(places).all(axis=0)].max(initial=0)
        planned = min(longest, params_beside(file).get("runner.n_steps", longest))
        if end < 0.9 * planned:
            raise ValueError(
                f"{file} of {task} has no number in {y} after {end:,.0f} of {planned:,.0f} steps: "
                "look at why the run broke off"
            )


def _in_pairs(task: str, ours: list[Path], theirs: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files of both sides in the order of their seeds, which must be equal."""
    sides = [sorted(files, key=_seed_of) for files in (ours, theirs)]
    seeds = [[_seed_of(file) for file in files] for files in sides]
    if seeds[0] != seeds[1] or len(set(seeds[0])) < len(seeds[0]):
        raise ValueError(
            f"the runs of {task} have the seeds {seeds[0]}, those of the baseline {seeds[1]}: "
            "paired needs the same seeds on both sides, each once"
        )
    return sides[0], sides[1]


def _seed_of(csv_file: Path) -> int:
    record = csv_file.with_name("params.json")
    seed = read_params(record).get("seed")
    if seed is None:
        raise ValueError(f"{record} has no seed, and paired compares runs of equal seed")
    return int(seed)


def _line(
    task: str,
    scores: Sequence[Sequence[NDArray]],
    tolerance: float,
    confidence: float,
    paired: bool,
) -> Line:
    """Return the line of tasks, given their scores [N] in units of the range."""
    ours, theirs = ([pair[side] for pair in scores] for side in (0, 1))
    if paired:  # The runs are their differences, and are compared with no difference.
        ours = [x - y for x, y in zip(ours, theirs)]
        theirs = [np.zeros_like(x) for x in ours]
    n = len(ours)

    def difference(drawn: Sequence[NDArray]) -> NDArray:
        each = [interquartile_mean([x]) - interquartile_mean([y]) for x, y in zip(drawn, drawn[n:])]
        return np.asarray(np.mean(each))

    improvement = estimate(
        lambda drawn: probability_of_improvement(drawn[:n], drawn[n:]),
        [*ours, *theirs],
        confidence,
    )
    effect = estimate(difference, [*ours, *theirs], confidence)
    # All of two runs lose to all of two others in one of six cases, by luck.
    is_open = min(map(len, [*ours, *theirs])) < 3
    is_worse = bool(not is_open and improvement.high < 0.5 and effect.value < -tolerance)
    n_runs = sum(map(len, ours)), sum(map(len, theirs))
    return Line(task, n_runs, improvement, effect, is_worse, is_open)


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a text table."""
    rows = []
    for line in lines:
        verdict = "better" if line.improvement.low > 0.5 else "no worse"
        if line.is_worse or line.is_open:
            verdict = "worse" if line.is_worse else "too few runs"
        improvement, effect = (
            (format(found.value, form), _interval(found))
            for found, form in ((line.improvement, ".2f"), (line.effect, "+.2f"))
        )
        rows.append((line.task, *line.n_runs, *improvement, *effect, verdict))
    head = ("task", RUNS, OTHERS, "P(improvement)", "interval", "effect", "interval", "verdict")
    return str(tabulate(rows, head, disable_numparse=True))


def _tasks(directory: Path) -> dict[str, list[Path]]:
    """Return the csv files of each task, by its path in the directory."""
    tasks: dict[str, list[Path]] = {}
    for csv_file in files_of_runs(directory):
        parts = csv_file.parent.relative_to(directory).parts
        task = "/".join(part for part in parts if not is_repetition(part))
        tasks.setdefault(task, []).append(csv_file)
    if not tasks:
        raise ValueError(
            f"directory={str(directory)!r} has no runs: give one with progress.csv in it or below"
        )
    return tasks


def _interval(found: Estimate) -> str:
    return "none" if np.isnan(found.low) else f"{found.low:.2f} to {found.high:.2f}"

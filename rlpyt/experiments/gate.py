"""A gate, which tests whether runs learn worse than a baseline, and short runs for this purpose.

A baseline is any directory of runs, or of csv files ``<task>_seed<n>.csv`` with two columns, as
:func:`keep` writes them. The library has one of its own, ``BASELINE``: the short runs of ``TASKS``.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from rlpyt.experiments.catalog import unknown
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.results.comparison import ALL_TASKS, Comparison
from rlpyt.experiments.results.runs import (
    STEPS,
    LoggedRun,
    is_repetition,
    read_columns,
    read_curve,
    write_rows,
)
from rlpyt.experiments.results.statistics import (
    Estimate,
    estimate,
    interquartile_mean,
    probability_of_improvement,
)
from rlpyt.experiments.train import configuration, log_call
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.log import Logger
from rlpyt.utils.types import NDArray

BASELINE = Path(__file__).with_name("baseline")
RUNS, OTHERS = "runs", "baseline"

# Steps and words of ``rlpyt train``; each run takes seconds on one core. On CartPole learning rates
# are so high that still higher ones do harm.
_QUICK = ("learning_rate=5e-3", "hidden_sizes=[64,64]", "runner.log_traj_window=10", "threads=1")
TASKS: dict[str, tuple[float, tuple[str, ...]]] = {
    "ppo_cartpole": (1e4, ("ppo", "CartPole-v1", *_QUICK)),
    "dqn_cartpole": (8e3, ("dqn", "CartPole-v1", "batch_size=64", "eps_steps=2e3", *_QUICK)),
    "sac_pendulum": (
        4e3,
        (
            "sac",
            "Pendulum-v1",
            "discount=0.9",
            "batch_size=64",
            "replay_ratio=32",
            "min_steps_learn=500",
            "target_update_tau=0.02",
            "q_model_kwargs={'hidden_sizes': [64, 64]}",
            "batch_T=2",
            "batch_B=2",
            *_QUICK,
        ),
    ),
}


class Line(NamedTuple):
    """Comparison on one task, or on all of them.

    Attributes:
        task: name of the task.
        n_runs: numbers of runs and of baseline runs.
        improvement: probability that a run outscores a baseline run.
        effect: difference of the interquartile means, in units of the baseline's range.
        is_worse: whether the runs learn worse.
        is_open: whether there are too few runs for a verdict.
    """

    task: str
    n_runs: tuple[int, int]
    improvement: Estimate
    effect: Estimate
    is_worse: bool
    is_open: bool


def compare(
    runs: str | Path,
    baseline: str | Path = BASELINE,
    tolerance: float = 0.1,
    y: str = "ReturnAverage",
    score_fraction: float = 0.5,
    confidence: float = 0.95,
) -> tuple[list[Line], list[str]]:
    """Compare runs with a baseline, on each task and on all tasks together.

    Runs are worse if the confidence interval for their probability of improvement lies below 1/2,
    and their interquartile mean falls short by more than ``tolerance`` times the baseline's range
    (from the lowest to the highest interquartile mean on its curve). The first condition alone
    would report differences that do not matter, the second alone would report bad luck. All tasks
    have equal weight. With fewer than three runs on a side there is no verdict. Each of n lines has
    the confidence 1 - (1 - confidence) / n (Bonferroni), since luck may befall any of them.

    Args:
        runs: directory of runs.
        baseline: directory of runs, or of csv files ``<task>_seed<n>.csv``.
        tolerance: fraction of the baseline's range.
        y: column to compare; more is better.
        score_fraction: fraction of the steps, at the end of a run, over which its score is
            averaged.
        confidence: confidence level of the intervals of all lines together.

    Returns:
        A line for each task, and for all tasks if there are several; and sentences about runs that
        are left out or short.

    Raises:
        ValueError: if ``confidence`` is not between 0 and 1, the directories have no task in
            common, one side of a task has no number, or one of the runs breaks off.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1, such as 0.95")
    found, known = _tasks(Path(runs)), _tasks(Path(baseline))
    if len(found) == len(known) == 1:  # The name of the directory does not matter.
        found = {next(iter(known)): files for files in found.values()}
    both = [task for task in known if task in found]
    if not both:
        raise ValueError(
            f"runs={str(runs)!r} has the tasks {', '.join(found) or 'none'}, and "
            f"baseline={str(baseline)!r} has {', '.join(known) or 'none'}: give directories with a "
            "task in common; each directory in them is a task, with runs inside"
        )
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
            curve = comparison.curves[task, OTHERS].estimate.value
            unit = float(np.ptp(curve)) or 1.0
            scores[task] = [comparison.scores[task, label] / unit for label in (RUNS, OTHERS)]
    if missing := [task for task in both if task not in scores]:
        raise ValueError(
            f"no run of {', '.join(missing)} has a number in {y} in both runs={str(runs)!r} and "
            f"baseline={str(baseline)!r}: name another column, or look at why the runs ended"
        )
    for task in both:
        _check_ends(task, found[task], y)
    groups = {task or Path(runs).resolve().name: [pair] for task, pair in scores.items()}
    if len(scores) > 1:
        groups[ALL_TASKS] = list(scores.values())
    confidence = 1 - (1 - confidence) / len(groups)
    lines = [_line(task, pairs, tolerance, confidence) for task, pairs in groups.items()]
    one_sided = sorted(found.keys() ^ known.keys())
    notes = [f"Not compared, in one directory only: {', '.join(one_sided)}"] if one_sided else []
    return lines, [*comparison.notes, *notes]


def _check_ends(task: str, files: Sequence[Path], y: str) -> None:
    """Raise ``ValueError`` if a run breaks off: only those that do not would be compared."""
    all_places = [read_columns(file, STEPS, y) for file in files]
    ends = [places[0, np.isfinite(places).all(axis=0)].max(initial=0) for places in all_places]
    longest = max(places[0].max(initial=0) for places in all_places)
    if min(ends) < 0.9 * longest:
        raise ValueError(
            f"{files[int(np.argmin(ends))]} of {task} has no number in {y} after {min(ends):,.0f} "
            f"of {longest:,.0f} steps: look at why the run broke off"
        )


def _line(
    task: str, scores: Sequence[Sequence[NDArray]], tolerance: float, confidence: float
) -> Line:
    """Return the line of tasks, given their scores [N] in units of the range."""
    ours, theirs = ([pair[side] for pair in scores] for side in (0, 1))
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
    rows = [
        (
            line.task,
            *line.n_runs,
            f"{line.improvement.value:.2f}",
            _interval(line.improvement),
            f"{line.effect.value:+.2f}",
            _interval(line.effect),
            _verdict(line),
        )
        for line in lines
    ]
    head = ("task", RUNS, OTHERS, "P(improvement)", "interval", "effect", "interval", "verdict")
    return str(tabulate(rows, head, disable_numparse=True))


def _verdict(line: Line) -> str:
    if line.is_worse or line.is_open:
        return "worse" if line.is_worse else "too few runs"
    return "better" if line.improvement.low > 0.5 else "no worse"


def train(
    directory: str | Path,
    seeds: Sequence[int],
    tasks: Sequence[str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Iterator[Path]:
    """Train each task with each seed, one after the other, and yield the directory of each run.

    Args:
        directory: directory of the runs ``<task>/run_<seed>``.
        seeds: seeds.
        tasks: names in ``TASKS``; None for all.
        changes: changes of all configurations, by section.

    Raises:
        ValueError: if a task is unknown, or a run is there already.
    """
    tasks = list(TASKS) if tasks is None else tasks
    for task in tasks:
        if task not in TASKS:
            raise unknown("task", task, TASKS)
    runs = [(task, seed, Path(directory, task, f"run_{seed}")) for task in tasks for seed in seeds]
    for *_, run_dir in runs:
        if run_dir.exists():
            raise ValueError(f"{run_dir} has a run already: choose another directory")
    for task, seed, run_dir in runs:
        steps, (name, *words) = TASKS[task]
        config = configuration(name, words, steps, changes)
        log = log_call(config, seed, str(run_dir.parent), seed)
        with logger.using(Logger(sinks=[])), log.make():
            runner_call(config, seed).make().train()
        yield run_dir


def keep(runs: str | Path, baseline: str | Path = BASELINE, y: str = "ReturnAverage") -> None:
    """Write the curves of runs as a small baseline: ``<task>_seed<n>.csv`` of two columns each.

    They replace what the baseline has of these tasks.

    Args:
        runs: directory of runs.
        baseline: directory of the csv files.
        y: column of the values.
    """
    for task, csv_files in _tasks(Path(runs)).items():
        for old in Path(baseline).glob(f"{glob.escape(task)}_seed*.csv"):
            old.unlink()
        for n, csv_file in enumerate(csv_files):
            rows = ([int(x), f"{value:.4g}"] for x, value in read_curve(csv_file, y).T)
            kept = Path(baseline, f"{task}_seed{n}.csv")
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_rows(kept, (STEPS, y), rows)


def _tasks(directory: Path) -> dict[str, list[Path]]:
    """Return the csv files of each task, by its path in the directory."""
    tasks: dict[str, list[Path]] = {}
    for csv_file in sorted(directory.rglob("*.csv")):
        parts = csv_file.relative_to(directory).parts
        if csv_file.name == "progress.csv":
            parts = tuple(part for part in parts[:-1] if not is_repetition(part))
        elif match := re.fullmatch(r"(.+)_seed\d+\.csv", csv_file.name):
            parts = (*parts[:-1], match[1])
        else:
            continue
        tasks.setdefault("/".join(parts), []).append(csv_file)
    if not tasks:
        raise ValueError(
            f"directory={str(directory)!r} has no runs: give one with progress.csv or "
            "<task>_seed<n>.csv in it or below"
        )
    return tasks


def _interval(found: Estimate) -> str:
    return "none" if np.isnan(found.low) else f"{found.low:.2f} to {found.high:.2f}"

"""Pictures of a comparison of runs: learning curves, performance profiles, improvement."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments.results.comparison import ALL_TASKS, Comparison, axis_label
from rlpyt.experiments.results.runs import STEPS, LoggedRun, find_runs
from rlpyt.experiments.results.statistics import Estimate
from rlpyt.experiments.results.suites import AGGREGATES, SuiteComparison, load_suite
from rlpyt.utils.names import import_extra

# Okabe and Ito 2008, https://jfly.uni-koeln.de/color: colour-blind readers distinguish them.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.")
SMALL = {"fontsize": "small", "title_fontsize": "small", "frameon": False}
PUBLISHED = {"color": "#777777", "linestyle": "--"}


def plot_results(
    directories: Sequence[str | Path],
    output_dir: str | Path = "plots",
    by: Sequence[str] = (),
    task: str | None = None,
    formats: Sequence[str] = ("png", "svg"),
    title: str = "",
    show_runs: bool = False,
    suite: str | None = None,
    **settings: Any,
) -> tuple[Comparison, list[Path]]:
    """Compare the runs in directories, and write pictures and csv files.

    ``curves`` has a panel for each task, and one for all of them; ``profiles`` the performance
    profiles; ``improvement``, if there are several labels, the probability that a run is better
    than one of the baseline; ``aggregates``, for a suite, interquartile mean, median, mean and
    optimality gap beside published ones. The csv files hold the numbers of the pictures, and the
    scores.

    Args:
        directories: paths of runs, settings or sweeps, see
            :func:`~rlpyt.experiments.results.runs.find_runs`.
        output_dir: directory of the files, made if needed.
        by: parameters to label by.
        task: parameter that names the task.
        formats: extensions of the pictures.
        title: title of the pictures.
        show_runs: whether single runs are drawn too, as thin curves.
        suite: name of the suite of tasks, see :mod:`rlpyt.experiments.results.suites`; None if the
            tasks are of none.
        settings: further arguments of :class:`~rlpyt.experiments.results.comparison.Comparison`.

    Returns:
        The comparison, whose ``table()`` can be printed, and the paths of the files.

    Raises:
        ValueError: if there is nothing to compare, or an argument has an unknown name.
        ImportError: if matplotlib is not installed.
    """
    _new_figure(1, 1, (1, 1))  # Fails before anything is written.
    runs = find_runs(directories, by, task)
    of_suite = None if suite is None else SuiteComparison(runs, load_suite(suite), **settings)
    comparison = of_suite or Comparison(runs, **settings)
    output_dir = Path(output_dir)
    files = comparison.write_csv(output_dir)
    figures = {"curves": draw_curves(comparison, title, show_runs)}
    if comparison.profiles:
        figures["profiles"] = draw_profiles(comparison, title)
    if comparison.improvements:
        figures["improvement"] = draw_improvement(comparison, title)
    if of_suite is not None:
        figures["aggregates"] = draw_aggregates(of_suite, title)
    for name, figure in figures.items():
        files += [_save(figure, output_dir / f"{name}.{extension}") for extension in formats]
    return comparison, files


def plot_learning_curves(
    runs: Mapping[str, Sequence[str | Path]],
    picture_file: str | Path,
    y: str = "ReturnAverage",
    x: str = STEPS,
    title: str = "",
    **settings: Any,
) -> None:
    """Draw the interquartile mean of each label's runs, its interval, and the runs.

    Args:
        runs: ``progress.csv`` files of each label, typically one for each seed.
        picture_file: path of the picture; its extension determines the format.
        y: column of the vertical axis.
        x: column of the horizontal axis.
        title: title of the picture.
        settings: further arguments of :class:`~rlpyt.experiments.results.comparison.Comparison`.
    """
    listed = [
        LoggedRun(Path(file), label) for label, csv_files in runs.items() for file in csv_files
    ]
    _save(draw_curves(Comparison(listed, y, x, **settings), title, True), Path(picture_file))


def draw_curves(comparison: Comparison, title: str = "", show_runs: bool = False) -> Any:
    """Return a matplotlib figure with the curves of each task, and of all tasks together."""
    EngFormatter = import_extra("matplotlib.ticker", "A picture", "plot").EngFormatter
    panels = list(dict.fromkeys(task for task, _ in comparison.curves))
    n_columns = min(len(panels), 4 if len(panels) > 6 else 3 if len(panels) != 4 else 2)
    n_rows = math.ceil(len(panels) / n_columns)
    size = (7, 4.2) if len(panels) == 1 else (3.8 * n_columns, 3.1 * n_rows + 0.6)
    figure, axes = _new_figure(n_rows, n_columns, size)
    for panel, task in zip(axes, panels):
        for label in comparison.labels:
            curve = comparison.curves.get((task, label))
            if curve is None:
                continue
            style = {**_style(comparison, label), "marker": "o" if len(curve.x) == 1 else ""}
            panel.plot(curve.x, curve.estimate.value, linewidth=1.8, **style)
            _fill(panel, curve.x, curve.estimate, style["color"])
            if show_runs and task != ALL_TASKS and len(curve.runs) > 1:
                panel.plot(curve.x, curve.runs.T, linewidth=0.6, alpha=0.5, **style)
        y_label = comparison.scale if task == ALL_TASKS else axis_label(comparison.y)
        panel.set(title=task, xlabel=axis_label(comparison.x), ylabel=textwrap.fill(y_label, 32))
        panel.grid(alpha=0.3)
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    _legend(figure, axes, len(panels), comparison)
    figure.suptitle(title)
    return figure


def draw_profiles(comparison: Comparison, title: str = "") -> Any:
    """Return a matplotlib figure with the fraction of runs above every score."""
    figure, (axes,) = _new_figure(1, 1, (7, 4.2))
    thresholds, handles = comparison.thresholds, []
    for label, found in comparison.profiles.items():
        is_own, style = label in comparison.labels, _style(comparison, label)
        name = f"{label} ({_n_runs(comparison, label)})" if is_own else f"{label}, published"
        step = {"linewidth": 1.8, "label": name, "where": "post", **style}
        handles += axes.step(thresholds, found.value, **step)
        _fill(axes, thresholds, found, style["color"], step="post")
    axes.set(
        xlabel=textwrap.fill(f"{comparison.scale}, {_score_words(comparison)}", 80),
        ylabel="fraction of runs with more",
        ylim=(-0.02, 1.02),
        title=title,
    )
    axes.grid(alpha=0.3)
    legend_title = f"{comparison.level} stratified bootstrap intervals"
    axes.legend(handles=handles, title=legend_title, **SMALL)
    return figure


def draw_improvement(comparison: Comparison, title: str = "") -> Any:
    """Return a matplotlib figure with each label's probability of improvement on the baseline."""
    others = list(comparison.improvements)
    figure, (axes,) = _new_figure(1, 1, (7, 1.6 + 0.4 * len(others)))
    for place, (label, found) in enumerate(comparison.improvements.items()):
        _draw_interval(axes, place, found, _style(comparison, label)["color"])
    axes.axvline(0.5, color="black", linewidth=0.8)
    axes.set_yticks(range(len(others)), others)
    interval = f"{comparison.level} stratified bootstrap interval"
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(len(others) - 0.5, -0.5),
        xlabel=f"probability of a higher score than {comparison.baseline}\n"
        f"({_score_words(comparison)}; {interval})",
        title=title,
    )
    axes.grid(alpha=0.3, axis="x")
    return figure


def draw_aggregates(comparison: SuiteComparison, title: str = "") -> Any:
    """Return a matplotlib figure with statistics over all tasks, beside those of published scores.

    Published scores have hollow markers.
    """
    labels = [label for name, label in comparison.aggregates if name == "IQM"]
    has_intervals = not all(np.isnan(found.low) for found in comparison.aggregates.values())
    figure, axes = _new_figure(1, len(AGGREGATES), (11, 1.9 + 0.4 * len(labels)))
    for panel, name in zip(axes, AGGREGATES):
        for place, label in enumerate(labels):
            found, is_own = comparison.aggregates[name, label], label in comparison.labels
            color = _style(comparison, label)["color"]
            _draw_interval(panel, place, found, color, mfc=color if is_own else "none")
            above = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center"}
            panel.annotate(f"{found.value:.3f}", (found.value, place), fontsize="small", **above)
        wrapped = [textwrap.fill(label, 24) for label in labels]
        panel.set_yticks(range(len(labels)), wrapped if panel is axes[0] else [])
        panel.set(title=name, ylim=(len(labels) - 0.5, -0.7))
        panel.margins(x=0.25)
        if not has_intervals:  # Nothing else shows how large a difference is.
            panel.update_datalim([(0, 0)])
        panel.locator_params(axis="x", nbins=4)
        panel.grid(alpha=0.3, axis="x")
    words = f"{comparison.scale}, {len(comparison.tasks)} tasks"
    if has_intervals:
        words += f"; {comparison.level} stratified bootstrap intervals"
    figure.supxlabel(words, fontsize="medium")
    figure.suptitle(title)
    return figure


def _draw_interval(axes: Any, place: int, found: Estimate, color: str, **marker: str) -> None:
    if not np.isnan(found.low):
        axes.barh(place, found.high - found.low, 0.3, found.low, color=color, alpha=0.3)
    axes.plot(found.value, place, "o", color=color, **marker)


def _new_figure(n_rows: int, n_columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    matplotlib = import_extra("matplotlib.figure", "A picture", "plot")
    figure = matplotlib.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    return figure, list(axes.flat)


def _save(figure: Any, path: Path) -> Path:
    import matplotlib

    # The same numbers give the same file.
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "rlpyt"}):
        figure.savefig(os.fspath(path), dpi=130, metadata=metadata)
    return path


def _style(comparison: Comparison, label: str) -> dict[str, Any]:
    """Return the style of a label's lines, the same in every picture."""
    if label not in comparison.labels:
        return PUBLISHED
    number = comparison.labels.index(label)
    line = LINES[number // len(COLORS) % len(LINES)]
    return {"color": COLORS[number % len(COLORS)], "linestyle": line}


def _fill(axes: Any, x: Any, found: Estimate, color: str, step: str | None = None) -> None:
    if not np.isnan(found.low).all():
        axes.fill_between(x, found.low, found.high, color=color, alpha=0.2, lw=0, step=step)


def _legend(figure: Any, axes: Sequence[Any], n_panels: int, comparison: Comparison) -> None:
    from matplotlib.lines import Line2D

    names = {label: f"{label} ({_n_runs(comparison, label)})" for label in comparison.labels}
    handles = [Line2D([], [], label=name, **_style(comparison, x)) for x, name in names.items()]
    statistic = {"iqm": "interquartile mean"}.get(comparison.statistic, comparison.statistic)
    title = [f"{statistic} of runs, {comparison.level} stratified bootstrap interval"]
    if comparison.smooth > 1:
        title.append(f"smoothed: mean of the last {comparison.smooth} log rows")
    if n_panels == 1:
        axes[0].legend(handles=handles, title="\n".join(title), alignment="left", **SMALL)
    else:
        longest_inches = 0.075 * max(map(len, names.values())) + 0.6
        n_columns = max(1, min(len(handles), 4, int(figure.get_figwidth() / longest_inches)))
        place = {"loc": "outside lower center", "ncols": n_columns}
        figure.legend(handles=handles, title="; ".join(title), **place, **SMALL)


def _n_runs(comparison: Comparison, label: str) -> str:
    """Return the number of a label's runs on each task."""
    counts = {len(scores) for (_, name), scores in comparison.scores.items() if name == label}
    least, most = min(counts), max(counts)
    number = str(most) if least == most else f"{least} to {most}"
    words = "1 run" if most == 1 else f"{number} runs"
    words += " each" if len(comparison.tasks) > 1 else ""
    return words + (", no interval" if least == 1 else "")


def _score_words(comparison: Comparison) -> str:
    return f"mean over the last {comparison.score_fraction:.0%} of steps"

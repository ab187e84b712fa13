"""Pictures of learning curves, made from ``progress.csv`` files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.utils.types import NDArray

STEPS = "Diagnostics/CumSteps"


def read_columns(csv_file: str | Path, *names: str) -> NDArray:
    """Read columns of a ``progress.csv``.

    Args:
        csv_file: path of a file written by the logger.
        names: names of the columns.

    Returns:
        [len(names), rows] float64, NaN where there is no number.

    Raises:
        ValueError: if there is no row yet, or a column is missing.
    """
    with open(csv_file, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        columns = list(reader.fieldnames or ())
    if not rows:
        raise ValueError(f"csv_file={str(csv_file)!r} has no rows yet: wait for the first log row")
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"{csv_file} has no column {missing[0]!r}, only {', '.join(columns)}")
    return np.array([[_number(row[name]) for row in rows] for name in names])


def plot_learning_curves(
    runs: Mapping[str, Sequence[str | Path]],
    picture_file: str | Path,
    y: str = "ReturnAverage",
    x: str = STEPS,
    title: str = "",
) -> None:
    """Draw the runs of each label as thin curves, and their mean as a thick one.

    Args:
        runs: ``progress.csv`` files of each label, typically one for each seed.
        picture_file: path of the picture; its extension determines the format.
        y: column of the vertical axis.
        x: column of the horizontal axis.
        title: title of the picture.
    """
    import matplotlib  # Installed by the extra ``plot``, needed only here.

    matplotlib.use("Agg", force=False)
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for label, csv_files in runs.items():
        curves = [read_columns(csv_file, x, y) for csv_file in csv_files]
        mean_x, mean_y = _mean_curve(curves)
        (line,) = axes.plot(mean_x, mean_y, label=f"{label}", linewidth=2)
        if len(curves) > 1:
            for curve in curves:
                axes.plot(*curve, color=line.get_color(), linewidth=0.7, alpha=0.5)
    axes.set(xlabel=_spoken(x), ylabel=_spoken(y), title=title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(picture_file, dpi=130)
    pyplot.close(figure)


def _number(field: str | None) -> float:
    try:
        return float(field or "nan")
    except ValueError:
        return float("nan")


def _mean_curve(curves: Sequence[NDArray]) -> tuple[NDArray, NDArray]:
    """Return the mean of curves where all of them have values, on the points of the first."""
    end = min(curve[0, -1] for curve in curves)
    points = curves[0][0][curves[0][0] <= end]
    ys: list[Any] = [np.interp(points, *curve) for curve in curves]
    return points, np.mean(ys, axis=0)


def _spoken(column: str) -> str:
    return {STEPS: "environment steps", "ReturnAverage": "mean return"}.get(column, column)

"""Runs below a directory, with their labels, tasks and learning curves."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlpyt.experiments.catalog import located
from rlpyt.utils.files import make_parent
from rlpyt.utils.names import did_you_mean, flat
from rlpyt.utils.types import NDArray

STEPS = "Diagnostics/CumSteps"
# Parameters with the task of a run, in the tables of experiments and in the examples.
TASK_KEYS = ("env.id", "env.game", "env_id", "game", "env", "roles.env")


class LoggedRun(NamedTuple):
    """Finished or running run."""

    csv_file: Path  # path of ``progress.csv``
    label: str  # name of the setting; runs with equal label and task are repetitions
    task: str = ""  # name of the task


def find_runs(
    directories: Sequence[str | Path], by: Sequence[str] = (), task: str | None = None
) -> list[LoggedRun]:
    """Return the runs in directories and below.

    A label consists of the parts of the path in which the runs differ, without ``run_<n>`` and
    ``seed<n>``, and without the part that only repeats the task.

    Args:
        directories: paths of runs, settings or whole sweeps, or ``zoo:NAME``; ``NAME=DIRECTORY``
            gives a name for the label.
        by: parameters of ``params.json`` to label by, instead of the parts of the path below the
            given directories, such as ``algo.learning_rate``.
        task: parameter that names the task; if None, the first of ``TASK_KEYS`` that a run has.
    """
    given = [_named_directory(os.fspath(directory)) for directory in directories]
    if not given:
        raise ValueError("directories is empty: give the directory of a run or of a sweep")
    heads = _heads(given)
    csv_files: dict[Path, tuple[str, ...]] = {}
    for (_, directory), head in zip(given, heads):
        for csv_file in _csv_files(directory):
            inside = csv_file.parent.relative_to(directory).parts
            parts = tuple(part for part in inside if not is_repetition(part))
            csv_files.setdefault(csv_file, (*head, *(() if by else parts)))
    params = {csv_file: params_beside(csv_file) for csv_file in csv_files}
    known = sorted({name for one in params.values() for name in one})
    for key in (*by, *(() if task is None else (task,))):
        if key not in known:
            raise ValueError(
                f"No params.json has the parameter {key!r}{did_you_mean(key, known)}; "
                f"there are {', '.join(known) or 'none'}"
            )
    tasks = [task_of(one) if task is None else str(one.get(task, "")) for one in params.values()]
    labels = _labels(list(csv_files.values()), tasks, all(name for name, _ in given))
    own_name = [part for part in given[0][1].parts if not is_repetition(part)][-1]
    if given[0][0] and len({name for name, _ in given}) == 1:
        own_name = given[0][0]
    runs = []
    for (csv_file, one), label, task_name in zip(params.items(), labels, tasks):
        values = [f"{key.split('.')[-1]}={one.get(key, 'not set')}" for key in by]
        label = ", ".join(filter(None, (label, *values))) or own_name
        runs.append(LoggedRun(csv_file, label, task_name))
    return runs


def files_of_runs(directory: Path, name: str = "progress.csv") -> list[Path]:
    """Return the files of this name of the runs in a directory and below.

    What lies inside of another run is none, such as a checkpoint or a reproduced divergence.
    """
    files = sorted(directory.rglob(name))
    runs = {file.parent for file in files}
    return [file for file in files if runs.isdisjoint(file.parent.parents)]


def is_repetition(part: str) -> bool:
    """Return whether a part of a path only numbers the repetitions of a setting."""
    return re.fullmatch(r"(run|seed)_?-?\d+", part) is not None


def read_params(file: Path) -> dict[str, Any]:
    """Return the parameters that a run recorded in its ``params.json``."""
    try:
        params: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    return params


def params_beside(csv_file: Path) -> dict[str, Any]:
    """Return the parameters of a run by their dotted names; none if they cannot be read."""
    with suppress(OSError, ValueError):  # As at the start of a run.
        return dict(flat(read_params(csv_file.with_name("params.json"))))
    return {}


def task_of(params: Mapping[str, Any]) -> str:
    """Return the task that parameters name first, by ``TASK_KEYS``; empty if there is none."""
    found = dict(flat(params))
    if "." not in str(found.get("roles.env")):  # A name such as gym, not the one of a class.
        found.pop("roles.env", None)
    return next((str(found[key]) for key in TASK_KEYS if key in found), "")


def read_rows(csv_file: str | Path) -> list[dict[str, str]]:
    """Return the rows of a ``progress.csv``, with keys without prefix or slash.

    There are none before the first.
    """
    try:
        rows, _ = _read(csv_file)
    except (FileNotFoundError, csv.Error):
        return []
    prefix = "Diagnostics/"
    return [
        {name.removeprefix(prefix).replace("/", ""): x for name, x in row.items() if name}
        for row in rows
    ]


def _read(csv_file: str | Path) -> tuple[list[dict[str, str]], list[str]]:
    """Return rows and column names; without half a row, which a crash may leave at the end."""
    with open(csv_file, newline="", encoding="utf-8", errors="replace") as file:
        whole, end, _ = file.read().rpartition("\n")
    reader = csv.DictReader(io.StringIO(whole + end, newline=""))
    return list(reader), list(reader.fieldnames or ())


def write_rows(
    csv_file: str | os.PathLike[str], names: Iterable[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Write a csv file with these column names and rows."""
    with open(make_parent(csv_file), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)


def number(field: Any) -> float:
    """Return the number in a field of a csv file; NaN if it has none."""
    try:
        return float(field)
    except (TypeError, ValueError):
        return float("nan")


def read_columns(csv_file: str | Path, *names: str) -> NDArray:
    """Read columns of a ``progress.csv``: [len(names), rows] float64, NaN where there is no number.

    ``Return/Average`` is found as ``ReturnAverage`` too.
    """
    rows, columns = _read(csv_file)
    if not rows:
        raise ValueError(f"csv_file={str(csv_file)!r} has no rows yet: wait for the first log row")
    # With a tensorboard writer, the name of a statistic has a slash.
    found = {column.replace("/", ""): column for column in columns} | dict(zip(columns, columns))
    for name in names:
        if name not in found:
            has_none = number(rows[-1].get("Diagnostics/CumCompletedTrajs")) == 0
            reason = ", and no episode has ended yet" if has_none else did_you_mean(name, columns)
            raise ValueError(
                f"{csv_file} has no column {name!r}{reason}; its columns are {', '.join(columns)}"
            )
    return np.array([[number(row[found[name]]) for row in rows] for name in names])


def read_curve(csv_file: str | Path, y: str, x: str = STEPS) -> NDArray:
    """Read the curve of a run: [2, rows], increasing places and values; see :func:`read_columns`.

    Rows without a number are left out. If a run was continued from an earlier row, only the last
    version of repeated rows counts.
    """
    curve = read_columns(csv_file, x, y)
    curve = curve[:, np.isfinite(curve).all(axis=0)]
    if not curve.size:
        return curve
    least_later = np.minimum.accumulate(curve[0, ::-1])[::-1]
    return curve[:, np.append(curve[0, :-1] < least_later[1:], True)]


def moving_mean(values: NDArray, n_rows: int) -> NDArray:
    """Return the mean [rows] of each value and up to ``n_rows - 1`` before it."""
    if n_rows < 1:
        raise ValueError(f"smooth={n_rows} must be a number of rows, at least 1")
    ends = range(1, len(values) + 1)
    return np.array([values[max(0, end - n_rows) : end].mean() for end in ends])


def _named_directory(given: str) -> tuple[str, Path]:
    """Split ``NAME=DIRECTORY``; a name is not required."""
    name, equals, rest = given.partition("=")
    if not equals or os.path.exists(given):
        name, rest = "", given
    directory = located(rest).resolve()
    if not directory.is_dir():
        what = "a file" if directory.exists() else "not there"
        raise ValueError(f"directory={rest!r} is {what}: give the directory of a run or of a sweep")
    return name, directory


def _heads(given: Sequence[tuple[str, Path]]) -> list[tuple[str, ...]]:
    """Return the label prefix for each directory: its name, or the part that differs."""
    common = os.path.commonpath([directory for _, directory in given])
    heads = []
    for name, directory in given:
        parts = directory.relative_to(common).parts or (directory.name,)
        kept = tuple(part for part in parts if not is_repetition(part) and len(given) > 1)
        heads.append((name,) if name else kept)
    return heads


def _csv_files(directory: Path) -> list[Path]:
    csv_files = files_of_runs(directory)
    if not csv_files:
        found = sorted(path.name for path in directory.iterdir())[:5]
        raise ValueError(
            f"directory={str(directory)!r} has no run: there is no progress.csv in it or below, "
            f"only {', '.join(found) or 'nothing at all'}"
        )
    return csv_files


def _labels(paths: Sequence[tuple[str, ...]], tasks: Sequence[str], are_named: bool) -> list[str]:
    """Join the parts of each path that distinguish settings; the first may be a given name."""
    if len({len(parts) for parts in paths}) > 1:
        return ["/".join(parts) for parts in paths]
    kept = []
    for i, parts in enumerate(zip(*paths)):
        pairs = set(zip(parts, tasks))
        is_the_task = len(pairs) == len(set(parts)) == len(set(tasks)) and all(
            _letters(part) in _letters(task) for part, task in pairs
        )
        if len(set(parts)) > 1 and (not is_the_task or (are_named and i == 0)):
            kept.append(parts)
    return ["/".join(parts) for parts in zip(*kept)] if kept else [""] * len(paths)


def _letters(name: str) -> str:
    """Return the letters and digits of a name, such as "minatarpongv0" for "MinAtar/Pong-v0"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())

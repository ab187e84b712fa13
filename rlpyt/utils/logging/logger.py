"""Functions that programs call to log text, tables of numbers and snapshots.

They work on the current :class:`~rlpyt.utils.logging.log.Logger`, which writes to its sinks: the
console, text and csv files, tensorboard, and objects registered with ``add_sink``. A function may
be replaced (``logger.record_tabular = f``): others that build on it, such as
``record_tabular_misc_stat``, call the replacement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

import numpy as np
import torch
from tabulate import tabulate

from rlpyt.utils.files import make_parent, replacing
from rlpyt.utils.logging.console import TerminalTablePrinter as TerminalTablePrinter, mkdir_p
from rlpyt.utils.logging.log import Logger as Logger, check_snapshot_mode
from rlpyt.utils.logging.sinks import ScalarWriter, Sink as Sink

table_printer = TerminalTablePrinter()
_current = Logger()

_STATISTICS: dict[str, Callable[..., Any]] = {
    "Average": np.mean,
    "Std": np.std,
    "Median": np.median,
    "Min": np.min,
    "Max": np.max,
}

# Private names of rlpyt 0.1.2 that programs read.
_STATE: dict[str, Callable[[Logger], Any]] = {
    "_iteration": lambda log: log.iteration,
    "_prefixes": lambda log: log.prefixes,
    "_tabular_prefix_str": lambda log: log.tabular_prefix,
    "_tf_summary_writer": lambda log: log.writer,
}


def __getattr__(name: str) -> Any:
    if name in _STATE:
        return _STATE[name](_current)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def current() -> Logger:
    """Return the logger behind the functions of this module."""
    return _current


@contextmanager
def using(logger: Logger) -> Iterator[Logger]:
    """Make ``logger`` the current one for the length of a ``with`` block."""
    global _current
    former, _current = _current, logger
    try:
        yield logger
    finally:
        _current = former


def add_sink(sink: Sink) -> None:
    """Send all text, values and rows to ``sink`` too.

    A sink registered inside a ``logger_context`` is closed at the end of that context.

    Args:
        sink: object with the methods of ``Sink``; inherit from ``Sink`` to define only some.

    Raises:
        TypeError: if a method is missing.
    """
    if not isinstance(sink, Sink):
        raise TypeError(
            f"sink {sink!r} needs the methods write_text, write_value, write_row and close: "
            "inherit from rlpyt.utils.logging.logger.Sink, which has them all as no-ops."
        )
    _current.add(sink)


def remove_sink(sink: Sink) -> None:
    """Remove ``sink`` and close it, if it is registered."""
    _current.remove(sink)


def disable() -> None:
    """Log and record nothing until ``enable``."""
    _current.disabled = True


def disable_tabular() -> None:
    """Show tables, but write no rows until ``enable_tabular``."""
    _current.tabular_disabled = True


def enable() -> None:
    """Undo ``disable``."""
    _current.disabled = False


def enable_tabular() -> None:
    """Undo ``disable_tabular``."""
    _current.tabular_disabled = False


def set_iteration(iteration: int) -> None:
    """Set the step of recorded values."""
    _current.iteration = iteration


def push_prefix(prefix: str) -> None:
    """Begin every line of text with ``prefix``, after earlier prefixes."""
    _current.prefixes.append(prefix)


def pop_prefix() -> None:
    """Undo the last ``push_prefix``."""
    _current.prefixes.pop()


def push_tabular_prefix(key: str) -> None:
    """Begin every recorded key with ``key``, after earlier prefixes."""
    _current.tabular_prefixes.append(key)


def pop_tabular_prefix() -> None:
    """Undo the last ``push_tabular_prefix``."""
    _current.tabular_prefixes.pop()


@contextmanager
def prefix(key: str) -> Iterator[None]:
    """Call ``push_prefix`` for the length of a ``with`` block."""
    push_prefix(key)
    try:
        yield
    finally:
        pop_prefix()


@contextmanager
def tabular_prefix(key: str) -> Iterator[None]:
    """Call ``push_tabular_prefix`` for the length of a ``with`` block."""
    push_tabular_prefix(key)
    try:
        yield
    finally:
        pop_tabular_prefix()


def add_text_output(file_name: str | os.PathLike[str]) -> None:
    """Append every line of text to a file; missing directories are made."""
    _current.add_text_file(file_name)


def remove_text_output(file_name: str | os.PathLike[str]) -> None:
    """Undo ``add_text_output``."""
    _current.remove(_current.text_files.get(os.fspath(file_name)))


def add_tabular_output(file_name: str | os.PathLike[str], append: bool = False) -> None:
    """Write every row to a csv file; missing directories are made.

    Args:
        file_name: csv file; a held one continues.
        append: whether to continue an existing file; it is emptied otherwise.
    """
    _current.add_csv_file(file_name, append)


def remove_tabular_output(file_name: str | os.PathLike[str]) -> None:
    """Undo ``add_tabular_output``."""
    _current.remove_csv_file(file_name)


def hold_tabular_output(file_name: str | os.PathLike[str]) -> None:
    """Write no rows to a csv file until it is added again; it stays open."""
    _current.hold_csv_file(file_name)


def drop_tabular_after(key: str, value: float) -> None:
    """Remove the rows of all csv files in which column ``key`` is above ``value``.

    A run that continues from a snapshot older than the last row writes the later rows again.
    """
    for sink in _current.csv_files.values():
        if key in sink.columns:
            sink.keep_rows(lambda row: not float(row[key]) > value)


def drop_values_after(itr: int) -> None:
    """Drop the iterations after ``itr`` from tensorboard and other sinks, to repeat them."""
    _current.drop_after(itr)


def set_snapshot_dir(dir_name: str | os.PathLike[str] | None) -> None:
    """Save snapshots in this directory, made if needed; ``None`` saves none."""
    if dir_name is not None:
        mkdir_p(dir_name)
        dir_name = os.fspath(dir_name)
    _current.snapshots.directory = dir_name


def get_snapshot_dir() -> str | None:
    """Return the directory of snapshots."""
    return _current.snapshots.directory


def set_snapshot_mode(mode: str) -> None:
    """Choose the iterations that are saved.

    Args:
        mode: ``all``, ``last``, ``gap`` (iteration 0 and the end of every ``gap`` iterations),
            ``last+gap`` or ``none``.
    """
    gap = _current.snapshots.gap
    if gap < 1 and "gap" in check_snapshot_mode(mode):
        raise ValueError(f"gap={gap} must be at least 1 iteration in mode {mode!r}")
    _current.snapshots.mode = check_snapshot_mode(mode)


def get_snapshot_mode() -> str:
    """Return the snapshot mode."""
    return _current.snapshots.mode


def set_snapshot_gap(gap: int) -> None:
    """Set the number of iterations from one snapshot to the next; no effect in other modes.

    Raises:
        ValueError: if it is less than 1 in a mode with a gap.
    """
    if gap < 1 and "gap" in _current.snapshots.mode:
        raise ValueError(f"gap={gap} must be at least 1 iteration")
    _current.snapshots.gap = int(gap)


def get_snapshot_gap() -> int:
    """Return the number of iterations from one snapshot to the next."""
    return _current.snapshots.gap


def save_itr_params(itr: int, params: Any) -> None:
    """Save ``params`` with ``torch.save``, depending on snapshot directory and mode.

    A failed save raises, and earlier files are unchanged.

    Args:
        itr: iteration, part of the file name ``itr_<itr>.pkl``.
        params: dicts, lists and tuples of plain values and tensors.
    """
    _current.snapshots.save(itr, params)


def set_tf_summary_dir(dir_name: str | None) -> None:
    """Remember a directory for tensorboard files; nothing here uses it."""
    _current.summary_dir = dir_name


def get_tf_summary_dir() -> str | None:
    """Return the directory that was set."""
    return _current.summary_dir


def set_tf_summary_writer(writer_name: ScalarWriter | None) -> None:
    """Pass every recorded number to a tensorboard ``SummaryWriter``; ``None`` removes it."""
    _current.writer = writer_name


def get_tf_summary_writer() -> Any:
    """Return the tensorboard writer, or ``None``."""
    return _current.writer


def set_log_tabular_only(log_tabular_only: bool) -> None:
    """Log no text, and show tables on a cleared screen."""
    _current.tabular_only = log_tabular_only


def get_log_tabular_only() -> bool:
    """Return whether only tables are shown."""
    return _current.tabular_only


def set_disable_prefix(disable_prefix: bool) -> None:
    """Leave the prefixes of text lines out."""
    _current.prefix_disabled = disable_prefix


def get_disable_prefix() -> bool:
    """Return whether lines have no prefix."""
    return _current.prefix_disabled


def log(
    s: str, with_prefix: bool = True, with_timestamp: bool = True, color: str | None = None
) -> None:
    """Write one line of text to the console and all other sinks.

    Args:
        s: text of the line.
        with_prefix: whether the prefixes precede it.
        with_timestamp: whether local date and time begin the line.
        color: key of ``console.color2num``.
    """
    _current.log(s, with_prefix, with_timestamp, color)


def log_once(s: str) -> None:
    """Write one line of text, unless the log of this run, in this process, has it already."""
    if s not in _current.logged_once:
        _current.logged_once.add(s)
        log(s)


def record_tabular(key: str, val: Any, *args: Any, **kwargs: Any) -> None:
    """Add a value to the row that the next ``dump_tabular`` writes; a number also to tensorboard.

    Args:
        key: name of the column, after the tabular prefixes.
        val: number; anything else is logged as text.
        *args: ignored arguments.
        **kwargs: ignored keyword arguments.
    """
    _current.record(key, val)


def record_video(key: str, path: str | os.PathLike[str]) -> None:
    """Send the video in the file ``path`` to the sinks that take videos."""
    _current.record_video(key, path)


def record_tabular_misc_stat(key: str, values: Any, placement: str = "back") -> None:
    """Record Average, Std (of the population), Median, Min and Max of some values.

    Args:
        key: beginning of the five column names (``back``: ``<key>Average``; with a tensorboard
            writer ``<key>/Average``) or their end (``front``: ``Average<key>``).
        values: numbers and tensors; if there are none, all five statistics are NaN.
        placement: place of the statistic's name, ``back`` or ``front``.
    """
    if placement not in ("back", "front"):
        raise ValueError(f"placement must be 'back' or 'front', but is {placement!r}.")
    before, after = (key, "") if placement == "back" else ("", key)
    if placement == "back" and get_tf_summary_writer() is not None:
        before += "/"
    numbers = _as_array(values)
    for name, statistic in _STATISTICS.items():
        with np.errstate(invalid="ignore"):  # The spread of infinite values is NaN.
            number = float(statistic(numbers)) if numbers.size else float("nan")
        record_tabular(before + name + after, number)


def _as_array(values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    elif not isinstance(values, np.ndarray):
        values = [
            number
            for value in values
            for number in (value.reshape(-1).tolist() if torch.is_tensor(value) else [value])
        ]
    return np.asarray(values, dtype=np.float64)


def dump_tabular(
    *args: Any,
    write_header: bool | None = None,
    unread: Collection[str] = (),
    **kwargs: Any,
) -> None:
    """Show the recorded values as a table, write them to the sinks, and begin a new row.

    The table is for reading: of the five statistics of ``record_tabular_misc_stat`` it shows the
    average. Sinks receive all values.

    Args:
        *args: further arguments of ``log``, which prints the table.
        write_header: ignored argument: a csv file has exactly one header.
        unread: keys that the table leaves out.
        **kwargs: further keyword arguments of ``log``.
    """
    if _current.disabled or not _current.rows:
        return
    if _current.tabular_only:
        table_printer.print_tabular(_current.rows)
    else:
        log(tabulate(_to_read(unread)), *args, **kwargs)
    _current.write_rows()


def _to_read(unread: Collection[str]) -> list[tuple[str, Any]]:
    """Return the recorded values without ``unread`` keys and the spread around an average."""
    spread = {
        key.removesuffix("Average") + name
        for key, _ in _current.rows
        for name in _STATISTICS
        if key.endswith("Average") and name != "Average"
    }
    return [(key, value) for key, value in _current.rows if key not in {*unread, *spread}]


def write_params(path: str | os.PathLike[str], params: Mapping[str, Any]) -> None:
    """Write parameters as JSON; objects other than numbers become the name of their type."""
    with replacing(make_parent(path), encoding="utf-8") as file:
        json.dump(stub_to_json(params), file, indent=2, default=_number_or_name)


def _number_or_name(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else type(value).__name__


def stub_to_json(stub_sth: Any) -> Any:
    """Return nested dicts, lists, tuples and sets as JSON's types, with text as keys."""
    if isinstance(stub_sth, Mapping):
        return {str(key): stub_to_json(value) for key, value in stub_sth.items()}
    if isinstance(stub_sth, (list, tuple, set, frozenset)):
        return [stub_to_json(value) for value in stub_sth]
    return stub_sth


class MyEncoder(json.JSONEncoder):
    """JSON encoder that writes classes, functions and enum members by their full names."""

    def default(self, o: Any) -> Any:
        if isinstance(o, Enum):
            return {"$enum": f"{type(o).__module__}.{type(o).__qualname__}.{o.name}"}
        if callable(o):
            kind = "$class" if isinstance(o, type) else "$function"
            return {kind: f"{o.__module__}.{o.__qualname__}"}
        return super().default(o)


def log_variant(log_file: str | os.PathLike[str], variant_data: Any) -> None:
    """Write a variant as JSON; missing directories are made."""
    with replacing(make_parent(log_file), encoding="utf-8") as file:
        json.dump(stub_to_json(variant_data), file, indent=2, sort_keys=True, cls=MyEncoder)


def log_parameters_lite(log_file: str | os.PathLike[str], args: Any) -> None:
    """Write command-line arguments as JSON; missing directories are made."""
    log_variant(log_file, {k: v for k, v in vars(args).items() if v is not None})


def log_parameters(log_file: str | os.PathLike[str], args: Any, classes: Any) -> None:
    """Write command-line arguments as JSON; ``classes`` is ignored."""
    log_parameters_lite(log_file, args)

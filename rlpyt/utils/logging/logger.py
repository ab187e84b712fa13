"""The log of a run: text, a table of numbers, and snapshots.

The functions of this module stand in front of the current ``Logger``; its lines and rows go to a
list of sinks: the console, text and csv files, tensorboard, and whatever object is registered with
``add_sink``. Functions may be replaced by assignment (``logger.record_tabular = f``): those which
build on another one, like ``record_tabular_misc_stat`` on ``record_tabular``, call the replacement.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlpyt.utils.logging._logger import Logger as Logger
from rlpyt.utils.logging._params import (
    MyEncoder as MyEncoder,
    log_parameters as log_parameters,
    log_parameters_lite as log_parameters_lite,
    log_variant as log_variant,
    stub_to_json as stub_to_json,
)
from rlpyt.utils.logging._sinks import ScalarWriter, Sink as Sink
from rlpyt.utils.logging._snapshots import check_snapshot_mode
from rlpyt.utils.logging._state import StateModule
from rlpyt.utils.logging._statistics import misc_stat
from rlpyt.utils.logging._terminal import TerminalTablePrinter as TerminalTablePrinter
from rlpyt.utils.logging.console import mkdir_p
from rlpyt.utils.logging.tabulate import tabulate

table_printer = TerminalTablePrinter()
_current = Logger()

# The names under which the state was kept in this module; they read (and, for lists, change) the
# current logger. Assignments to them reach it too.
sys.modules[__name__].__class__ = StateModule
_STATE: dict[str, Callable[[Logger], Any]] = {
    "_prefixes": lambda log: log.prefixes,
    "_prefix_str": lambda log: log.prefix,
    "_tabular_prefixes": lambda log: log.tabular_prefixes,
    "_tabular_prefix_str": lambda log: log.tabular_prefix,
    "_tabular": lambda log: log.rows,
    "_text_outputs": lambda log: list(log.text_files),
    "_tabular_outputs": lambda log: list(log.csv_files),
    "_text_fds": lambda log: {path: sink.file for path, sink in log.text_files.items()},
    "_tabular_fds": lambda log: {path: sink.file for path, sink in log.csv_files.items()},
    "_tabular_fds_hold": lambda log: {p: sink.file for p, sink in log.held_csv_files.items()},
    "_tabular_header_written": lambda log: {p for p, sink in log.csv_files.items() if sink.columns},
    "_tabular_headers": lambda log: {p: sink.columns for p, sink in log.csv_files.items()},
    "_snapshot_dir": lambda log: log.snapshots.directory,
    "_snapshot_mode": lambda log: log.snapshots.mode,
    "_snapshot_gap": lambda log: log.snapshots.gap,
    "_log_tabular_only": lambda log: log.tabular_only,
    "_header_printed": lambda log: bool(table_printer.headers),
    "_disable_prefix": lambda log: log.prefix_disabled,
    "_tf_summary_dir": lambda log: log.summary_dir,
    "_tf_summary_writer": lambda log: log.writer,
    "_disabled": lambda log: log.disabled,
    "_tabular_disabled": lambda log: log.tabular_disabled,
    "_iteration": lambda log: log.iteration,
}


def __getattr__(name: str) -> Any:
    if name in _STATE:
        return _STATE[name](_current)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def current() -> Logger:
    """The logger behind the functions of this module."""
    return _current


@contextmanager
def using(logger: Logger) -> Iterator[Logger]:
    """Let the functions of this module work on ``logger``, then on the former one again."""
    global _current
    former, _current = _current, logger
    try:
        yield logger
    finally:
        _current = former


def add_sink(sink: Sink) -> None:
    """Let ``sink`` receive all text, values and rows, beside the sinks there are.

    A sink registered inside a ``logger_context`` is closed at the end of that context.

    Args:
        sink: an object with the methods of ``Sink``; inherit from ``Sink`` to define only some.

    Raises:
        TypeError: if it lacks one of them.
    """
    if not isinstance(sink, Sink):
        raise TypeError(
            f"sink {sink!r} needs the methods write_text, write_value, write_row and close: "
            "inherit from rlpyt.utils.logging.logger.Sink, which has them all as no-ops."
        )
    _current.add(sink)


def remove_sink(sink: Sink) -> None:
    """Let ``sink`` receive nothing more, and close it; nothing happens if it is not registered."""
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
    """Set the step under which values are recorded."""
    _current.iteration = iteration


def push_prefix(prefix: str) -> None:
    """Begin every line of text with ``prefix``, after the prefixes there are."""
    _current.prefixes.append(prefix)


def pop_prefix() -> None:
    """Undo the last ``push_prefix``."""
    _current.prefixes.pop()


def push_tabular_prefix(key: str) -> None:
    """Begin every recorded key with ``key``, after the prefixes there are."""
    _current.tabular_prefixes.append(key)


def pop_tabular_prefix() -> None:
    """Undo the last ``push_tabular_prefix``."""
    _current.tabular_prefixes.pop()


@contextmanager
def prefix(key: str) -> Iterator[None]:
    """``push_prefix`` for the length of a ``with`` block."""
    push_prefix(key)
    try:
        yield
    finally:
        pop_prefix()


@contextmanager
def tabular_prefix(key: str) -> Iterator[None]:
    """``push_tabular_prefix`` for the length of a ``with`` block."""
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
        file_name: csv file. One which is held goes on where it was.
        append: go on with the rows and columns of an existing file, which is emptied otherwise.
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

    For a run which goes on from a snapshot older than its last row: rows between are made again.
    """
    for sink in _current.csv_files.values():
        if key in sink.columns:
            sink.keep_rows(lambda row: not float(row[key]) > value)


def set_snapshot_dir(dir_name: str | os.PathLike[str] | None) -> None:
    """Save snapshots in this directory, which is made; ``None`` saves none."""
    if dir_name is not None:
        mkdir_p(dir_name)
        dir_name = os.fspath(dir_name)
    _current.snapshots.directory = dir_name


def get_snapshot_dir() -> str | None:
    """Where snapshots are saved."""
    return _current.snapshots.directory


def set_snapshot_mode(mode: str) -> None:
    """Say which iterations are saved.

    Args:
        mode: ``all``, ``last``, ``gap`` (iteration 0 and the end of every ``gap`` iterations),
            ``last+gap`` or ``none``.

    Raises:
        ValueError: if there is no such mode.
    """
    _current.snapshots.mode = check_snapshot_mode(mode)


def get_snapshot_mode() -> str:
    """Which iterations are saved."""
    return _current.snapshots.mode


def set_snapshot_gap(gap: int) -> None:
    """Set the number of iterations from one snapshot to the next, in the modes with a gap."""
    if gap < 1:
        raise ValueError(f"snapshot gap must be at least 1 iteration, but is {gap}.")
    _current.snapshots.gap = int(gap)


def get_snapshot_gap() -> int:
    """Iterations from one snapshot to the next."""
    return _current.snapshots.gap


def save_itr_params(itr: int, params: Any) -> None:
    """Save ``params`` with ``torch.save``, if there is a snapshot directory and the mode says so.

    A save that fails raises and leaves the files of earlier saves as they were.

    Args:
        itr: iteration: part of the file name ``itr_<itr>.pkl``.
        params: plain values and tensors in dicts, lists and tuples.
    """
    _current.snapshots.save(itr, params)


def set_tf_summary_dir(dir_name: str | None) -> None:
    """Remember a directory for tensorboard files; nothing here uses it."""
    _current.summary_dir = dir_name


def get_tf_summary_dir() -> str | None:
    """The directory which was set."""
    return _current.summary_dir


def set_tf_summary_writer(writer_name: ScalarWriter | None) -> None:
    """Hand every recorded number to a tensorboard ``SummaryWriter``; ``None`` to none."""
    _current.writer = writer_name


def get_tf_summary_writer() -> Any:
    """The tensorboard writer, or ``None``."""
    return _current.writer


def set_log_tabular_only(log_tabular_only: bool) -> None:
    """Log no text, and show tables on a screen of their own."""
    _current.tabular_only = log_tabular_only


def get_log_tabular_only() -> bool:
    """Whether only tables are shown."""
    return _current.tabular_only


def set_disable_prefix(disable_prefix: bool) -> None:
    """Leave the prefixes of text lines out."""
    _current.prefix_disabled = disable_prefix


def get_disable_prefix() -> bool:
    """Whether lines are without prefix."""
    return _current.prefix_disabled


def log(
    s: str, with_prefix: bool = True, with_timestamp: bool = True, color: str | None = None
) -> None:
    """Write one line of text to the console and all other sinks.

    Args:
        s: the text.
        with_prefix: begin it with the prefixes.
        with_timestamp: begin the line with local date and time.
        color: a name of ``console.color2num``.
    """
    _current.log(s, with_prefix, with_timestamp, color)


def record_tabular(key: str, val: Any, *args: Any, **kwargs: Any) -> None:
    """Add a value to the row which the next ``dump_tabular`` writes; a number also to tensorboard.

    Args:
        key: its column, after the tabular prefixes.
        val: a number, or anything else as its text.
        *args: ignored, like ``**kwargs``.
        **kwargs: ignored.
    """
    _current.record(key, val)


def record_tabular_misc_stat(key: str, values: Any, placement: str = "back") -> None:
    """Record Average, Std (of the population), Median, Min and Max of some values.

    Args:
        key: begins the five columns (``back``: ``<key>Average``; with a tensorboard writer
            ``<key>/Average``) or ends them (``front``: ``Average<key>``).
        values: any number of numbers; of none, all five are NaN.
        placement: ``back`` or ``front``.

    Raises:
        ValueError: for another placement.
    """
    if placement not in ("back", "front"):
        raise ValueError(f"placement must be 'back' or 'front', but is {placement!r}.")
    before, after = (key, "") if placement == "back" else ("", key)
    if placement == "back" and get_tf_summary_writer() is not None:
        before += "/"
    for name, number in misc_stat(values).items():
        record_tabular(before + name + after, number)


def dump_tabular(*args: Any, write_header: bool | None = None, **kwargs: Any) -> None:
    """Show what was recorded as a table, write it as a row to every csv file, and begin a new row.

    Args:
        *args: further arguments of ``log``, by which the table is printed.
        write_header: ignored: a csv file has its header exactly once.
        **kwargs: further arguments of ``log``.
    """
    if _current.disabled or not _current.rows:
        return
    if _current.tabular_only:
        table_printer.print_tabular(_current.rows)
    else:
        for line in tabulate(_current.rows).split("\n"):
            log(line, *args, **kwargs)
    _current.write_rows()

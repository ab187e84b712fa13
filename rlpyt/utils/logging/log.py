"""The log of a run: its prefixes, its open row, its snapshots, and the sinks that receive it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import torch

from rlpyt.utils.files import replacing
from rlpyt.utils.logging.console import on_terminal
from rlpyt.utils.logging.sinks import (
    ConsoleSink,
    CsvSink,
    RunInfo,
    RunSink,
    ScalarWriter,
    Sink,
    TensorboardSink,
    TextFileSink,
)

S = TypeVar("S", bound=Sink)
SNAPSHOT_MODES = ("all", "last", "gap", "last+gap", "none")


def check_snapshot_mode(mode: str) -> str:
    """Return ``mode``.

    Raises:
        ValueError: if the mode is unknown.
    """
    if mode not in SNAPSHOT_MODES:
        raise ValueError(f"snapshot mode is {mode!r}: use one of {', '.join(SNAPSHOT_MODES)}")
    return mode


@dataclass
class Snapshots:
    """Writer of a run's parameters; each file is written completely or not at all.

    Attributes:
        directory: directory of the files; ``None`` saves nothing.
        mode: name of the mode. ``all``: ``itr_<itr>.pkl`` at every call; ``last``: ``params.pkl``,
            overwritten; ``gap``: ``itr_<itr>.pkl`` at iteration 0 and at the end of every ``gap``
            iterations; ``last+gap``: both; ``none``: nothing.
        gap: number of iterations between files.
        unsaved: path of the last file, if it could not be written; else None.
    """

    directory: str | None = None
    mode: str = "all"
    gap: int = 1
    unsaved: str | None = None

    def file_names(self, itr: int) -> list[str]:
        """Return the names of the files to write at iteration ``itr``."""
        names = []
        is_gap = "gap" in self.mode and (itr == 0 or (itr + 1) % self.gap == 0)
        if self.mode == "all" or is_gap:
            names.append(f"itr_{itr}.pkl")
        if "last" in self.mode:
            names.append("params.pkl")
        return names

    def save(self, itr: int, params: Any) -> None:
        """Write ``params`` with ``torch.save`` if mode and gap select this iteration.

        A failed save raises, and earlier files are unchanged.
        """
        if self.directory is None:
            return
        for name in self.file_names(itr):
            self.unsaved = os.path.join(self.directory, name)
            with replacing(self.unsaved, "wb") as file:
                torch.save(params, file)
            self.unsaved = None


@dataclass(eq=False)
class Logger:
    """Log of one run, or of the whole program.

    Attributes:
        sinks: receivers, in the order of registration.
        held_csv_files: open csv files that receive no rows at present, by path.
        prefixes: beginnings of every line of text.
        tabular_prefixes: beginnings of every recorded key.
        rows: pairs (key, value) recorded since the last row was written.
        snapshots: writer of parameters.
        summary_dir: directory of tensorboard files, kept for callers and not used here.
        iteration: step of recorded values.
        disabled: whether nothing is logged or recorded.
        tabular_disabled: whether rows are shown but not written.
        tabular_only: whether only tables are shown, on a cleared screen.
        prefix_disabled: whether lines have no prefix.
        inherited: sinks of the logger that this one was derived from; not closed with it.
        logged_once: lines of text that are not logged again.
    """

    sinks: list[Sink] = field(default_factory=lambda: [ConsoleSink()])
    held_csv_files: dict[str, CsvSink] = field(default_factory=dict)
    prefixes: list[str] = field(default_factory=list)
    tabular_prefixes: list[str] = field(default_factory=list)
    rows: list[tuple[str, Any]] = field(default_factory=list)
    snapshots: Snapshots = field(default_factory=Snapshots)
    summary_dir: str | None = None
    iteration: int = 0
    disabled: bool = False
    tabular_disabled: bool = False
    tabular_only: bool = False
    prefix_disabled: bool = False
    inherited: list[Sink] | None = None
    logged_once: set[str] = field(default_factory=set)
    _reported: set[int] = field(default_factory=set)

    @property
    def prefix(self) -> str:
        """Text prefixes, joined."""
        return "".join(self.prefixes)

    @property
    def tabular_prefix(self) -> str:
        """Prefixes of keys, joined."""
        return "".join(self.tabular_prefixes)

    @property
    def text_files(self) -> dict[str, TextFileSink]:
        """Text files by path."""
        return {sink.path: sink for sink in self.sinks if isinstance(sink, TextFileSink)}

    @property
    def csv_files(self) -> dict[str, CsvSink]:
        """Csv files by path, without held ones."""
        return {sink.path: sink for sink in self.sinks if isinstance(sink, CsvSink)}

    @property
    def _run_sinks(self) -> list[RunSink]:
        return [sink for sink in self.sinks if isinstance(sink, RunSink)]

    @property
    def writer(self) -> Any:
        """Tensorboard writer, or ``None``."""
        writers = [sink.writer for sink in self.sinks if isinstance(sink, TensorboardSink)]
        return writers[0] if writers else None

    @writer.setter
    def writer(self, writer: ScalarWriter | None) -> None:
        self.sinks = [sink for sink in self.sinks if not isinstance(sink, TensorboardSink)]
        if writer is not None:
            self.sinks.append(TensorboardSink(writer))

    def log(
        self,
        s: str,
        with_prefix: bool = True,
        with_timestamp: bool = True,
        color: str | None = None,
    ) -> None:
        """Write one line of text to every sink, unless disabled or tabular-only."""
        if self.disabled or self.tabular_only:
            return
        line = str(s)
        if with_prefix and not self.prefix_disabled:
            line = self.prefix + line
        if with_timestamp:
            line = f"{timestamp()} | {line}"
        shown = line if color is None else on_terminal(line, color)
        self._each(lambda sink: sink.write_text(shown if type(sink) is ConsoleSink else line))

    def record(self, key: str, value: Any) -> None:
        """Add one value to the row, unless disabled."""
        if self.disabled:
            return
        key = self.tabular_prefix + str(key)
        value = plain(value)
        self._each(lambda sink: sink.write_value(key, value, self.iteration))
        self.rows.append((key, value))

    def write_rows(self) -> None:
        """Write the recorded values to every sink as one row; the last of equal keys counts."""
        if not self.tabular_disabled:
            self._each(lambda sink: sink.write_row(dict(self.rows), self.iteration))
        self.rows.clear()

    def add_text_file(self, path: str | os.PathLike[str]) -> None:
        """Append all later lines to the file ``path``."""
        if os.fspath(path) not in self.text_files:
            self.sinks.append(TextFileSink(path))

    def add_csv_file(self, path: str | os.PathLike[str], append: bool) -> None:
        """Write all later rows to ``path``, also if the file was on hold."""
        path = os.fspath(path)
        if path in self.held_csv_files:
            self.sinks.append(self.held_csv_files.pop(path))
        elif path not in self.csv_files:
            self.sinks.append(CsvSink(path, append=append))

    def hold_csv_file(self, path: str | os.PathLike[str]) -> None:
        """Stop writing rows to ``path`` without closing it."""
        sink = self.csv_files.get(os.fspath(path))
        if sink is not None:
            self.sinks.remove(sink)
            self.held_csv_files[sink.path] = sink

    def remove_csv_file(self, path: str | os.PathLike[str]) -> None:
        """Stop writing rows to ``path`` and close it, held or not."""
        path = os.fspath(path)
        self.remove(self.csv_files.get(path))
        if path in self.held_csv_files:
            self._close(self.held_csv_files.pop(path))

    def add(self, sink: Sink) -> None:
        """Register ``sink``."""
        if not _among(sink, self.sinks):
            self.sinks.append(sink)

    def open(self, sink: Sink, run: RunInfo) -> None:
        """Register ``sink``, and open it if it belongs to a single run."""
        self.add(sink)
        if isinstance(sink, RunSink):
            self._guarded(sink, lambda sink: sink.open(run))

    def record_video(self, key: str, path: str | os.PathLike[str]) -> None:
        """Send a video to the sinks of the run, unless disabled."""
        if self.disabled:
            return
        video = (self.tabular_prefix + key, os.path.abspath(path), self.iteration)

        for sink in self._run_sinks:
            self._guarded(sink, lambda sink: sink.write_video(*video))

    def drop_after(self, step: int) -> None:
        """Drop later iterations from the sinks of the run."""
        for sink in self._run_sinks:
            self._guarded(sink, lambda sink: sink.drop_after(step))

    def remove(self, sink: Sink | None) -> None:
        """Remove a sink and close it, unless it belongs to the logger this one was derived from."""
        if sink is not None and _among(sink, self.sinks):
            self.sinks = [other for other in self.sinks if other is not sink]
            self._close(sink)

    def derive(self) -> Logger:
        """Return a logger for a run inside this one.

        It shares the sinks and starts with equal settings, but does not change this logger. If this
        logger belongs to a run itself, the sinks of that run are left out, so that the rows of two
        runs do not mix.
        """
        is_run = self.inherited is not None
        sinks = [s for s in self.sinks if not (is_run and self._owns(s) and isinstance(s, RunSink))]
        return replace(
            self,
            sinks=sinks,
            held_csv_files={},
            prefixes=list(self.prefixes),
            tabular_prefixes=list(self.tabular_prefixes),
            rows=[],
            snapshots=replace(self.snapshots, unsaved=None),
            inherited=list(sinks),
            logged_once=set(),
            _reported=set(),
        )

    def check_written(self) -> None:
        """Raise ``OSError`` if the last snapshot or rows of a csv file are not on disk."""
        missing = [self.snapshots.unsaved] if self.snapshots.unsaved else []
        for sink in [*filter(self._owns, self.csv_files.values()), *self.held_csv_files.values()]:
            self._guarded(sink, lambda sink: sink.write_pending())
            if sink.pending:
                missing.append(f"{len(sink.pending)} rows of {sink.path}")
        if missing:
            raise OSError(
                f"{' and '.join(missing)} could not be written: make space on the disk, then "
                "continue the run from its checkpoint, or repeat it"
            )

    def close(self) -> None:
        """Remove every sink, and close the sinks that this logger opened, the newest first."""
        # A file that cannot be completed is reported to those that were opened before it.
        for sink in reversed([*self.sinks, *self.held_csv_files.values()]):
            self._close(sink)
        self.sinks = []
        self.held_csv_files = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the iteration; files are continued by ``add_tabular_output(..., append=True)``."""
        return {"iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.iteration = state["iteration"]

    def _owns(self, sink: Sink) -> bool:
        return self.inherited is None or not _among(sink, self.inherited)

    def _close(self, sink: Sink) -> None:
        self._reported.discard(id(sink))  # What is lost in the end is reported again.
        if self._owns(sink):
            self._guarded(sink, lambda sink: sink.close())
        self._reported.discard(id(sink))

    def _each(self, write: Callable[[Sink], None]) -> None:
        for sink in list(self.sinks):
            self._guarded(sink, write)

    def _guarded(self, sink: S, write: Callable[[S], None]) -> None:
        """Write to a sink, whose failure stops neither the run nor the other sinks."""
        try:
            write(sink)
        except Exception:
            if id(sink) not in self._reported:
                self._reported.add(id(sink))
                self._report(sink, traceback.format_exc())

    def _report(self, sink: Sink, trace: str) -> None:
        again = "it tries again with every write, and at its end"
        line = f"{timestamp()} | {sink!r} failed; {again}.\n{trace}"
        others = [other for other in self.sinks if other is not sink]
        for other in others:
            self._guarded(other, lambda other: other.write_text(line))
        if not others:
            print(line, file=sys.stderr)


def timestamp() -> str:
    """Return the present local time as text."""
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f %Z")


def plain(value: Any) -> Any:
    """Return ``value`` as a number, or as text; later changes of the object do not alter it."""
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.item()
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return str(value)


def _among(sink: Sink, sinks: list[Sink]) -> bool:
    """Return whether ``sink`` itself is in ``sinks``; sinks of users may redefine equality."""
    return any(other is sink for other in sinks)

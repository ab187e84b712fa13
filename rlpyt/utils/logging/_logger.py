"""The state behind the functions of ``rlpyt.utils.logging.logger``."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import torch

from rlpyt.utils.files import replacing
from rlpyt.utils.logging.console import colorize
from rlpyt.utils.logging.sinks import (
    ConsoleSink,
    CsvSink,
    ScalarWriter,
    Sink,
    TensorboardSink,
    TextFileSink,
)

SNAPSHOT_MODES = ("all", "last", "gap", "last+gap", "none")


def check_snapshot_mode(mode: str) -> str:
    """``mode``, if there is such a mode.

    Raises:
        ValueError: if not.
    """
    if mode not in SNAPSHOT_MODES:
        raise ValueError(f"Unknown snapshot mode {mode!r}: use one of {', '.join(SNAPSHOT_MODES)}.")
    return mode


@dataclass
class Snapshots:
    """Saves parameters of a run, whole or not at all.

    Attributes:
        directory: where files go; ``None`` saves nothing.
        mode: ``all``: ``itr_<itr>.pkl`` at every call; ``last``: ``params.pkl``, overwritten;
            ``gap``: ``itr_<itr>.pkl`` at iteration 0 and at the end of every ``gap`` iterations;
            ``last+gap``: both; ``none``: nothing.
        gap: in iterations.
    """

    directory: str | None = None
    mode: str = "all"
    gap: int = 1

    def file_names(self, itr: int) -> list[str]:
        """The files to write at iteration ``itr``."""
        is_gap = itr == 0 or (itr + 1) % self.gap == 0
        names = []
        if self.mode == "all" or ("gap" in self.mode and is_gap):
            names.append(f"itr_{itr}.pkl")
        if "last" in self.mode:
            names.append("params.pkl")
        return names

    def save(self, itr: int, params: Any) -> None:
        """Write ``params`` with ``torch.save`` where mode and gap ask for it.

        A save that fails raises, and leaves the files of earlier saves as they were.
        """
        if self.directory is None:
            return
        for name in self.file_names(itr):
            with replacing(os.path.join(self.directory, name), "wb") as file:
                torch.save(params, file)


@dataclass(eq=False)
class Logger:
    """Prefixes, the row being recorded, flags, and the sinks that receive it all.

    Attributes:
        sinks: receivers, in the order of registration.
        held: open csv files that receive nothing.
        prefixes: of every line of text.
        tabular_prefixes: of every recorded key.
        rows: (key, value) recorded since the last row was written.
        snapshots: where and when parameters are saved.
        summary_dir: kept for its readers; nothing here uses it.
        iteration: the step under which values are recorded.
        disabled: nothing is logged and nothing recorded.
        tabular_disabled: rows are shown but not written.
        tabular_only: no text, and tables on a screen of their own.
        prefix_disabled: lines have no prefix.
        inherited: sinks of the logger this one was derived from; they are not closed with it.
    """

    sinks: list[Sink] = field(default_factory=lambda: [ConsoleSink()])
    held: list[CsvSink] = field(default_factory=list)
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
    _reported: set[int] = field(default_factory=set)

    @property
    def prefix(self) -> str:
        """All text prefixes in one."""
        return "".join(self.prefixes)

    @property
    def tabular_prefix(self) -> str:
        """All prefixes of keys in one."""
        return "".join(self.tabular_prefixes)

    @property
    def text_files(self) -> dict[str, TextFileSink]:
        """Text files by path."""
        return {sink.path: sink for sink in self.sinks if isinstance(sink, TextFileSink)}

    @property
    def csv_files(self) -> dict[str, CsvSink]:
        """Csv files by path, without those held."""
        return {sink.path: sink for sink in self.sinks if isinstance(sink, CsvSink)}

    @property
    def held_csv_files(self) -> dict[str, CsvSink]:
        """Held csv files by path."""
        return {sink.path: sink for sink in self.held}

    @property
    def writer(self) -> Any:
        """The tensorboard writer, or ``None``."""
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
        """Give one line of text to every sink, unless disabled or tabular-only."""
        if self.disabled or self.tabular_only:
            return
        line = str(s)
        if with_prefix and not self.prefix_disabled:
            line = self.prefix + line
        if with_timestamp:
            line = f"{timestamp()} | {line}"
        if color is not None:
            line = colorize(line, color)
        self._each(lambda sink: sink.write_text(line))

    def record(self, key: str, value: Any) -> None:
        """Add one value to the row, unless disabled."""
        if self.disabled:
            return
        key = self.tabular_prefix + str(key)
        value = plain(value)
        self._each(lambda sink: sink.write_value(key, value, self.iteration))
        self.rows.append((key, value))

    def write_rows(self) -> None:
        """Give what was recorded to every sink as one row; of equal keys the last one counts."""
        if not self.tabular_disabled:
            self._each(lambda sink: sink.write_row(dict(self.rows), self.iteration))
        self.rows.clear()

    def add_text_file(self, path: str | os.PathLike[str]) -> None:
        """Append all lines to the file ``path`` from now on."""
        if os.fspath(path) not in self.text_files:
            self.sinks.append(TextFileSink(path))

    def add_csv_file(self, path: str | os.PathLike[str], append: bool) -> None:
        """Write all rows to ``path`` from now on; a held file goes on where it was."""
        path = os.fspath(path)
        if path in self.held_csv_files:
            sink = self.held_csv_files[path]
            self.held.remove(sink)
            self.sinks.append(sink)
        elif path not in self.csv_files:
            self.sinks.append(CsvSink(path, append=append))

    def hold_csv_file(self, path: str | os.PathLike[str]) -> None:
        """Stop writing rows to ``path`` without closing it."""
        sink = self.csv_files.get(os.fspath(path))
        if sink is not None:
            self.sinks.remove(sink)
            self.held.append(sink)

    def remove_csv_file(self, path: str | os.PathLike[str]) -> None:
        """Stop writing rows to ``path`` and close it, held or not."""
        path = os.fspath(path)
        self.remove(self.csv_files.get(path))
        sink = self.held_csv_files.get(path)
        if sink is not None:
            self.held.remove(sink)
            self._close(sink)

    def add(self, sink: Sink) -> None:
        """Let ``sink`` receive everything from now on."""
        if not _among(sink, self.sinks):
            self.sinks.append(sink)

    def remove(self, sink: Sink | None) -> None:
        """Take a sink out; close it, unless it belongs to the logger this one was derived from."""
        if sink is not None and _among(sink, self.sinks):
            self.sinks = [other for other in self.sinks if other is not sink]
            self._close(sink)

    def derive(self) -> Logger:
        """A logger for a run inside of this one.

        It shares the sinks and starts with the same settings, but what is set, added, pushed or
        recorded there is not seen here. If this logger is that of a run itself, its own csv files
        and tensorboard writer are left out: the rows of two runs are not mixed.
        """
        is_run = self.inherited is not None
        sinks = [s for s in self.sinks if not (is_run and self._owns(s) and _is_of_one_run(s))]
        return replace(
            self,
            sinks=sinks,
            held=[],
            prefixes=list(self.prefixes),
            tabular_prefixes=list(self.tabular_prefixes),
            rows=[],
            snapshots=replace(self.snapshots),
            inherited=list(sinks),
            _reported=set(),
        )

    def close(self) -> None:
        """Remove every sink and close those that this logger opened."""
        for sink in self.sinks + self.held:
            self._close(sink)
        self.sinks = []
        self.held = []

    def state_dict(self) -> dict[str, Any]:
        """The iteration; files are continued by ``add_tabular_output(file_name, append=True)``."""
        return {"iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.iteration = state["iteration"]

    def _owns(self, sink: Sink) -> bool:
        return self.inherited is None or not _among(sink, self.inherited)

    def _close(self, sink: Sink) -> None:
        if self._owns(sink):
            self._guarded(sink, lambda sink: sink.close())
        self._reported.discard(id(sink))

    def _each(self, write: Callable[[Sink], None]) -> None:
        for sink in list(self.sinks):
            self._guarded(sink, write)

    def _guarded(self, sink: Sink, write: Callable[[Sink], None]) -> None:
        """A sink that fails must stop neither the run nor the other sinks."""
        try:
            write(sink)
        except Exception:
            if id(sink) not in self._reported:
                self._reported.add(id(sink))
                self._report(sink, traceback.format_exc())

    def _report(self, sink: Sink, trace: str) -> None:
        line = f"{timestamp()} | {sink!r} failed; it is tried again at every write.\n{trace}"
        others = [other for other in self.sinks if other is not sink]
        for other in others:
            self._guarded(other, lambda other: other.write_text(line))
        if not others:
            print(line, file=sys.stderr)


def timestamp() -> str:
    """Now, in local time."""
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f %Z")


def plain(value: Any) -> Any:
    """``value`` as the number it is or holds, else as text: what it is now, not what it becomes."""
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.item()
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return str(value)


def _among(sink: Sink, sinks: list[Sink]) -> bool:
    """Identity, since sinks of users may define what equality means."""
    return any(other is sink for other in sinks)


def _is_of_one_run(sink: Sink) -> bool:
    return isinstance(sink, (CsvSink, TensorboardSink))

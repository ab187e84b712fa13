"""Sinks: receivers of lines, numbers and rows. Here: the console, and files in the run's directory.

Programs can register other sinks, see :class:`Sink`.
"""

from __future__ import annotations

import csv
import io
import json
import math
import numbers
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rlpyt.utils.files import make_parent, replacing

MISSING = "nan"
NOT_TEXT = "backslashreplace"  # For names of files that are not UTF-8.


@runtime_checkable
class Sink(Protocol):
    """Receiver of all logged data; inherit from it and override the methods you need.

    If a sink raises, the run continues, and the other sinks get the traceback once. The sink stays
    registered, since a full disk or a lost connection may pass.
    """

    def write_text(self, line: str) -> None:
        """Receive one line of text, or a table, without the last line break."""
        return

    def write_value(self, key: str, value: Any, step: int) -> None:
        """Receive one value as soon as it is recorded; ``step`` is the iteration."""
        return

    def write_row(self, row: dict[str, Any], step: int) -> None:
        """Receive the values recorded since the last row, in the order of recording."""
        return

    def close(self) -> None:
        """Release files and connections; nothing is written afterwards."""
        return


class RunInfo(NamedTuple):
    """Description of the run that a sink belongs to."""

    directory: str  # Directory of the log.
    name: str
    run_ID: int | str
    params: Mapping[str, Any]
    # Commit of the program, and whether files differ from it; None outside of a repository.
    code: Mapping[str, Any] | None = None
    resume: bool = False  # Whether the run continues from an earlier state.


class RunSink(Sink):
    """Sink of one run; a run inside that run does not write to it.

    ``logger_context(..., sinks=[...])`` opens it before anything is written.
    """

    def open(self, run: RunInfo) -> None:
        """Prepare to receive the values of ``run``."""
        return

    def write_video(self, key: str, path: str, step: int) -> None:
        """Receive the video in the file ``path``."""
        return

    def drop_after(self, step: int) -> None:
        """Forget later steps: a resumed run writes them again."""
        return


class PendingSink(RunSink):
    """Base class of sinks whose writes may fail: the next write begins with the unwritten entries.

    A subclass writes one entry in ``write_entry``, and calls ``append`` with every new one.
    """

    def __init__(self) -> None:
        self.pending: deque[Any] = deque()

    def write_entry(self, entry: Any) -> None:
        """Write one entry completely, or raise and write no part of it."""
        raise NotImplementedError

    def append(self, entry: Any) -> None:
        """Write all pending entries, then this one."""
        self.pending.append(entry)
        self.write_pending()

    def write_pending(self) -> None:
        """Write the pending entries, oldest first, until one fails."""
        while self.pending:
            self.write_entry(self.pending[0])
            self.pending.popleft()

    def close(self) -> None:
        self.write_pending()


class ConsoleSink(Sink):
    """Sink that prints every line."""

    def write_text(self, line: str) -> None:
        print(line, flush=True)


class TextFileSink(Sink):
    """Sink that appends every line to a file; it is in the file when the call returns.

    Args:
        path: file to append to; missing directories are made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = make_parent(path)
        self.file = open(self.path, "a", encoding="utf-8", errors=NOT_TEXT)  # noqa: SIM115 (closed in close)

    def write_text(self, line: str) -> None:
        self.file.write(line + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class ScalarWriter(Protocol):
    """Protocol with the used part of tensorboard's ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int, /) -> Any:
        """Write one number."""


class TensorboardSink(RunSink):
    """Sink that sends every recorded number to a tensorboard writer, and never closes it.

    Args:
        writer: ``torch.utils.tensorboard.SummaryWriter``, or any object with its ``add_scalar``.
    """

    def __init__(self, writer: ScalarWriter) -> None:
        self.writer = writer

    def write_value(self, key: str, value: Any, step: int) -> None:
        if isinstance(value, (numbers.Real, np.bool_)):
            self.writer.add_scalar(key, value, step)

    def drop_after(self, step: int) -> None:
        # Writers of other kinds keep the later steps.
        file_writer = getattr(self.writer, "file_writer", None)
        if file_writer is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        restart = SessionLog(status=SessionLog.START)
        file_writer.add_event(Event(step=step + 1, session_log=restart))


class CsvSink(PendingSink):
    """Sink that appends every row to a csv file; it is in the file when the call returns.

    The header comes with the first row, in the order of recording. New keys in a later row extend
    it on the right: the file is replaced, and older rows have ``nan`` there.

    Args:
        path: csv file; missing directories are made. A relative path stays the same file when the
            working directory changes.
        append: whether to continue an existing file; it is emptied otherwise.
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        super().__init__()
        self.path = make_parent(path)
        self._absolute_path = os.path.abspath(self.path)
        self.columns: list[str] = []
        if append and os.path.exists(self._absolute_path):
            self._adopt()
        else:
            open(self._absolute_path, "wb").close()
        self.file = self._open()

    def __repr__(self) -> str:
        return f"CsvSink({self.path!r})"

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self.append(row)

    def write_entry(self, row: dict[str, Any]) -> None:
        self._extend_header(row)
        append_whole(self.file, _line([str(row.get(column, MISSING)) for column in self.columns]))

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.file.close()

    def keep_rows(self, keep: Callable[[dict[str, str]], bool]) -> None:
        """Remove every row for which ``keep(row)`` is false; the fields of ``row`` are text."""
        rows = (row for row in self._rows() if keep(dict(zip(self.columns, row))))
        self._rewrite(rows, self.columns)

    def _extend_header(self, row: Iterable[str]) -> None:
        new = [key for key in row if key not in self.columns]
        if not new:
            return
        padding = [MISSING] * len(new)
        rows = (old_row + padding for old_row in self._rows())
        self._rewrite(rows, self.columns + new)

    def _rows(self) -> Iterator[list[str]]:
        with open(self._absolute_path, encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            next(reader, None)
            yield from (row for row in reader if row)

    def _rewrite(self, rows: Iterable[list[str]], columns: list[str]) -> None:
        with replacing(self._absolute_path, "wb") as new_file:
            new_file.write(_line(columns))
            for row in rows:
                new_file.write(_line(row))
        self.columns = columns
        self.file.close()
        self.file = self._open()

    def _adopt(self) -> None:
        with open(self._absolute_path, "rb+") as file:
            # A crashed machine may leave half a line at the end.
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
        with open(self._absolute_path, encoding="utf-8", newline="") as text:
            self.columns = next(csv.reader(text), [])

    def _open(self) -> io.FileIO:
        return open(self._absolute_path, "ab", buffering=0)  # noqa: SIM115 (closed in close)


class JsonLinesSink(PendingSink):
    """Sink that appends every row to ``<run directory>/progress.jsonl``, as a JSON object.

    The first line has the keys ``name``, ``run_ID``, ``params`` and ``code``; all others have
    ``step`` (the iteration), ``time`` (seconds since 1970) and the recorded values, of which
    ``step`` and ``time`` become ``step_`` and ``time_``; numbers that are not finite become
    ``null``.
    """

    def __init__(self, file_name: str = "progress.jsonl") -> None:
        super().__init__()
        self.file_name = file_name
        self.path = ""

    def open(self, run: RunInfo) -> None:
        self.path = os.path.join(run.directory, self.file_name)
        head = {"name": run.name, "run_ID": run.run_ID, "params": run.params, "code": run.code}
        if run.resume and os.path.exists(self.path):
            self._keep(lambda row: True)
            return
        open(self.path, "wb").close()
        self.append(_json(head))

    def write_row(self, row: dict[str, Any], step: int) -> None:
        own = {"step": step, "time": time.time()}
        recorded = {f"{key}_" if key in own else key: value for key, value in row.items()}
        self.append(_json({**own, **recorded}))

    def write_video(self, key: str, path: str, step: int) -> None:
        self.write_row({key: os.path.relpath(path, os.path.dirname(self.path))}, step)

    def drop_after(self, step: int) -> None:
        self._keep(lambda row: row.get("step", step) <= step)

    def write_entry(self, values: Any) -> None:
        text = json.dumps(values, default=str, allow_nan=False)
        with open(self.path, "ab", buffering=0) as file:
            append_whole(file, text.encode() + b"\n")

    def _keep(self, keep: Callable[[dict[str, Any]], bool]) -> None:
        """Remove rows, and half a line at the end, which a crashed machine may leave."""
        with open(self.path, "rb") as old:
            lines = [line for line in old if line.endswith(b"\n") and keep(json.loads(line))]
        with replacing(self.path, "wb") as new:
            new.writelines(lines)


def append_whole(file: io.FileIO, line: bytes) -> None:
    """Append a line to an unbuffered file, completely or not at all.

    Raises:
        OSError: if only a part could be written.
    """
    # A single write, so that a dying process leaves no half of a line.
    start = file.seek(0, os.SEEK_END)
    if file.write(line) != len(line):
        file.truncate(start)
        raise OSError(f"Could not write a whole row to {file.name!r}; is the disk full?")


def _line(fields: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode("utf-8", NOT_TEXT)


def _json(value: Any) -> Any:
    """Return a value in JSON's types, which lack NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value

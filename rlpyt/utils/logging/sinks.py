"""Sinks: the receivers of the lines, numbers and rows of a run; users register their own."""

from __future__ import annotations

import csv
import io
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rlpyt.utils.files import make_parent, replacing

MISSING = "nan"


@runtime_checkable
class Sink(Protocol):
    """Receiver of everything that is logged; inherit from it and override what is of interest.

    A sink that raises is reported once, with its traceback, to the other sinks. It stays
    registered, since a full disk or a lost connection may pass, and the run continues.
    """

    def write_text(self, line: str) -> None:
        """Receive one line of text, without its line break."""
        return

    def write_value(self, key: str, value: Any, step: int) -> None:
        """Receive one value as soon as it is recorded; ``step`` is the iteration."""
        return

    def write_row(self, row: dict[str, Any], step: int) -> None:
        """Receive all that was recorded since the last row, in the order of recording."""
        return

    def close(self) -> None:
        """Release files or connections; nothing is written afterwards."""
        return


class RunInfo(NamedTuple):
    """Run that a sink belongs to."""

    directory: str  # Directory of its log.
    name: str
    run_ID: int | str
    params: Mapping[str, Any]
    # Commit of the program, and whether files were changed since; None outside of a repository.
    code: Mapping[str, Any] | None = None
    resume: bool = False  # Whether it continues from an earlier state.


class RunSink(Sink):
    """Sink of one run; an inner run does not write to it.

    Given as ``logger_context(..., sinks=[...])`` it learns of the run before anything is written.
    """

    def open(self, run: RunInfo) -> None:
        """Prepare to receive the values of ``run``."""
        return

    def write_video(self, key: str, path: str, step: int) -> None:
        """Receive a video, which lies in the file ``path``."""
        return

    def drop_after(self, step: int) -> None:
        """Forget what belongs to later steps: a resumed run writes it again."""
        return


class ConsoleSink(Sink):
    """Sink that prints every line."""

    def write_text(self, line: str) -> None:
        print(line, flush=True)


class TextFileSink(Sink):
    """Sink that appends every line to a file, which holds it when the call returns.

    Args:
        path: file to append to; missing directories are made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = make_parent(path)
        self.file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (closed in close)

    def write_text(self, line: str) -> None:
        self.file.write(line + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class ScalarWriter(Protocol):
    """Protocol of the method that is used of a tensorboard ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int, /) -> Any:
        """Write one number."""


class TensorboardSink(RunSink):
    """Sink that hands every recorded number to a tensorboard writer, which its maker closes.

    Args:
        writer: a ``torch.utils.tensorboard.SummaryWriter``, or any object with its ``add_scalar``.
    """

    def __init__(self, writer: ScalarWriter) -> None:
        self.writer = writer

    def write_value(self, key: str, value: Any, step: int) -> None:
        if isinstance(value, (numbers.Real, np.bool_)):
            self.writer.add_scalar(key, value, step)

    def drop_after(self, step: int) -> None:
        # A writer of another kind keeps them.
        file_writer = getattr(self.writer, "file_writer", None)
        if file_writer is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        restart = SessionLog(status=SessionLog.START)
        file_writer.add_event(Event(step=step + 1, session_log=restart))


class CsvSink(Sink):
    """Sink that appends every row to a csv file; the row is written when the call returns.

    The header is written with the first row, in the order of recording. A later row with new keys
    extends it on the right: the file is replaced by one in which older rows have ``nan`` there. A
    row that could not be written, for example to a full disk, is kept and written before the next.

    Args:
        path: csv file; missing directories are made. A relative path means the same file after
            the working directory has changed.
        append: whether to continue an existing file; it is emptied otherwise.
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self.path = make_parent(path)
        self._absolute_path = os.path.abspath(self.path)
        self.columns: list[str] = []
        self._pending: list[dict[str, Any]] = []
        if append and os.path.exists(self._absolute_path):
            self._adopt()
        else:
            open(self._absolute_path, "wb").close()
        self.file = self._open()

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self._pending.append(row)
        self._write_pending()

    def close(self) -> None:
        try:
            self._write_pending()
        finally:
            self.file.close()

    def keep_rows(self, keep: Callable[[dict[str, str]], bool]) -> None:
        """Remove every row for which ``keep(row)`` is false; the fields of ``row`` are text."""
        self._rewrite(row for row in self._rows() if keep(dict(zip(self.columns, row))))

    def _write_pending(self) -> None:
        while self._pending:
            row = self._pending[0]
            self._extend_header(row)
            self._append([str(row.get(column, MISSING)) for column in self.columns])
            self._pending.pop(0)

    def _extend_header(self, row: Iterable[str]) -> None:
        new = [key for key in row if key not in self.columns]
        if not new:
            return
        padding = [MISSING] * len(new)
        rows = (old_row + padding for old_row in self._rows())
        self._rewrite(rows, self.columns + new)

    def _append(self, fields: list[str]) -> None:
        append_whole(self.file, _line(fields))

    def _rows(self) -> Iterator[list[str]]:
        with open(self._absolute_path, encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            next(reader, None)
            yield from (row for row in reader if row)

    def _rewrite(self, rows: Iterable[list[str]], columns: list[str] | None = None) -> None:
        columns = self.columns if columns is None else columns
        with replacing(self._absolute_path, "wb") as new_file:
            new_file.write(_line(columns))
            for row in rows:
                new_file.write(_line(row))
        self.columns = columns
        self.file.close()
        self.file = self._open()

    def _adopt(self) -> None:
        with open(self._absolute_path, "rb+") as file:
            # A line without its end is what a crashed machine may leave; it is no row.
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
        with open(self._absolute_path, encoding="utf-8", newline="") as text:
            self.columns = next(csv.reader(text), [])

    def _open(self) -> io.FileIO:
        return open(self._absolute_path, "ab", buffering=0)  # noqa: SIM115 (closed in close)


def append_whole(file: io.FileIO, line: bytes) -> None:
    """Append a line to an unbuffered file, whole or not at all.

    Raises:
        OSError: if not all of it could be written.
    """
    # One write: whenever the process dies, no half of a line is left.
    start = file.seek(0, os.SEEK_END)
    if file.write(line) != len(line):
        file.truncate(start)
        raise OSError(f"Could not write a whole row to {file.name!r}; is the disk full?")


def _line(fields: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode("utf-8")

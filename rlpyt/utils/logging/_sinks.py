"""Where lines, numbers and rows of a run go to; users register their own."""

from __future__ import annotations

import numbers
import os
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rlpyt.utils.files import make_parent


@runtime_checkable
class Sink(Protocol):
    """A receiver of everything that is logged; inherit from it and override what is of interest.

    A sink which raises is reported once, with its traceback, to the other sinks. It stays
    registered, since a full disk or a lost connection may pass, and the run goes on.
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


class ConsoleSink(Sink):
    """Prints every line."""

    def write_text(self, line: str) -> None:
        print(line, flush=True)


class TextFileSink(Sink):
    """Appends every line to a file, which holds it when the call returns.

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
    """What is used of a tensorboard ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int, /) -> Any:
        """Write one number."""


class TensorboardSink(Sink):
    """Hands every recorded number to a tensorboard writer, which its maker closes.

    Args:
        writer: a ``torch.utils.tensorboard.SummaryWriter``, or any object with its ``add_scalar``.
    """

    def __init__(self, writer: ScalarWriter) -> None:
        self.writer = writer

    def write_value(self, key: str, value: Any, step: int) -> None:
        if isinstance(value, (numbers.Real, np.bool_)):
            self.writer.add_scalar(key, value, step)

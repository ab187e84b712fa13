"""Colours and tables of the terminal; the rest is kept for programs of rlpyt 0.1.2."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tabulate import tabulate

CLEAR_SCREEN = "\x1b[2J\x1b[H"
N_HEADER_LINES = 3

color2num = {
    "gray": 30,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "white": 37,
    "crimson": 38,
}


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Return ``string`` between the ANSI codes of a colour and of its end.

    Args:
        string: text to colour.
        color: key of ``color2num``.
        bold: whether the text is bold.
        highlight: whether the background is coloured.

    Raises:
        ValueError: if there is no such colour.
    """
    if color not in color2num:
        raise ValueError(f"color={color!r} must be one of {', '.join(color2num)}")
    codes = [str(color2num[color] + (10 if highlight else 0))]
    if bold:
        codes.append("1")
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


def on_terminal(string: str, color: str) -> str:
    """Return ``string`` in a colour if the output goes to a terminal, otherwise unchanged."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return colorize(string, color) if is_terminal else string


class TerminalTablePrinter:
    """Screen of the tabular-only mode: the latest rows under one header.

    The first row determines the columns. Where the output is not a terminal, only the newest row is
    printed and nothing is cleared.
    """

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.tabulars: list[list[Any]] = []

    def print_tabular(self, new_tabular: Iterable[tuple[str, Any]]) -> None:
        """Add one row.

        Args:
            new_tabular: (key, value) of each column; keys not in the first row are not shown.
        """
        row = dict(new_tabular)
        self.headers = self.headers or list(row)
        self.tabulars.append([row.get(key) for key in self.headers])
        self.refresh()

    def refresh(self) -> None:
        """Print the rows again."""
        is_terminal = sys.stdout.isatty()
        n_rows = max(1, shutil.get_terminal_size().lines - N_HEADER_LINES) if is_terminal else 1
        del self.tabulars[:-n_rows]
        table = tabulate(self.tabulars, self.headers)
        print((CLEAR_SCREEN if is_terminal else "") + table, flush=True)


def mkdir_p(path: str | os.PathLike[str]) -> None:
    """Create a directory and its parents, if they do not exist yet."""
    os.makedirs(path, exist_ok=True)


def log(s: str) -> None:
    """Print ``s`` at once."""
    print(s, flush=True)


MESSAGE_DEPTH = 0


class SimpleMessage:
    """Context that announces its beginning."""

    def __init__(self, msg: str, logger: Callable[[str], Any] = log) -> None:
        self.msg = msg
        self.logger = logger

    def __enter__(self) -> SimpleMessage:
        self.logger(self.msg)
        return self

    def __exit__(self, etype: Any, *args: Any) -> None:
        self.logger("done" if etype is None else "failed")


class Message(SimpleMessage):
    """``SimpleMessage`` that prints."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


def prefix_log(prefix: str, logger: Callable[[str], Any] = log) -> Callable[[str], None]:
    """Return a function that passes its text with ``prefix`` to ``logger``."""
    return lambda s: logger(prefix + s)

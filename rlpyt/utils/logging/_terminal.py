"""The screen of the tabular-only mode: one line per iteration."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Any

from rlpyt.utils.logging.tabulate import tabulate

CLEAR_SCREEN = "\x1b[2J\x1b[H"
N_HEADER_LINES = 3


class TerminalTablePrinter:
    """Shows the latest rows under one header, as many as the terminal holds.

    Columns are those of the first row. On something else than a terminal only the newest row is
    printed, and nothing is cleared.
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

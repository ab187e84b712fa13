"""Progress bar between two rows of the log."""

from __future__ import annotations

import sys
from typing import Any

from rlpyt.utils.logging import logger

_TICKS = 1_000_000


class ProgBarCounter:
    """Progress bar on stderr; silent without a terminal or pyprind, and in tabular-only mode.

    Args:
        total_count: count at which the bar is full.
    """

    def __init__(self, total_count: float) -> None:
        self.total_count = total_count
        self.cur_progress = 0
        self.pbar: Any = _make_bar()

    def update(self, current_count: float) -> None:
        """Fill the bar up to ``current_count``, at most to its end; it never empties."""
        if not self._shown():
            return
        progress = min(_TICKS, int(_TICKS * current_count / max(self.total_count, 1)))
        if progress > self.cur_progress:
            self.pbar.update(progress - self.cur_progress)
            self.cur_progress = progress

    def stop(self) -> None:
        """End the line of the bar, if there is a bar."""
        if self._shown() and self.pbar.active:
            self.pbar.stop()

    def _shown(self) -> bool:
        return self.pbar is not None and not logger.get_log_tabular_only()


def _make_bar() -> Any:
    if logger.get_log_tabular_only() or not (sys.stderr is not None and sys.stderr.isatty()):
        return None
    try:
        import pyprind
    except ImportError:
        return None
    return pyprind.ProgBar(_TICKS, stream=sys.stderr)

"""Priorities which come with the samples, before their rows are switched on."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays._memory import Allocate
from rlpyt.replays._ring import as_numpy, write_rows
from rlpyt.replays._window import Window
from rlpyt.utils.types import NDArray


class InputPriorities:
    """A priority [T,B] for every row, kept until the row is complete.

    Args:
        window: of the tree, owner of T, B and the cursor.
        shift: rows by which priorities belong to earlier rows than those they come with.
        default_value: where none was given.
        allocate: makes the array.
    """

    def __init__(
        self, window: Window, shift: int, default_value: float, allocate: Allocate
    ) -> None:
        self.window = window
        self.shift = shift
        self.default_value = float(default_value)
        self.array: NDArray = allocate(np.float64(0), (window.T, window.B))
        self.reset()

    def reset(self) -> None:
        """Forget what was given."""
        self.array[:] = self.default_value

    def check(self, priorities: Any, n_rows: int) -> NDArray:
        """``priorities`` as numpy.

        Raises:
            ValueError: if they are not a scalar, [B] or [n_rows,B], negative or not finite.
        """
        values = as_numpy(priorities)
        B = self.window.B
        if values.shape not in ((), (B,), (n_rows, B)):
            raise ValueError(
                f"priorities have shape {values.shape}: give a scalar, [B]={(B,)} or "
                f"[T,B]={(n_rows, B)}"
            )
        if not ((values >= 0) & (values < np.inf)).all():
            raise ValueError(f"priorities must be finite and not negative, got {values}")
        return values

    def store(self, priorities: NDArray | None, n_rows: int) -> None:
        """Keep ``priorities`` (None: the default) of rows that are appended, before t moves."""
        values = np.full((n_rows, self.window.B), self.default_value)
        # Rows whose priority comes later than they are switched on must not have an old row's.
        write_rows(self.array, self.window.t, values, self.window.T)
        if priorities is not None:
            values[:] = priorities
        first = self.window.t - self.shift
        n_gone = max(0, self.window.oldest_after(n_rows) - first)
        write_rows(self.array, first + n_gone, values[n_gone:], self.window.T)

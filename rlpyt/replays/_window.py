"""Circular time axis: the cursor, the rows that may be sampled now, and writing across the end."""

from __future__ import annotations

import ctypes
from multiprocessing.sharedctypes import RawValue
from typing import Any

from rlpyt.utils.types import NDArray


def runs(first: int, n_rows: int, T: int) -> list[tuple[int, int]]:
    """Cut ``n_rows`` rows from ``first`` on a circle of T rows into at most two (start, stop).

    Args:
        first: any integer, taken modulo T.
        n_rows: number of rows, at most T.
        T: rows of the circle.
    """
    start = first % T
    stop = start + n_rows
    if stop <= T:
        return [(start, stop)] if n_rows > 0 else []
    return [(start, T), (0, stop - T)]


def write_rows(array: NDArray, t: int, source: NDArray, T: int) -> None:
    """Copy ``source`` [T',...] to rows from t on of ``array`` [T,...], in at most two pieces."""
    done = 0
    for start, stop in runs(t, len(source), T):
        array[start:stop] = source[done : done + stop - start]
        done += stop - start


class Window:
    """A cursor on a circle of T rows of B environments, and the rows that are complete.

    Row t is written next, row t - 1 is the newest (age 0), row t - 2 has age 1, and so on. Valid
    are the rows of age ``off_backward <= age < n_filled - off_forward``: the newest still wait for
    what follows them (n-step return, next observation), and the oldest, from row t on, have lost
    what preceded them (previous action, history of frames), or never had it.

    Args:
        T: number of rows.
        B: number of environments.
        off_backward: invalid rows behind the cursor.
        off_forward: invalid rows from the cursor on.

    Raises:
        ValueError: if no row could ever be valid.
    """

    def __init__(self, T: int, B: int, off_backward: int, off_forward: int) -> None:
        self.T = T
        self.B = B
        self.t = 0
        self.full = False
        self.set_margins(off_backward, off_forward)

    def set_margins(self, off_backward: int, off_forward: int) -> None:
        """Set how many rows behind the cursor, and from it on, are invalid."""
        needed = off_backward + off_forward + 1
        if needed > self.T:
            raise ValueError(
                f"size holds T={self.T} rows of B={self.B} environments, but {off_backward} rows "
                f"behind the cursor and {off_forward} from it on are never valid: make size at "
                f"least {needed * self.B} (and larger than a few sampler batches)"
            )
        self.off_backward = off_backward
        self.off_forward = off_forward

    @property
    def n_filled(self) -> int:
        """Rows written so far, at most T."""
        return self.T if self.full else self.t

    def newest_valid(self, n_rows: int) -> tuple[int, int]:
        """Return the first row and number of the newest valid rows, at most ``n_rows``.

        They are adjacent; the first may be negative, from the end of the circle.
        """
        n_valid = max(0, self.n_filled - self.off_forward - self.off_backward)
        number = min(n_rows, n_valid)
        return self.t - self.off_backward - number, number

    def oldest_after(self, n_rows: int) -> int:
        """Return the oldest row left once ``n_rows`` more are written; negative if wrapped."""
        first = self.t + n_rows - self.T
        return first if self.full else max(0, first)

    def check_fits(self, n_rows: int) -> None:
        """Raise ``ValueError`` if ``n_rows`` rows cannot be written at once."""
        if n_rows > self.T:
            raise ValueError(
                f"cannot append {n_rows} rows at once to a buffer of T={self.T} rows: make size at "
                f"least {n_rows * self.B}, or the batches shorter"
            )

    def advance(self, n_rows: int) -> None:
        """Move the cursor behind ``n_rows`` rows that were written."""
        end = self.t + n_rows
        self.full = self.full or end >= self.T
        self.t = end % self.T

    def state_dict(self) -> dict[str, Any]:
        """Return shape and cursor."""
        return {"T": self.T, "B": self.B, "t": self.t, "full": self.full}

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise ``ValueError`` if ``state`` belongs to another shape."""
        if (state["T"], state["B"]) != (self.T, self.B):
            raise ValueError(
                f"the state is of T={state['T']} rows and B={state['B']} environments, this object "
                f"has T={self.T} and B={self.B}: construct it with the same size and B"
            )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the cursor of ``state``.

        Raises:
            ValueError: if its shape differs.
        """
        self.check_state(state)
        self.t = int(state["t"])
        self.full = bool(state["full"])


class SharedCursor:
    """Row that is written next, and whether all were, in memory that processes share.

    A process works on a :class:`Window` of its own, which it sets from here before and writes back
    after a change; both need a lock around them.
    """

    def __init__(self) -> None:
        self.t = RawValue("l", 0)
        self.full = RawValue(ctypes.c_bool, False)

"""Circular time axis: the cursor, and the rows that may be drawn now."""

from __future__ import annotations

import ctypes
from multiprocessing.sharedctypes import RawValue
from typing import Any

import numpy as np

from rlpyt.replays._memory import Allocate
from rlpyt.utils.types import BoolArray, IntArray, NDArray


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


class Window:
    """A cursor on a circle of T rows of B environments, and the rows that are complete.

    Row t is written next, row t - 1 is the newest (age 0), row t - 2 has age 1, and so on. Valid
    rows have ``off_backward <= age < n_filled - off_forward``: the newest still wait for what
    follows them (n-step return, next observation), and the oldest, from row t on, have lost what
    preceded them (previous action, history of frames), or never had it.

    Args:
        T: number of rows.
        B: number of environments.
        off_backward: number of invalid rows behind the cursor.
        off_forward: number of invalid rows from the cursor on.

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
        """Set the numbers of invalid rows behind the cursor, and from it on."""
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

        The rows are consecutive. A negative first row counts back from the end of the circle.
        """
        n_valid = max(0, self.n_filled - self.off_forward - self.off_backward)
        number = min(n_rows, n_valid)
        return self.t - self.off_backward - number, number

    def oldest_after(self, n_rows: int) -> int:
        """Return the oldest row that remains after ``n_rows`` more are written.

        A negative row counts back from the end of the circle.
        """
        first = self.t + n_rows - self.T
        return first if self.full else max(0, first)

    def check_fits(self, n_rows: int) -> None:
        """Raise ``ValueError`` if ``n_rows`` rows cannot be written at once."""
        if n_rows > self.T:
            raise ValueError(
                f"cannot append {n_rows} rows at once to a buffer of T={self.T} rows: make size at "
                f"least {n_rows * self.B}, or the batches shorter"
            )

    def advance(self, n_rows: int) -> slice | IntArray:
        """Move the cursor past ``n_rows`` newly written rows.

        Returns:
            These rows, as a slice or (where they wrap) as indexes [n_rows].
        """
        first, end = self.t, self.t + n_rows
        self.full = self.full or end >= self.T
        self.t = end % self.T
        return slice(first, end) if end <= self.T else np.arange(first, end) % self.T

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
    """Cursor that processes share: the row to write next, and whether all were written.

    Each process works on its own :class:`Window`, which it sets from here before and writes back
    after a change; both need a lock around them.
    """

    def __init__(self) -> None:
        self.t = RawValue("l", 0)
        self.full = RawValue(ctypes.c_bool, False)


class TruncatedRows:
    """Marks of rows with an n-step return that ends at a truncation, not at the end of an episode.

    Such a return has no bootstrap value: the observation after it does not exist. The marks stay
    until the rows are overwritten.

    Args:
        T: number of rows.
        B: number of environments.
        allocate: function that makes the arrays, in shared memory if processes share the buffer.

    Attributes:
        marks: [T,B] whether a row is marked.
        is_any: [1] whether any row is marked.
    """

    def __init__(self, T: int, B: int, allocate: Allocate) -> None:
        self.marks: NDArray = allocate(np.bool_(False), (T, B))
        self.is_any: NDArray = allocate(np.bool_(False), (1,))

    def add(
        self, done: NDArray, row: int, B_idxs: IntArray, n_rows: int
    ) -> tuple[IntArray, IntArray]:
        """Mark the newest of ``n_rows`` rows up to ``row`` that follow the last end of an episode.

        Args:
            done: flags [T,B], not yet set for the truncation.
            row: newest row.
            B_idxs: environments.
            n_rows: number of rows that wait for what follows.

        Returns:
            Rows [n] and environments [n] that are marked now.
        """
        T = len(done)
        marked: list[tuple[int, int]] = []
        for b in B_idxs:
            for age in range(n_rows):
                if done[(row - age) % T, b]:
                    break
                marked.append(((row - age) % T, b))
        rows, envs = np.array(marked, int).reshape(-1, 2).T
        self.marks[rows, envs] = True
        self.is_any[0] |= bool(marked)
        return rows, envs

    def overwrite(self, rows: slice | IntArray) -> None:
        """Forget the marks of ``rows``, which were overwritten."""
        self.marks[rows] = False
        self.is_any[0] = self.marks.any()

    def hits(self, T_idxs: IntArray, B_idxs: IntArray, n_steps: int = 1) -> BoolArray:
        """Return whether [n] one of ``n_steps`` rows from each of ``T_idxs`` on is marked."""
        rows = (T_idxs + np.arange(n_steps)[:, None]) % len(self.marks)
        found: BoolArray = self.marks[rows, B_idxs].any(axis=0)
        return found

    def draw(
        self,
        rng: np.random.Generator,
        n: int,
        first: int,
        n_rows: int,
        step: int,
        n_steps: int = 1,
    ) -> tuple[IntArray, IntArray]:
        """Draw ``n`` entries with equal probability, but none with a mark.

        Args:
            rng: generator of the draws; draws that hit a mark are repeated.
            n: number of draws.
            first: row of the first entries, one for each environment; any integer.
            n_rows: number of rows at which entries begin.
            step: number of rows from one of them to the next.
            n_steps: number of rows in an entry.

        Returns:
            Rows [n] and environments [n].

        Raises:
            ValueError: if all entries are marked.
        """
        T, B = self.marks.shape
        n_entries = n_rows * B

        def locate(entries: IntArray) -> tuple[IntArray, IntArray]:
            k, B_idxs = np.divmod(entries, B)
            return (first + k * step) % T, B_idxs

        T_idxs, B_idxs = locate(rng.integers(n_entries, size=n))
        if not self.is_any:
            return T_idxs, B_idxs
        hits = self.hits(T_idxs, B_idxs, n_steps)
        for _ in range(8):
            if not hits.any():
                return T_idxs, B_idxs
            T_idxs[hits], B_idxs[hits] = locate(rng.integers(n_entries, size=int(hits.sum())))
            hits = self.hits(T_idxs, B_idxs, n_steps)
        # Few entries are left: list them all, so that the search ends.
        left = np.flatnonzero(~self.hits(*locate(np.arange(n_entries)), n_steps))
        if len(left) == 0:
            raise ValueError(
                f"cannot sample: all {n_entries} complete entries run into a truncation; append "
                "more samples first"
            )
        T_idxs[hits], B_idxs[hits] = locate(rng.choice(left, int(hits.sum())))
        return T_idxs, B_idxs

    def state_dict(self) -> dict[str, Any]:
        """Return the marked rows and environments [n,2]."""
        return {"marked": np.argwhere(self.marks) if self.is_any else np.empty((0, 2), np.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        self.marks[:] = False
        rows, envs = state["marked"].T
        self.marks[rows, envs] = True
        self.is_any[0] = len(rows) > 0

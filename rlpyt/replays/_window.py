"""Circular time axis: the cursor, the rows that may be drawn now, and writing across the end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from multiprocessing.sharedctypes import RawValue
from typing import Any

import numpy as np

from rlpyt.replays._memory import Allocate
from rlpyt.utils.types import BoolArray, IntArray, NDArray

# Returns rows [n] and environments [n] of the entries with numbers [n].
Locate = Callable[[IntArray], tuple[IntArray, IntArray]]


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

    def advance(self, n_rows: int) -> None:
        """Move the cursor past ``n_rows`` newly written rows."""
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
    """

    def __init__(self, T: int, B: int, allocate: Allocate) -> None:
        self.marks: NDArray = allocate(np.bool_(False), (T, B))
        self._is_any: NDArray = allocate(np.bool_(False), (1,))

    @property
    def is_any(self) -> bool:
        """Whether any row is marked."""
        return bool(self._is_any[0])

    def add(self, done: NDArray, row: int, B_idxs: Any, n_rows: int) -> tuple[list[int], list[int]]:
        """Mark the newest of ``n_rows`` rows up to ``row`` that follow the last end of an episode.

        Args:
            done: flags [T,B]; they are set in ``row``.
            row: newest row.
            B_idxs: environments, as indexes or a mask.
            n_rows: number of rows that wait for what follows.

        Returns:
            Rows and environments that are marked now.
        """
        T = len(done)
        rows: list[int] = []
        envs: list[int] = []
        for b in np.arange(done.shape[1])[B_idxs].reshape(-1):
            if done[row, b]:
                continue
            for age in range(n_rows):
                if age > 0 and done[(row - age) % T, b]:
                    break
                rows.append((row - age) % T)
                envs.append(b)
            done[row, b] = True
        self.marks[rows, envs] = True
        self._is_any[0] |= bool(rows)
        return rows, envs

    def overwrite(self, rows: slice | IntArray) -> None:
        """Forget the marks of ``rows``, which were overwritten."""
        if self.is_any and self.marks[rows].any():
            self.marks[rows] = False
            self._is_any[0] = self.marks.any()

    def hits(self, T_idxs: IntArray, B_idxs: IntArray, n_steps: int = 1) -> BoolArray:
        """Return whether [n] one of ``n_steps`` rows from each of ``T_idxs`` on is marked."""
        rows = (T_idxs + np.arange(n_steps)[:, None]) % len(self.marks)
        found: BoolArray = self.marks[rows, B_idxs].any(axis=0)
        return found

    def draw(
        self, rng: np.random.Generator, n: int, n_entries: int, locate: Locate, n_steps: int = 1
    ) -> tuple[IntArray, IntArray]:
        """Draw ``n`` of ``n_entries`` with equal probability, but none with a mark.

        Args:
            rng: generator of the draws; draws that hit a mark are repeated.
            n: number of draws.
            n_entries: number of entries, marked ones included.
            locate: function that returns rows and environments of entries, given their numbers.
            n_steps: number of rows in an entry.

        Raises:
            ValueError: if all entries are marked.
        """
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
        self._is_any[0] = len(rows) > 0

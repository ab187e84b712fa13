"""Rows that are never drawn, because their environment was restarted before they were complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlpyt.replays._memory import Allocate
from rlpyt.utils.types import BoolArray, IntArray, NDArray

# Rows [n] and environments [n] of places [n] among those to draw from.
Place = Callable[[IntArray], tuple[IntArray, IntArray]]


class TruncatedRows:
    """Marks of rows with an n-step return that ends at a truncation, not at the end of an episode.

    Such a return has no bootstrap value: the observation after it was never made. The marks stay
    until the rows are overwritten.

    Args:
        T: number of rows.
        B: number of environments.
        allocate: makes the arrays, in memory that processes share if need be.

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
            done: flags [T,B]; those of ``row`` are set where they are not.
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
        """Forget the marks of ``rows``, which were written anew."""
        if self.is_any and self.marks[rows].any():
            self.marks[rows] = False
            self._is_any[0] = self.marks.any()

    def hits(self, T_idxs: IntArray, B_idxs: IntArray, n_steps: int = 1) -> BoolArray:
        """Return whether [n] there is a mark among ``n_steps`` rows from each of ``T_idxs`` on."""
        rows = (T_idxs + np.arange(n_steps)[:, None]) % len(self.marks)
        found: BoolArray = self.marks[rows, B_idxs].any(axis=0)
        return found

    def draw(
        self, rng: np.random.Generator, n: int, n_entries: int, place: Place, n_steps: int = 1
    ) -> tuple[IntArray, IntArray]:
        """Draw ``n`` of ``n_entries`` with equal probability, but none with a mark.

        Args:
            rng: source of the choices; without any mark, one for each.
            n: number of draws.
            n_entries: number of entries, marked ones included.
            place: returns rows and environments of the numbers of entries.
            n_steps: number of rows of an entry.

        Raises:
            ValueError: if all entries are marked.
        """
        T_idxs, B_idxs = place(rng.integers(n_entries, size=n))
        if not self.is_any:
            return T_idxs, B_idxs
        hits = self.hits(T_idxs, B_idxs, n_steps)
        for _ in range(8):
            if not hits.any():
                return T_idxs, B_idxs
            T_idxs[hits], B_idxs[hits] = place(rng.integers(n_entries, size=int(hits.sum())))
            hits = self.hits(T_idxs, B_idxs, n_steps)
        # Few are left: look for them, so that it ends.
        left = np.flatnonzero(~self.hits(*place(np.arange(n_entries)), n_steps))
        if len(left) == 0:
            raise ValueError(
                f"cannot sample: all {n_entries} complete entries run into a truncation; append "
                "more samples first"
            )
        T_idxs[hits], B_idxs[hits] = place(rng.choice(left, int(hits.sum())))
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

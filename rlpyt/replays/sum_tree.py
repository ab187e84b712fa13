"""Priorities of the rows and environments of a replay buffer, and draws in proportion to them."""

from __future__ import annotations

from multiprocessing.sharedctypes import RawValue
from typing import Any

import numpy as np

from rlpyt.replays import _memory
from rlpyt.replays._tree import LeafTree
from rlpyt.replays._window import SharedCursor, Window, runs
from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.types import IntArray, NDArray, Nested


def check_finite(priorities: NDArray) -> None:
    """Raise ``ValueError`` unless all priorities are finite and not negative."""
    if not ((priorities >= 0) & (priorities < np.inf)).all():
        raise ValueError(
            f"priorities must be finite and not negative, got {priorities}: check the loss they "
            "come from"
        )


class SumTree:
    """A priority for every row and environment [T,B]; rows that may not be sampled have zero.

    The tree follows the cursor of the buffer: :meth:`advance` switches on the rows that became
    complete, and switches off those around the cursor.

    Args:
        T: number of rows.
        B: number of environments.
        off_backward: number of rows behind the cursor that are not complete yet.
        off_forward: number of rows from the cursor on whose preceding rows are overwritten.
        default_value: priority of a row that is switched on, if none was given with it.
        enable_input_priorities: whether :meth:`advance` takes ``priorities``.
        input_priority_shift: number of rows by which these priorities precede the appended rows, at
            most ``off_backward``.

    Raises:
        ValueError: if no row could ever be on, ``default_value`` is not positive, or
            priorities would come after their row is switched on.

    Attributes:
        tree: float64 nodes; the root ``tree[0]`` is the sum of all priorities.
        priorities: read-only view [T,B] of the leaves.

    Source: Schaul et al. 2016, arXiv:1511.05952, appendix B.2.1.
    """

    async_ = False
    prev_tree_idxs: IntArray | None

    def __init__(
        self,
        T: int,
        B: int,
        off_backward: int,
        off_forward: int,
        default_value: float = 1,
        enable_input_priorities: bool = False,
        input_priority_shift: int = 0,
    ) -> None:
        if not 0 < default_value < np.inf:
            raise ValueError(f"default_value is {default_value}: it must be positive and finite")
        if not 0 <= input_priority_shift <= off_backward:
            raise ValueError(
                f"input_priority_shift is {input_priority_shift}: priorities can belong to earlier "
                f"entries only (0 or more), and come too late for those that can be drawn (at "
                f"most {off_backward}); for sequences give the burn-in steps divided by "
                "rnn_state_interval"
            )
        self.T = T
        self.B = B
        self.size = T * B
        self.default_value = default_value
        self.input_priority_shift = input_priority_shift
        self.window = Window(T, B, off_backward, off_forward)
        self.rng = make_generator()
        # Priorities that came with samples, until their rows are switched on.
        self._inputs: NDArray | None = None
        if enable_input_priorities:
            self._inputs = self.allocate(np.float64(0), (T, B))
        self._allocate_tree()
        self.reset()

    def allocate(self, example: Nested, leading_dims: tuple[int, ...]) -> Any:
        """Make zeroed arrays [*leading_dims, ...] for ``example``; shared ones if ``async_``."""
        return _memory.allocate(example, leading_dims, share_memory=self.async_)

    def _allocate_tree(self) -> None:
        self._leaf_tree = LeafTree(self.size, self.allocate)
        self.tree = self._leaf_tree.nodes
        self.low_idx = self._leaf_tree.low
        self.priorities = self._leaf_tree.leaves.reshape(self.T, self.B)

    @property
    def t(self) -> int:
        """Index of the row that is written next."""
        return self.window.t

    @property
    def off_backward(self) -> int:
        """Number of rows behind the cursor that are not complete yet."""
        return self.window.off_backward

    @property
    def off_forward(self) -> int:
        """Number of rows from the cursor on whose preceding rows are overwritten."""
        return self.window.off_forward

    def reset(self) -> None:
        """Switch everything off and go back to row 0."""
        self.tree[:] = 0
        self.window.t, self.window.full = 0, False
        self.prev_tree_idxs = None
        self._n_rows = 0  # Appended since the reset.
        self._n_rows_sampled: int | None = None  # Appended when the last sample was drawn.
        if self._inputs is not None:
            self._inputs[:] = self.default_value

    def advance(self, T: int, priorities: Any = None) -> None:
        """Follow the cursor past ``T`` appended rows.

        Args:
            T: number of rows, at most the tree's; 0 does nothing.
            priorities: priorities [T,B], [B] or a scalar, of the rows ``input_priority_shift``
                before these. A priority takes effect when its row is switched on.

        Raises:
            ValueError: if T is too large, or priorities are negative, not finite, of another shape,
                or not enabled.
        """
        self.window.check_fits(T)
        if priorities is not None:
            priorities = self._checked_inputs(priorities, T)
        if T == 0:
            return
        if self._inputs is not None:
            self._store_inputs(self._inputs, priorities, T)
        self.window.advance(T)
        self._n_rows += T
        first_on, n_on = self.window.newest_valid(T)
        stop_on = first_on + n_on
        n_off = self.window.off_backward + self.window.off_forward
        self.reconstruct_advance(first_on, stop_on, stop_on, stop_on + n_off)

    def switch_off(self, rows: IntArray, B_idxs: IntArray) -> None:
        """Give rows [n] of environments [n] the priority 0, until they are overwritten."""
        leaves = rows * self.B + B_idxs
        self._leaf_tree.replace(leaves, np.zeros(len(leaves)))

    def _checked_inputs(self, priorities: Any, n_rows: int) -> NDArray:
        if self._inputs is None:
            raise ValueError(
                "priorities came with the samples, but the tree was made without: pass "
                "input_priorities=True to the buffer (enable_input_priorities=True to the tree)"
            )
        values = np.asarray(priorities)
        if values.shape not in ((), (self.B,), (n_rows, self.B)):
            raise ValueError(
                f"priorities have shape {values.shape}: give a scalar, [B]={(self.B,)} or "
                f"[T,B]={(n_rows, self.B)}"
            )
        check_finite(values)
        return values

    def _store_inputs(self, inputs: NDArray, priorities: NDArray | None, n_rows: int) -> None:
        """Keep ``priorities`` (None: the default) of rows that are appended, before t moves."""
        t = self.window.t
        values = np.full((n_rows, self.B), float(self.default_value))
        # Rows that are switched on before their priority comes must not have an old row's.
        inputs[np.arange(t, t + n_rows) % self.T] = values
        if priorities is not None:
            values[:] = priorities
        first = t - self.input_priority_shift
        n_gone = max(0, self.window.oldest_after(n_rows) - first)
        inputs[np.arange(first + n_gone, first + n_rows) % self.T] = values[n_gone:]

    def reconstruct_advance(
        self, low_on_t: int, high_on_t: int, low_off_t: int, high_off_t: int
    ) -> None:
        """Switch rows [low_on_t, high_on_t) on and the following [low_off_t, high_off_t) off.

        Rows are taken modulo T; the two ranges are adjacent (``high_on_t == low_off_t``).
        """
        values = np.zeros((high_off_t - low_on_t, self.B))
        n_on = high_on_t - low_on_t
        if self._inputs is None:
            values[:n_on] = self.default_value
        else:
            values[:n_on] = self._inputs[np.arange(low_on_t, high_on_t) % self.T]
        self.priorities[np.arange(low_on_t, high_off_t) % self.T] = values
        for start, stop in runs(low_on_t, len(values), self.T):
            self._leaf_tree.repair(start * self.B, stop * self.B)

    def sample(self, n: int, unique: bool = False) -> tuple[tuple[IntArray, IntArray], NDArray]:
        """Draw rows and environments with probability in proportion to their priority.

        Args:
            n: number of draws.
            unique: whether to draw without replacement.

        Returns:
            The pair (T_idxs [n], B_idxs [n]), and the priorities [n]. The positions are remembered
            for :meth:`update_batch_priorities`.

        Raises:
            ValueError: if nothing is switched on, or with ``unique`` fewer than ``n`` entries are.
        """
        total = float(self.tree[0])
        if not total > 0:
            if self.window.newest_valid(1)[1] > 0:
                raise ValueError(
                    "nothing to sample: the priorities of all entries are 0; give some entries a "
                    "positive one (update_batch_priorities)"
                )
            raise ValueError(
                f"nothing to sample: {self.window.n_filled} of T={self.T} rows are written, and "
                f"{self.off_backward + self.off_forward} around the cursor never count; append "
                "more samples first (min_steps_learn)"
            )
        if unique:
            leaves, priorities = self._leaf_tree.find_distinct(n, self.rng)
        else:
            leaves, priorities = self._leaf_tree.find(self.rng.random(n) * total)
        self.prev_tree_idxs = leaves + self.low_idx
        self._n_rows_sampled = self._n_rows
        T_idxs, B_idxs = np.divmod(leaves, self.B)
        return (T_idxs, B_idxs), priorities

    def find(self, random_values: NDArray) -> IntArray:
        """Return the leaf nodes [n] at fractions ``random_values`` [n], in [0, 1), of the sum."""
        leaves, _ = self._leaf_tree.find(self.tree[0] * np.asarray(random_values, float))
        return leaves + self.low_idx

    def update_batch_priorities(self, priorities: Any) -> None:
        """Set new priorities where :meth:`sample` drew last.

        Entries switched off since then stay off; those whose row was overwritten keep the new
        row's priority. If an entry was drawn several times, its first priority
        counts. An entry with priority zero is not drawn again.

        Args:
            priorities: priorities [n], or one for all.

        Raises:
            ValueError: if nothing was sampled yet, the number differs, or a value is negative,
                infinite or NaN; nothing is changed then.
        """
        if self.prev_tree_idxs is None:
            raise ValueError("no batch to update the priorities of: call sample first")
        n = len(self.prev_tree_idxs)
        values = np.asarray(priorities, dtype=np.float64)
        if values.ndim == 0:
            values = np.full(n, values)
        if values.shape != (n,):
            raise ValueError(
                f"priorities have shape {values.shape}: give {(n,)}, one for each entry of the "
                "last sample"
            )
        is_there = self.ages(self.prev_tree_idxs) >= self._n_rows_since_sample
        self.reconstruct(self.prev_tree_idxs[is_there], values[is_there])

    def ages(self, tree_idxs: IntArray) -> IntArray:
        """Return how many rows [n] were appended after those of leaf nodes ``tree_idxs`` [n]."""
        ages: IntArray = (self.t - 1 - (tree_idxs - self.low_idx) // self.B) % self.T
        return ages

    @property
    def _n_rows_since_sample(self) -> int:
        return 0 if self._n_rows_sampled is None else self._n_rows - self._n_rows_sampled

    def reconstruct(self, tree_idxs: IntArray, values: NDArray) -> None:
        """Set those leaf nodes ``tree_idxs`` [n] that are switched on to ``values`` [n]."""
        self._leaf_tree.replace(tree_idxs - self.low_idx, values)

    def propagate_diffs(self, tree_idxs: IntArray, diffs: NDArray, min_level: int = 1) -> None:
        """Add ``diffs`` [n] to switched-on leaf nodes among ``tree_idxs`` [n], and the sums above.

        Sums are computed from the leaves up to the root, so ``min_level`` has no effect.
        """
        self.reconstruct(tree_idxs, self.tree[tree_idxs] + diffs)

    def print_tree(self, level: int | None = None) -> None:
        """Print the sums of one level (0 is the root), or of all."""
        levels = self._leaf_tree.levels()
        for nodes in levels if level is None else [levels[level]]:
            print(*nodes)

    def state_dict(self) -> dict[str, Any]:
        """Return priorities (views of the live ones, not copies), cursor and generator."""
        return {
            "window": self.window.state_dict(),
            "priorities": self.priorities,
            "input_priorities": self._inputs,
            "prev_tree_idxs": self.prev_tree_idxs,
            "n_rows_since_sample": self._n_rows_since_sample,
            "rng": generator_state(self.rng),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``.

        Raises:
            ValueError: if it belongs to a tree of another shape.
        """
        self.check_state(state)
        self.window.load_state_dict(state["window"])
        if self._inputs is not None:
            self._inputs[:] = state["input_priorities"]
        self._leaf_tree.load_leaves(state["priorities"])
        self.prev_tree_idxs = state["prev_tree_idxs"]
        self._n_rows_sampled = self._n_rows - int(state["n_rows_since_sample"])
        set_generator_state(self.rng, state["rng"])

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise ``ValueError`` if ``state`` belongs to another tree."""
        self.window.check_state(state["window"])
        if (state["input_priorities"] is None) != (self._inputs is None):
            raise ValueError(
                f"enable_input_priorities is {self._inputs is not None} here, unlike in the state: "
                "construct the tree with the same"
            )


class AsyncSumTree(SumTree):
    """A :class:`SumTree` that processes share; each remembers its own draws.

    The tree has no lock. The caller must keep writers away during :meth:`sample`, and everyone else
    during changes of priorities, as a replay buffer does with its own lock.

    Attributes:
        async_t: row that is written next, for all processes.
    """

    async_ = True

    def _allocate_tree(self) -> None:
        super()._allocate_tree()
        self._cursor = SharedCursor()
        self.async_t = self._cursor.t
        self._async_n_rows = RawValue("l", 0)

    def reset(self) -> None:
        super().reset()
        self._async_push()

    def advance(self, T: int, priorities: Any = None) -> None:
        self._async_pull()
        super().advance(T, priorities)
        self._async_push()

    def sample(self, n: int, unique: bool = False) -> tuple[tuple[IntArray, IntArray], NDArray]:
        self._async_pull()
        return super().sample(n, unique)

    def update_batch_priorities(self, priorities: Any) -> None:
        self._async_pull()
        super().update_batch_priorities(priorities)

    def state_dict(self) -> dict[str, Any]:
        self._async_pull()
        return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # For other processes these are new rows, of which they have drawn none.
        self._n_rows = self._async_n_rows.value + self.T
        super().load_state_dict(state)
        self._async_push()

    def _async_pull(self) -> None:
        self.window.t, self.window.full = self._cursor.t.value, self._cursor.full.value
        self._n_rows = self._async_n_rows.value

    def _async_push(self) -> None:
        self._cursor.t.value, self._cursor.full.value = self.window.t, self.window.full
        self._async_n_rows.value = self._n_rows

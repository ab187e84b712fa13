"""Binary tree of sums over leaves."""

from __future__ import annotations

import math

import numpy as np

from rlpyt.replays import _memory
from rlpyt.utils.jit import jit
from rlpyt.utils.types import IntArray, NDArray

# Compiled code takes plain arrays (np.asarray), which those in shared memory need not be.
# Nodes are numbered as in a heap: the root is 0, and the children of k are 2k + 1 and 2k + 2. A sum
# is always computed from its two children, never corrected by a difference: it cannot drift.


@jit
def _sum_above_range(nodes: NDArray, first: int, last: int) -> None:
    """Recompute all sums above the adjacent leaf nodes ``first`` to ``last``."""
    while first > 0:
        first = (first - 1) >> 1
        last = (last - 1) >> 1
        for k in range(first, last + 1):
            nodes[k] = nodes[2 * k + 1] + nodes[2 * k + 2]


@jit
def _replace(nodes: NDArray, low: int, leaves: IntArray, values: NDArray) -> bool:
    """Write ``values`` into leaves that are not zero, and recompute the sums above, level by level.

    Of equal leaves the first one counts. Returns False, with nothing written, if a value is no
    weight.
    """
    n = len(leaves)
    path = np.empty(n, np.int64)
    is_on = np.empty(n, np.bool_)
    for i in range(n):
        if not 0.0 <= values[i] < np.inf:
            return False
        path[i] = low + leaves[i]
        is_on[i] = nodes[path[i]] > 0.0
    for i in range(n - 1, -1, -1):
        if is_on[i]:
            nodes[path[i]] = values[i]
    while low > 0:
        low = (low - 1) >> 1
        for i in range(n):
            k = (path[i] - 1) >> 1
            path[i] = k
            nodes[k] = nodes[2 * k + 1] + nodes[2 * k + 2]
    return True


@jit
def _find(nodes: NDArray, low: int, targets: NDArray, leaves: IntArray, values: NDArray) -> None:
    """Find, for each of ``targets``, the leaf whose share of the total contains it.

    A right child without weight is never entered, so rounding cannot lead to a leaf of zero. All
    targets descend one level at a time, so their memory accesses overlap. ``targets`` is
    overwritten.
    """
    n = len(targets)
    leaves[:] = 0
    first = 0
    while first < low:
        first = 2 * first + 1
        for i in range(n):
            left = 2 * leaves[i] + 1
            weight = nodes[left]
            right = (targets[i] >= weight) & (nodes[left + 1] > 0.0)
            targets[i] -= weight * right
            leaves[i] = left + right
    for i in range(n):
        values[i] = nodes[leaves[i]]
        leaves[i] -= low


class LeafTree:
    """Weights of ``n_leaves`` leaves, their sums, and draws in proportion to them, in O(log n).

    Args:
        n_leaves: number of leaves, all zero at first.
        allocate: function that makes the array of nodes.

    Attributes:
        nodes: float64 [2^L - 1] (float32 cannot hold the sum of a million weights).
        leaves: view [n_leaves] of the weights.
        low: node of the first leaf, 2^(L-1) - 1.
    """

    def __init__(self, n_leaves: int, allocate: _memory.Allocate = _memory.allocate) -> None:
        self.n_leaves = n_leaves
        self.low = (1 << int(n_leaves).bit_length()) - 1
        self.nodes: NDArray = allocate(np.float64(0), (2 * self.low + 1,))
        self.leaves = self.nodes[self.low : self.low + n_leaves]

    def repair(self, first: int, stop: int) -> None:
        """Recompute the sums above leaves ``first`` to ``stop - 1``, after these were written."""
        _sum_above_range(np.asarray(self.nodes), self.low + first, self.low + stop - 1)

    def replace(self, leaves: IntArray, values: NDArray) -> None:
        """Give new ``values`` [n] to those ``leaves`` [n] that are not zero.

        Of equal leaves the first one counts.

        Raises:
            ValueError: if a value is negative, infinite or NaN; nothing is changed then.
        """
        if len(leaves) and not _replace(np.asarray(self.nodes), self.low, leaves, values):
            raise ValueError(
                f"priorities must be finite and not negative, got values from {values.min()} to "
                f"{values.max()}: check the loss they come from"
            )

    def find(self, targets: NDArray) -> tuple[IntArray, NDArray]:
        """Find leaves [n] and their weights [n] at ``targets`` [n] in [0, total), overwritten."""
        leaves = np.empty(len(targets), np.int64)
        values = np.empty(len(targets))
        _find(np.asarray(self.nodes), self.low, targets, leaves, values)
        return leaves, values

    def find_distinct(self, n: int, rng: np.random.Generator) -> tuple[IntArray, NDArray]:
        """Draw ``n`` leaves one by one, without replacement, in proportion to their weights.

        Raises:
            ValueError: if fewer than ``n`` leaves are not zero.
        """
        leaves = np.empty(0, np.int64)
        for _ in range(4):
            # Without replacement, repeats could not have been drawn: they are dropped.
            more, _ = self.find(rng.random(2 * n) * self.nodes[0])
            leaves = np.concatenate((leaves, more))
            _, firsts = np.unique(leaves, return_index=True)
            leaves = leaves[np.sort(firsts)]
            if len(leaves) >= n:
                leaves = leaves[:n]
                return leaves, self.leaves[leaves]
        leaves = np.concatenate((leaves, self._draw_from_rest(n - len(leaves), leaves, rng)))
        return leaves, self.leaves[leaves]

    def _draw_from_rest(self, n: int, drawn: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw ``n`` distinct leaves other than ``drawn``, in time proportional to all leaves.

        Exponential times with the weights as rates have the order of draws one by one.
        """
        weights = self.leaves.copy()
        weights[drawn] = 0.0
        rest = np.flatnonzero(weights)
        if len(rest) < n:
            raise ValueError(
                f"cannot draw {n + len(drawn)} distinct entries: only {len(rest) + len(drawn)} "
                "have a priority; append more samples first (min_steps_learn), or use unique=False"
            )
        # Logarithms, since a time divided by a tiny weight may overflow.
        log_times = np.log(rng.exponential(size=len(rest))) - np.log(weights[rest])
        drawn_next: IntArray = rest[np.argsort(log_times)[:n]]
        return drawn_next

    def levels(self) -> list[NDArray]:
        """Return views of the nodes on every level, from the root to the padded leaves."""
        return [self.nodes[(1 << d) - 1 : (2 << d) - 1] for d in range(self.low.bit_length() + 1)]

    def load_leaves(self, values: NDArray) -> None:
        """Set all leaves [n_leaves] and compute all sums."""
        assert math.prod(values.shape) == self.n_leaves
        self.leaves[:] = values.ravel()
        self.repair(0, self.n_leaves)

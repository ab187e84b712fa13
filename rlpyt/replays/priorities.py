"""Draws by priority, of transitions or of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import extended
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.sum_tree import AsyncSumTree, SumTree, check_finite
from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.types import IntArray, NDArray, Nested

EPS = 1e-6  # The least priority of an entry, and what keeps weights finite.


def leaf_values(priorities: Any, alpha: float) -> NDArray:
    """Return ``priorities`` to the power of ``alpha``, at least EPS^alpha, as float64.

    Raises:
        ValueError: if a priority is negative, infinite or NaN.
    """
    values = np.asarray(as_numpy(priorities), np.float64)
    check_finite(values)  # Here, since the power of zero makes everything 1.
    # An entry without error is still drawn, though rarely.
    powers: NDArray = np.maximum(values, EPS) ** alpha
    return powers


class PrioritizedReplay(BaseReplayBuffer):
    """Mixin that draws entries with a probability proportional to priority^alpha.

        P(i) = p_i^alpha / sum_k p_k^alpha
        w_i  = (1 / (p_i^alpha + EPS))^beta / max_j w_j, over the batch

    A priority below EPS counts as EPS. An entry is a transition or, in sequence storage, a sequence
    of ``batch_T`` steps (burn-in included) from any row where one can begin (see
    ``rnn_state_interval``). ``batch_T`` cannot change.

    Args:
        alpha: exponent of priorities, 0 for uniform draws.
        beta: exponent of weights, 1 to undo the bias of the draws.
        default_priority: priority of a new entry.
        unique: whether a batch holds each entry at most once.
        input_priorities: whether :meth:`append_samples` takes records (priorities, samples);
            priorities are a scalar, [B] or [T',B]; rows where no entry begins do not use theirs.
        input_priority_shift: number of entries by which priorities arrive later than the entries
            they belong to; for sequences usually the burn-in steps divided by the interval.

    Raises:
        ValueError: if alpha or the default priority is out of range, or, for sequences, if
            ``batch_T`` is missing or the buffer can never hold so long a sequence.

    Source: Schaul et al. 2016, arXiv:1511.05952, eq. 1 and sections 3.3 and 3.4.
    """

    priority_tree: SumTree

    def __init__(
        self,
        alpha: float = 0.6,
        beta: float = 0.4,
        default_priority: float = 1,
        unique: bool = False,
        input_priorities: bool = False,
        input_priority_shift: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha
        self.beta = beta
        self.default_priority = default_priority
        self.unique = unique
        self.input_priorities = input_priorities
        self.input_priority_shift = input_priority_shift
        self.init_priority_tree()

    def init_priority_tree(self) -> None:
        """Make the tree of priorities, one for every entry."""
        off_backward, off_forward = self.entry_margins()
        alpha, priority = self.alpha, self.default_priority
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is {alpha}: choose from 0 (uniform draws) to 1")
        if priority is None or not 0 < priority < np.inf:
            raise ValueError(f"default_priority is {priority}: give a positive number")
        TreeCls = AsyncSumTree if self.async_ else SumTree
        self.priority_tree = TreeCls(
            T=self.T // self.stride,
            B=self.B,
            off_backward=off_backward,
            off_forward=off_forward,
            default_value=float(leaf_values(priority, alpha)),
            enable_input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights."""
        self.beta = beta

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples``, or a record (priorities, samples) with initial priorities."""
        # Taken before rows are written, since no row may be without its priority.
        samples, leaves = self.take_priorities(samples)
        first, stride = self.first_entry(), self.stride
        n_rows, rows = super().append_samples(samples)
        if leaves is not None and leaves.ndim == 2:
            leaves = leaves[first::stride]
        self.advance_tree(len(range(first, n_rows, stride)), leaves)
        return n_rows, rows

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` entries, with ``is_weights`` [batch_B] float32.

        Raises:
            ValueError: if no entry is complete yet, with ``unique`` too few are, or ``batch_T``
                differs from the constructor's.
        """
        if batch_T not in (None, self.batch_T):
            raise ValueError(
                f"batch_T is {batch_T}, but priorities are for batch_T={self.batch_T} steps: give "
                "this length to the constructor of a buffer of sequences, or draw uniformly"
            )
        (entry_rows, B_idxs), leaves = self.priority_tree.sample(batch_B, unique=self.unique)
        T_idxs, B_idxs, is_weights = self.store.local(
            entry_rows * self.stride, B_idxs, self.weights_of(leaves)
        )
        n_steps = () if self.batch_T is None else (self.batch_T,)
        batch = self.read_batch(T_idxs, B_idxs, *n_steps)
        return self.weight_batch_samples(batch, torch.as_tensor(is_weights))

    def take_priorities(self, samples: Any) -> tuple[Any, NDArray | None]:
        """Split a record (priorities, samples); any other record has no priorities.

        Returns:
            The samples, and leaf values: [B], [T',B], a scalar for all, or None.

        Raises:
            ValueError: if priorities are not enabled, of another shape, negative or not finite.
        """
        if not {"priorities", "samples"} <= set(samples._fields):
            return samples, None
        leaves, samples = leaf_values(samples.priorities, self.alpha), samples.samples
        B, shape = self.B, (len(samples.reward), self.B)
        if not self.input_priorities:
            raise ValueError(
                "priorities came with the samples, but the buffer was made without: pass "
                "input_priorities=True to it"
            )
        if leaves.shape not in ((), (B,), shape):
            raise ValueError(
                f"priorities have shape {leaves.shape}: give a scalar, [B]={(B,)} or [T',B]={shape}"
            )
        return samples, leaves

    def advance_tree(self, n_rows: int, leaves: NDArray | None) -> None:
        """Let the tree follow the cursor, and switch off entries that run into a truncation.

        Args:
            n_rows: number of rows by which the tree advances.
            leaves: values that came with the samples, or None.
        """
        tree = self.priority_tree
        tree.advance(n_rows, priorities=leaves)
        if self.truncated.is_any:
            first, n_on = tree.window.newest_valid(n_rows)
            rows, B_idxs = np.divmod(np.arange(first * tree.B, (first + n_on) * tree.B), tree.B)
            hits = self.truncated.hits(rows * self.stride, B_idxs, self.batch_T or 1)
            tree.switch_off(rows[hits] % tree.T, B_idxs[hits])

    def weights_of(self, leaves: NDArray) -> NDArray:
        """Return the weights [n] of entries that were drawn with leaf values ``leaves`` [n]."""
        weights = (1.0 / (leaves + EPS)) ** self.beta
        weights /= weights.max()
        return weights.astype(np.float32)

    def weight_batch_samples(self, batch: Any, is_weights: torch.Tensor) -> Any:
        """Return the record of ``batch`` with ``is_weights`` [batch_B] as its last field."""
        return extended(type(batch), ("is_weights",), "Pri")(*batch, is_weights)

    def update_batch_priorities(self, priorities: Any) -> None:
        """Set the priorities [batch_B], before the power of alpha, of the batch drawn last."""
        self.priority_tree.update_batch_priorities(leaf_values(priorities, self.alpha))

    def use_generator(self, rng: np.random.Generator) -> None:
        super().use_generator(rng)
        self.priority_tree.rng = rng

    def state_dict(self) -> dict[str, Any]:
        state = {**super().state_dict(), "beta": self.beta}
        if self.batch_T is not None:
            state["batch_T"] = self.batch_T
        return {**state, "priority_tree": self.priority_tree.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "priority_tree" not in state:
            raise ValueError(
                "the state has no priorities: load it into a buffer without priorities"
            )
        tree, beta, batch_T = (state.pop(k, None) for k in ("priority_tree", "beta", "batch_T"))
        if batch_T != self.batch_T:
            raise ValueError(
                f"the state has priorities of sequences of batch_T={batch_T} steps (None: of "
                f"transitions), this buffer has batch_T={self.batch_T}: construct it with the same"
            )
        self.priority_tree.check_state(tree)
        super().load_state_dict(state)
        self.priority_tree.load_state_dict(tree)
        self.beta = beta

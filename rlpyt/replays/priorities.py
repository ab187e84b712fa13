"""Draws by priority: the formulas, and what draws of transitions and of sequences share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import extended
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.types import NDArray

EPS = 1e-6  # The least priority of an entry, and what keeps weights finite.


def leaf_values(priorities: Any, alpha: float) -> NDArray:
    """Return ``priorities`` to the power of ``alpha``, at least EPS^alpha, as float64.

    Raises:
        ValueError: if a priority is negative, infinite or NaN.
    """
    values = np.asarray(as_numpy(priorities), np.float64)
    # Here, since the power of zero makes everything 1.
    if not ((values >= 0) & (values < np.inf)).all():
        raise ValueError(f"priorities must be finite and not negative, got {values}")
    # Without error an entry is drawn rarely, but not never.
    powers: NDArray = np.maximum(values, EPS) ** alpha
    return powers


class PriorityDraws(BaseReplayBuffer):
    """Draws of entries with a probability in proportion to priority^alpha.

        P(i) = p_i^alpha / sum_k p_k^alpha
        w_i  = (1 / (p_i^alpha + EPS))^beta / max_j w_j, over the batch

    A priority below EPS counts as EPS.

    Args:
        alpha: exponent of priorities, 0 for uniform draws.
        beta: exponent of weights, 1 to undo the bias of the draws.
        default_priority: priority of a new entry.
        unique: draw no entry twice in a batch.
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`.
        input_priority_shift: rows of the tree by which these belong to earlier entries than those
            they come with.

    Raises:
        ValueError: if alpha or the default priority is out of range.

    Source: Schaul et al. 2016, arXiv:1511.05952, eq. 1 and sections 3.3 and 3.4.
    """

    tree_class: type[SumTree] = SumTree
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
        """Make the tree of priorities, one for every row and environment."""
        self.priority_tree = self.make_tree(self.T, self.off_backward, self.off_forward)

    def make_tree(self, T: int, off_backward: int, off_forward: int) -> SumTree:
        """Return a tree of new entries.

        Args:
            T: number of rows.
            off_backward: rows behind the cursor that are not drawn.
            off_forward: rows from the cursor on that are not drawn.
        """
        alpha, priority = self.alpha, self.default_priority
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is {alpha}: choose from 0 (uniform draws) to 1")
        if priority is None or not 0 < priority < np.inf:
            raise ValueError(f"default_priority is {priority}: give a positive number")
        return self.tree_class(
            T=T,
            B=self.B,
            off_backward=off_backward,
            off_forward=off_forward,
            default_value=float(priority**alpha),
            enable_input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights."""
        self.beta = beta

    def take_priorities(self, samples: Any) -> tuple[Any, NDArray | None]:
        """Take a record (priorities, samples) apart; of any other one, there are no priorities.

        Returns:
            The samples, and a leaf value for every environment [B], step [T',B] or all, or None.

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

    def advance_tree(
        self, n_rows: int, leaves: NDArray | None, n_steps: int = 1, stride: int = 1
    ) -> None:
        """Let the tree follow the cursor, and keep what runs into a truncation from being drawn.

        Args:
            n_rows: number of rows by which the tree advances.
            leaves: values that came with the samples, or None.
            n_steps: number of steps of an entry.
            stride: rows of the buffer for each row of the tree.
        """
        tree = self.priority_tree
        tree.advance(n_rows, priorities=leaves)
        if self.truncated.is_any:
            first, n_on = tree.window.newest_valid(n_rows)
            rows, B_idxs = np.divmod(np.arange(first * tree.B, (first + n_on) * tree.B), tree.B)
            hits = self.truncated.hits(rows * stride, B_idxs, n_steps)
            tree.switch_off(rows[hits] % tree.T, B_idxs[hits])

    def weighted(self, batch: Any, leaves: NDArray) -> Any:
        """Return ``batch`` with the weights of entries drawn with leaf values ``leaves`` [n]."""
        weights = (1.0 / (leaves + EPS)) ** self.beta
        weights /= weights.max()
        return self.weight_batch_samples(batch, torch.from_numpy(weights.astype(np.float32)))

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
        tree = self.priority_tree.state_dict()
        return {**super().state_dict(), "priority_tree": tree, "beta": self.beta}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "priority_tree" not in state:
            raise ValueError("the state is of a buffer without priorities: load it into such a one")
        state = dict(state)
        tree, beta = state.pop("priority_tree"), state.pop("beta")
        self.priority_tree.check_state(tree)
        super().load_state_dict(state)
        self.priority_tree.load_state_dict(tree)
        self.beta = beta

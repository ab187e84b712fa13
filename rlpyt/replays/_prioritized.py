"""What all buffers share which draw by priority, whatever it is that has a priority."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import extended
from rlpyt.replays._ring import as_numpy
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.types import IntArray, NDArray, Nested

EPS = 1e-6  # The least priority of an entry, and what keeps weights finite.


class Prioritized(BaseReplayBuffer):
    """Entries are drawn with a probability in proportion to priority^alpha.

        P(i) = p_i^alpha / sum_k p_k^alpha
        w_i  = (1 / (p_i^alpha + EPS))^beta / max_j w_j, over the batch

    A priority below EPS counts as EPS.

    Args:
        alpha: 0 for uniform draws.
        beta: 1 for weights which undo the bias of the draws.
        default_priority: of a new entry.
        unique: a batch has no entry twice.
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`.
        input_priority_shift: entries by which these belong to earlier ones than their samples.

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
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is {alpha}: choose from 0 (uniform draws) to 1")
        if default_priority is None or not 0 < default_priority < np.inf:
            raise ValueError(f"default_priority is {default_priority}: give a positive number")
        self.alpha = alpha
        self.beta = beta
        self.default_priority = default_priority
        self.unique = unique
        self.input_priorities = input_priorities
        self.input_priority_shift = input_priority_shift
        self.init_priority_tree()

    def init_priority_tree(self) -> None:
        """Make the tree of priorities; called at the end of construction."""
        raise NotImplementedError

    def make_tree(self, T: int, off_backward: int, off_forward: int) -> SumTree:
        """A tree over entries [T,B], of which those around the cursor are never drawn."""
        return self.tree_class(
            T=T,
            B=self.B,
            off_backward=off_backward,
            off_forward=off_forward,
            default_value=self.default_priority**self.alpha,
            enable_input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights."""
        self.beta = beta

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples``, or those of a record (priorities, samples), with their priorities."""
        priorities = None
        if {"priorities", "samples"} <= set(samples._fields):
            priorities = self._to_alpha(samples.priorities)
            samples = samples.samples
            # Before rows are written, which must not be without their priorities.
            self._check_priorities(priorities, len(samples.reward))
        t = self.t
        n_rows, rows = super().append_samples(samples)
        self.advance_tree(t, n_rows, priorities)
        return n_rows, rows

    def _check_priorities(self, priorities: NDArray, n_rows: int) -> None:
        if not self.input_priorities:
            raise ValueError(
                "priorities came with the samples, but the buffer was made without: pass "
                "input_priorities=True to it"
            )
        if priorities.shape not in ((), (self.B,), (n_rows, self.B)):
            raise ValueError(
                f"priorities have shape {priorities.shape}: give a scalar, [B]={(self.B,)} or "
                f"[T',B]={(n_rows, self.B)}"
            )

    def advance_tree(self, t: int, n_rows: int, priorities: NDArray | None) -> None:
        """Let the tree follow ``n_rows`` rows written from row t on; ``priorities`` are leaves."""
        raise NotImplementedError

    def compute_is_weights(self, priorities: NDArray) -> torch.Tensor:
        """Weights [n] float32, 1 at most, of entries drawn with leaves ``priorities`` [n]."""
        weights = (1.0 / (priorities + EPS)) ** self.beta
        weights /= weights.max()
        return torch.from_numpy(weights.astype(np.float32))

    def weight_batch_samples(self, batch: Any, is_weights: torch.Tensor) -> Any:
        """The record of ``batch`` with ``is_weights`` [batch_B] as its last field."""
        return extended(type(batch), ("is_weights",), "Pri")(*batch, is_weights)

    def update_batch_priorities(self, priorities: Any) -> None:
        """Set the priorities [batch_B], before the power of alpha, of the batch drawn last."""
        self.priority_tree.update_batch_priorities(self._to_alpha(priorities))

    def use_generator(self, rng: np.random.Generator) -> None:
        super().use_generator(rng)
        self.priority_tree.rng = rng

    def _to_alpha(self, priorities: Any) -> NDArray:
        values = np.asarray(as_numpy(priorities), np.float64)
        # Here, since the power of zero makes everything 1.
        if not ((values >= 0) & (values < np.inf)).all():
            raise ValueError(f"priorities must be finite and not negative, got {values}")
        # Without error an entry is drawn rarely, but not never.
        powers: NDArray = np.maximum(values, EPS) ** self.alpha
        return powers

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

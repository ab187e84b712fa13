"""Sequences, drawn by priority."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import extended
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.prioritized import (
    EPS as EPS,
    default_leaf,
    importance_weights,
    leaf_values,
    switch_off_truncated,
    take_priorities,
)
from rlpyt.replays.sequence.n_step import SamplesFromReplay, SequenceNStepReturnBuffer
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.types import IntArray, Nested

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")


class PrioritizedSequenceReplay(SequenceNStepReturnBuffer):
    """Draws of sequences with a probability in proportion to priority^alpha.

    Every row at which a sequence can begin (see ``rnn_state_interval``) has a priority: that of the
    sequence of ``batch_T`` steps, burn-in included, from there on. ``batch_T`` cannot change.
    Probabilities and weights are those of
    :class:`~rlpyt.replays.non_sequence.prioritized.PrioritizedReplay`.

    Args:
        alpha: exponent of priorities, 0 for uniform draws.
        beta: exponent of weights, 1 to undo the bias of the draws.
        default_priority: priority of a new sequence.
        unique: draw no sequence twice in a batch.
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`; priorities
            are a scalar, [B] or [T',B], of which those of rows where no sequence begins are unused.
        input_priority_shift: stored states by which these belong to earlier rows than those they
            come with, usually the burn-in steps divided by the interval.

    Raises:
        ValueError: if ``batch_T`` is missing, the buffer can never hold such a sequence, or
            priorities would come after sequences can be drawn.
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
        """Make the tree of priorities, one for every stored state; it has T / interval rows."""
        off_backward, off_forward = self._margins(self.n_steps_of(self.batch_T))
        self.priority_tree = self.tree_class(
            T=self.T // self.stride,
            B=self.B,
            off_backward=off_backward,
            off_forward=off_forward,
            default_value=default_leaf(self.default_priority, self.alpha),
            enable_input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )

    def rows_needed(self, batch_T: int) -> int:
        return (sum(self._margins(batch_T)) + 1) * self.stride

    def _margins(self, batch_T: int) -> tuple[int, int]:
        """Stored states behind the cursor, and from it on, that are not drawn."""
        off_backward = math.ceil((1 + self.n_step_return + batch_T) / self.stride)
        return off_backward, math.ceil(self.off_forward / self.stride)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights."""
        self.beta = beta

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples``, or those of a record (priorities, samples), with their priorities."""
        # Taken before rows are written, which must not be without their priorities.
        samples, leaves = take_priorities(samples, self.alpha, self.B, self.input_priorities)
        first = -self.window.t % self.stride  # Rows to the first at which a sequence may begin.
        n_rows, rows = super().append_samples(samples)
        if leaves is not None and leaves.ndim == 2:
            leaves = leaves[first :: self.stride]
        n_starts = max(0, math.ceil((n_rows - first) / self.stride))
        self.priority_tree.advance(n_starts, priorities=leaves)
        switch_off_truncated(self, n_starts, self.n_steps_of(None), self.stride)
        return n_rows, rows

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` sequences, with ``is_weights`` [batch_B] float32.

        Raises:
            ValueError: if no sequence is complete yet, with ``unique`` too few are, or ``batch_T``
                is not that of the constructor.
        """
        if batch_T not in (None, self.batch_T):
            raise ValueError(
                f"batch_T is {batch_T}, but priorities are of sequences of batch_T={self.batch_T} "
                "steps: give this length to the constructor, or draw uniformly"
            )
        (slots, B_idxs), leaves = self.priority_tree.sample(batch_B, unique=self.unique)
        batch = self.read_batch(slots * self.stride, B_idxs, self.n_steps_of(None))
        return self.weight_batch_samples(batch, importance_weights(leaves, self.beta))

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
        own = {
            "priority_tree": self.priority_tree.state_dict(),
            "beta": self.beta,
            "batch_T": self.batch_T,
        }
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        batch_T = state.pop("batch_T", None)
        if batch_T != self.batch_T:
            raise ValueError(
                f"the state is of a buffer with priorities of sequences of batch_T={batch_T} steps "
                f"(None: without), this buffer has batch_T={self.batch_T}: construct it alike"
            )
        tree, beta = state.pop("priority_tree"), state.pop("beta")
        self.priority_tree.check_state(tree)
        super().load_state_dict(state)
        self.priority_tree.load_state_dict(tree)
        self.beta = beta


class PrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceNStepReturnBuffer):
    """Sequences, drawn by priority from storage of whole observations."""


class AsyncPrioritizedSequenceReplayBuffer(AsyncReplayBufferMixin, PrioritizedSequenceReplayBuffer):
    """A :class:`PrioritizedSequenceReplayBuffer` that processes share."""

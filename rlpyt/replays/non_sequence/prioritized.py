"""Single transitions, drawn by priority, and the formulas of all draws by priority."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import extended
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.types import IntArray, NDArray, Nested

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")

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


def take_priorities(
    samples: Any, alpha: float, B: int, is_enabled: bool
) -> tuple[Any, NDArray | None]:
    """Take a record (priorities, samples) apart; of any other one, there are no priorities.

    Returns:
        The samples, and a leaf value for every environment [B], step [T',B] or all, or None.

    Raises:
        ValueError: if priorities are not enabled, of another shape, negative or not finite.
    """
    if not {"priorities", "samples"} <= set(samples._fields):
        return samples, None
    leaves, samples = leaf_values(samples.priorities, alpha), samples.samples
    shape = (len(samples.reward), B)
    if not is_enabled:
        raise ValueError(
            "priorities came with the samples, but the buffer was made without: pass "
            "input_priorities=True to it"
        )
    if leaves.shape not in ((), (B,), shape):
        raise ValueError(
            f"priorities have shape {leaves.shape}: give a scalar, [B]={(B,)} or [T',B]={shape}"
        )
    return samples, leaves


def importance_weights(leaves: NDArray, beta: float) -> torch.Tensor:
    """Return weights [n] float32, 1 at most, of entries drawn with leaf values ``leaves`` [n]."""
    weights = (1.0 / (leaves + EPS)) ** beta
    weights /= weights.max()
    return torch.from_numpy(weights.astype(np.float32))


def default_leaf(default_priority: float, alpha: float) -> float:
    """Return the leaf value of a new entry.

    Raises:
        ValueError: if alpha or the priority is out of range.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}: choose from 0 (uniform draws) to 1")
    if default_priority is None or not 0 < default_priority < np.inf:
        raise ValueError(f"default_priority is {default_priority}: give a positive number")
    return float(default_priority**alpha)


def switch_off_truncated(buffer: Any, n_rows: int, n_steps: int = 1, stride: int = 1) -> None:
    """Keep what runs into a truncation from being drawn, as it becomes complete.

    Args:
        buffer: buffer with a ``priority_tree``.
        n_rows: number of rows by which the tree advanced.
        n_steps: number of steps of an entry.
        stride: rows of the buffer for each row of the tree.
    """
    if hasattr(buffer, "truncated") and buffer.truncated.is_any:
        tree = buffer.priority_tree
        first, n_on = tree.window.newest_valid(n_rows)
        rows, B_idxs = np.divmod(np.arange(first * tree.B, (first + n_on) * tree.B), tree.B)
        hits = buffer.truncated.hits(rows * stride, B_idxs, n_steps)
        tree.switch_off(rows[hits] % tree.T, B_idxs[hits])


class PrioritizedReplay(BaseReplayBuffer):
    """Draws of transitions with a probability in proportion to priority^alpha.

        P(i) = p_i^alpha / sum_k p_k^alpha
        w_i  = (1 / (p_i^alpha + EPS))^beta / max_j w_j, over the batch

    A priority below EPS counts as EPS.

    Args:
        alpha: exponent of priorities, 0 for uniform draws.
        beta: exponent of weights, 1 to undo the bias of the draws.
        default_priority: priority of a new transition.
        unique: draw no transition twice in a batch.
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`.
        input_priority_shift: rows by which these belong to earlier rows than their samples.

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
        self.priority_tree = self.tree_class(
            T=self.T,
            B=self.B,
            off_backward=self.off_backward,
            off_forward=self.off_forward,
            default_value=default_leaf(self.default_priority, self.alpha),
            enable_input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights."""
        self.beta = beta

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples``, or those of a record (priorities, samples), with their priorities."""
        # Taken before rows are written, which must not be without their priorities.
        samples, leaves = take_priorities(samples, self.alpha, self.B, self.input_priorities)
        n_rows, rows = super().append_samples(samples)
        self.priority_tree.advance(n_rows, priorities=leaves)
        switch_off_truncated(self, n_rows)
        return n_rows, rows

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` transitions, with ``is_weights`` [batch_B] float32.

        Raises:
            ValueError: if no row is complete yet, or with ``unique`` too few are.
        """
        (T_idxs, B_idxs), leaves = self.priority_tree.sample(batch_B, unique=self.unique)
        batch = self.read_batch(T_idxs, B_idxs)
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


class PrioritizedReplayBuffer(PrioritizedReplay, NStepReturnBuffer):
    """Single transitions, drawn by priority from storage of whole observations."""


class AsyncPrioritizedReplayBuffer(AsyncReplayBufferMixin, PrioritizedReplayBuffer):
    """A :class:`PrioritizedReplayBuffer` that processes share."""

"""Single transitions, drawn by priority."""

from __future__ import annotations

from typing import Any

from rlpyt.core.records import extended
from rlpyt.replays._prioritized import EPS as EPS, Prioritized
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.utils.types import NDArray

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")


class PrioritizedReplay(Prioritized):
    """A transition is drawn with a probability in proportion to priority^alpha.

    Args:
        alpha: 0 for uniform draws.
        beta: 1 for weights which undo the bias of the draws.
        default_priority: of a new transition.
        unique: a batch has no transition twice.
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`.
        input_priority_shift: rows by which these belong to earlier rows than their samples.
    """

    def init_priority_tree(self) -> None:
        """Make the tree of priorities, one for every row and environment."""
        self.priority_tree = self.make_tree(self.T, self.off_backward, self.off_forward)

    def advance_tree(self, t: int, n_rows: int, priorities: NDArray | None) -> None:
        self.priority_tree.advance(n_rows, priorities=priorities)

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` transitions, with ``is_weights`` [batch_B] float32.

        Raises:
            ValueError: if no row is complete yet, or with ``unique`` too few are.
        """
        (T_idxs, B_idxs), priorities = self.priority_tree.sample(batch_B, unique=self.unique)
        batch = self.extract_batch(T_idxs, B_idxs)
        return self.weight_batch_samples(batch, self.compute_is_weights(priorities))


class PrioritizedReplayBuffer(PrioritizedReplay, NStepReturnBuffer):
    """Single transitions, drawn by priority from storage of whole observations."""


class AsyncPrioritizedReplayBuffer(AsyncReplayBufferMixin, PrioritizedReplayBuffer):
    """A :class:`PrioritizedReplayBuffer` which processes share."""

"""Single transitions, drawn by priority."""

from __future__ import annotations

from typing import Any

from rlpyt.core.records import extended
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.priorities import EPS as EPS, PriorityDraws
from rlpyt.utils.types import IntArray, Nested

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")


class PrioritizedReplay(PriorityDraws):
    """Draws of transitions with a probability in proportion to priority^alpha.

    Arguments and formulas are those of :class:`~rlpyt.replays.priorities.PriorityDraws`; a row of
    the tree is one of the buffer.
    """

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples``, or those of a record (priorities, samples), with their priorities."""
        # Taken before rows are written, which must not be without their priorities.
        samples, leaves = self.take_priorities(samples)
        n_rows, rows = super().append_samples(samples)
        self.advance_tree(n_rows, leaves)
        return n_rows, rows

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` transitions, with ``is_weights`` [batch_B] float32.

        Raises:
            ValueError: if no row is complete yet, or with ``unique`` too few are.
        """
        (T_idxs, B_idxs), leaves = self.priority_tree.sample(batch_B, unique=self.unique)
        return self.weighted(self.read_batch(T_idxs, B_idxs), leaves)


class PrioritizedReplayBuffer(PrioritizedReplay, NStepReturnBuffer):
    """Single transitions, drawn by priority from storage of whole observations."""


class AsyncPrioritizedReplayBuffer(AsyncReplayBufferMixin, PrioritizedReplayBuffer):
    """A :class:`PrioritizedReplayBuffer` that processes share."""

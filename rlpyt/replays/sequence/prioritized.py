"""Sequences, drawn by priority."""

from __future__ import annotations

import math
from typing import Any

from rlpyt.core.records import extended
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.priorities import EPS as EPS, PriorityDraws
from rlpyt.replays.sequence.n_step import SamplesFromReplay, SequenceNStepReturnBuffer
from rlpyt.utils.types import IntArray, Nested

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")


class PrioritizedSequenceReplay(PriorityDraws, SequenceNStepReturnBuffer):
    """Draws of sequences with a probability in proportion to priority^alpha.

    Every row at which a sequence can begin (see ``rnn_state_interval``) has a priority: that of the
    sequence of ``batch_T`` steps, burn-in included, from there on. ``batch_T`` cannot change.
    Formulas and the other arguments are those of
    :class:`~rlpyt.replays.priorities.PriorityDraws`.

    Args:
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`; priorities
            are a scalar, [B] or [T',B], of which those of rows where no sequence begins are unused.
        input_priority_shift: stored states by which these belong to earlier rows than those they
            come with, usually the burn-in steps divided by the interval.

    Raises:
        ValueError: if ``batch_T`` is missing, the buffer can never hold such a sequence, or
            priorities would come after sequences can be drawn.
    """

    def init_priority_tree(self) -> None:
        """Make the tree of priorities, one for every stored state; it has T / interval rows."""
        margins = self._margins(self.n_steps_of(self.batch_T))
        self.priority_tree = self.make_tree(self.T // self.stride, *margins)

    def rows_needed(self, batch_T: int) -> int:
        return (sum(self._margins(batch_T)) + 1) * self.stride

    def _margins(self, batch_T: int) -> tuple[int, int]:
        """Stored states behind the cursor, and from it on, that are not drawn."""
        off_backward = math.ceil((1 + self.n_step_return + batch_T) / self.stride)
        return off_backward, math.ceil(self.off_forward / self.stride)

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples``, or those of a record (priorities, samples), with their priorities."""
        # Taken before rows are written, which must not be without their priorities.
        samples, leaves = self.take_priorities(samples)
        first = -self.window.t % self.stride  # Rows to the first at which a sequence may begin.
        n_rows, rows = super().append_samples(samples)
        if leaves is not None and leaves.ndim == 2:
            leaves = leaves[first :: self.stride]
        n_starts = max(0, math.ceil((n_rows - first) / self.stride))
        self.advance_tree(n_starts, leaves, self.n_steps_of(None), self.stride)
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
        assert self.batch_T is not None  # Checked when the tree was made.
        (slots, B_idxs), leaves = self.priority_tree.sample(batch_B, unique=self.unique)
        batch = self.read_batch(slots * self.stride, B_idxs, self.batch_T)
        return self.weighted(batch, leaves)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "batch_T": self.batch_T}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        batch_T = state.pop("batch_T", None)
        if batch_T != self.batch_T:
            raise ValueError(
                f"the state is of a buffer with priorities of sequences of batch_T={batch_T} steps "
                f"(None: without), this buffer has batch_T={self.batch_T}: construct it alike"
            )
        super().load_state_dict(state)


class PrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceNStepReturnBuffer):
    """Sequences, drawn by priority from storage of whole observations."""


class AsyncPrioritizedSequenceReplayBuffer(AsyncReplayBufferMixin, PrioritizedSequenceReplayBuffer):
    """A :class:`PrioritizedSequenceReplayBuffer` that processes share."""

"""Sequences, drawn by priority."""

from __future__ import annotations

import math
from typing import Any

from rlpyt.core.records import extended
from rlpyt.replays._prioritized import EPS as EPS, Prioritized
from rlpyt.replays._rnn_states import first_multiple
from rlpyt.replays._sequences import Sequences
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.sequence.n_step import SamplesFromReplay, SequenceNStepReturnBuffer
from rlpyt.utils.types import NDArray

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")


class PrioritizedSequenceReplay(Prioritized, Sequences):
    """A sequence is drawn with a probability in proportion to priority^alpha.

    Every row at which a sequence can begin (see ``rnn_state_interval``) has a priority: that of the
    sequence of ``batch_T`` steps, warm-up included, from there on. ``batch_T`` cannot change.

    Args:
        alpha: 0 for uniform draws.
        beta: 1 for weights which undo the bias of the draws.
        default_priority: of a new sequence.
        unique: a batch has no sequence twice.
        input_priorities: accept records (priorities, samples) in :meth:`append_samples`; priorities
            are a scalar, [B] or [T',B], of which those of rows where no sequence begins are unused.
        input_priority_shift: stored states by which these belong to earlier rows than those they
            come with, usually the steps of the warm-up, divided by the interval.

    Raises:
        ValueError: if ``batch_T`` is missing, the buffer can never hold such a sequence, or
            priorities would come after sequences can be drawn.
    """

    def init_priority_tree(self) -> None:
        """Make the tree of priorities, one for every stored state; it has T / interval rows."""
        off_backward, off_forward = self._margins(self.n_steps_of(self.batch_T))
        self.priority_tree = self.make_tree(self.T // self.stride, off_backward, off_forward)

    def rows_needed(self, batch_T: int) -> int:
        return (sum(self._margins(batch_T)) + 1) * self.stride

    def _margins(self, batch_T: int) -> tuple[int, int]:
        """Stored states behind the cursor, and from it on, which are not drawn."""
        off_backward = math.ceil((1 + self.n_step_return + batch_T) / self.stride)
        return off_backward, math.ceil(self.off_forward / self.stride)

    def advance_tree(self, t: int, n_rows: int, priorities: NDArray | None) -> None:
        first = first_multiple(t, self.stride)
        n_starts = max(0, math.ceil((n_rows - first) / self.stride))
        if priorities is not None and priorities.ndim == 2:
            priorities = priorities[first :: self.stride]
        self.priority_tree.advance(n_starts, priorities=priorities)

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
        (slots, B_idxs), priorities = self.priority_tree.sample(batch_B, unique=self.unique)
        batch = self.extract_batch(slots * self.stride, B_idxs, self.batch_T)
        return self.weight_batch_samples(batch, self.compute_is_weights(priorities))

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
    """A :class:`PrioritizedSequenceReplayBuffer` which processes share."""

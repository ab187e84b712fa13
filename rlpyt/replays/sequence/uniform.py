"""Sequences, drawn uniformly."""

from __future__ import annotations

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.utils.types import IntArray, Nested


class UniformSequenceReplay(SequenceNStepReturnBuffer):
    """Mixin that draws, uniformly, valid rows at which a sequence can begin.

    Raises:
        ValueError: if the buffer can never hold a sequence of ``batch_T`` steps.
    """

    def allocate_rows(self, example: Nested) -> None:
        super().allocate_rows(example)
        if self.batch_T is not None:
            self.set_batch_T(self.batch_T)  # Refuses more steps than there are rows.

    def set_batch_T(self, batch_T: int) -> None:
        """Set the default number of steps in a sequence.

        Raises:
            ValueError: if the buffer can never hold so long a sequence.
        """
        self.batch_T = self.n_steps_of(batch_T)

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` sequences of ``batch_T`` steps, by default the buffer's number.

        Raises:
            ValueError: if no sequence is complete yet, or none can ever be.
        """
        batch_T = self.n_steps_of(batch_T)
        T_idxs, B_idxs = self.store.local(*self.sample_idxs(batch_B, batch_T))
        return self.read_batch(T_idxs, B_idxs, batch_T)

    def sample_idxs(self, batch_B: int, batch_T: int) -> tuple[IntArray, IntArray]:
        """Draw first rows [batch_B], multiples of the interval, and environments [batch_B]."""
        first, stop = self.valid_starts(batch_T)
        if stop <= first:
            raise ValueError(
                f"cannot sample {batch_B} sequences of batch_T={batch_T} steps: "
                f"{self.window.n_filled} of T={self.T} rows are written, a sequence takes "
                f"{batch_T + self.n_step_return} and begins every {self.stride} rows, after the "
                f"oldest {self.off_forward}; append more samples first (min_steps_learn)"
            )
        stride = self.stride
        return self.truncated.draw(
            self.rng, batch_B, first * stride, stop - first, stride, n_steps=batch_T
        )


class UniformSequenceReplayBuffer(UniformSequenceReplay, SequenceNStepReturnBuffer):
    """Sequences, drawn uniformly from storage of whole observations."""


class AsyncUniformSequenceReplayBuffer(AsyncReplayBufferMixin, UniformSequenceReplayBuffer):
    """A :class:`UniformSequenceReplayBuffer` that processes share."""

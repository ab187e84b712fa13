"""Sequences of image observations, whose frames are stored once."""

from __future__ import annotations

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplay
from rlpyt.replays.sequence.uniform import UniformSequenceReplay
from rlpyt.utils.types import Nested


class SequenceNStepFrameBuffer(FrameBufferMixin, SequenceNStepReturnBuffer):
    """Storage of sequences that keeps every frame once."""

    def extract_observation(self, T_idxs: Any, B_idxs: Any, T: int) -> Nested:
        """Return stacks [T,m,C,...] of ``T`` successive rows from ``T_idxs`` [m] on.

        Raises:
            IndexError: if an index is out of range.
        """
        if self.storage_device is not None:
            rows = (T_idxs + self.arange(T)[:, None]) % self.T
            return self.stack_on_device(rows, B_idxs)
        return self.stacks(T_idxs, B_idxs, T, self.batch_memory.empty)


class UniformSequenceReplayFrameBuffer(UniformSequenceReplay, SequenceNStepFrameBuffer):
    """Sequences, drawn uniformly from storage that keeps every frame once."""


class PrioritizedSequenceReplayFrameBuffer(PrioritizedSequenceReplay, SequenceNStepFrameBuffer):
    """Sequences, drawn by priority from storage that keeps every frame once."""


class AsyncUniformSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, UniformSequenceReplayFrameBuffer
):
    """A :class:`UniformSequenceReplayFrameBuffer` that processes share."""


class AsyncPrioritizedSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, PrioritizedSequenceReplayFrameBuffer
):
    """A :class:`PrioritizedSequenceReplayFrameBuffer` that processes share."""

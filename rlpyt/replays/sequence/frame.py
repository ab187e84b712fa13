"""Sequences of image observations, whose frames are stored once."""

from __future__ import annotations

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplay
from rlpyt.replays.sequence.uniform import UniformSequenceReplay
from rlpyt.utils.types import IntArray, Nested


class SequenceNStepFrameBuffer(FrameBufferMixin, SequenceNStepReturnBuffer):
    """Storage of sequences which keeps every frame once."""

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray, T: int) -> Nested:
        """Observations [T,m,C,H,W] of ``T`` rows from ``T_idxs`` [m] on."""
        return self.frame_ring.read_sequences(
            self.samples.done, T_idxs, B_idxs, T, self.batch_memory.empty
        )


class UniformSequenceReplayFrameBuffer(UniformSequenceReplay, SequenceNStepFrameBuffer):
    """Sequences, drawn uniformly from storage which keeps every frame once."""


class PrioritizedSequenceReplayFrameBuffer(PrioritizedSequenceReplay, SequenceNStepFrameBuffer):
    """Sequences, drawn by priority from storage which keeps every frame once."""


class AsyncUniformSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, UniformSequenceReplayFrameBuffer
):
    """A :class:`UniformSequenceReplayFrameBuffer` which processes share."""


class AsyncPrioritizedSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, PrioritizedSequenceReplayFrameBuffer
):
    """A :class:`PrioritizedSequenceReplayFrameBuffer` which processes share."""

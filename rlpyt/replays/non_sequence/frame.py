"""Single transitions of image observations, whose frames are stored once."""

from __future__ import annotations

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.utils.types import IntArray, Nested


class NStepFrameBuffer(FrameBufferMixin, NStepReturnBuffer):
    """Storage of single transitions which keeps every frame once."""

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray) -> Nested:
        """Observations [m,C,H,W] at rows ``T_idxs`` [m] and environments ``B_idxs`` [m]."""
        return self.frame_ring.read(self.samples.done, T_idxs, B_idxs)


class UniformReplayFrameBuffer(UniformReplay, NStepFrameBuffer):
    """Single transitions, drawn uniformly from storage which keeps every frame once."""


class PrioritizedReplayFrameBuffer(PrioritizedReplay, NStepFrameBuffer):
    """Single transitions, drawn by priority from storage which keeps every frame once."""


class AsyncUniformReplayFrameBuffer(AsyncReplayBufferMixin, UniformReplayFrameBuffer):
    """A :class:`UniformReplayFrameBuffer` which processes share."""


class AsyncPrioritizedReplayFrameBuffer(AsyncReplayBufferMixin, PrioritizedReplayFrameBuffer):
    """A :class:`PrioritizedReplayFrameBuffer` which processes share."""

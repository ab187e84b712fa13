"""Single transitions of image observations, whose frames are stored once."""

from __future__ import annotations

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay


class NStepFrameBuffer(FrameBufferMixin, NStepReturnBuffer):
    """Storage of single transitions that keeps every frame once."""


class UniformReplayFrameBuffer(UniformReplay, NStepFrameBuffer):
    """Single transitions, drawn uniformly from storage that keeps every frame once."""


class PrioritizedReplayFrameBuffer(PrioritizedReplay, NStepFrameBuffer):
    """Single transitions, drawn by priority from storage that keeps every frame once."""


class AsyncUniformReplayFrameBuffer(AsyncReplayBufferMixin, UniformReplayFrameBuffer):
    """A :class:`UniformReplayFrameBuffer` that processes share."""


class AsyncPrioritizedReplayFrameBuffer(AsyncReplayBufferMixin, PrioritizedReplayFrameBuffer):
    """A :class:`PrioritizedReplayFrameBuffer` that processes share."""

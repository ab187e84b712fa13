"""Single transitions of image observations, whose frames are stored once."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.utils.types import Nested


class NStepFrameBuffer(FrameBufferMixin, NStepReturnBuffer):
    """Storage of single transitions that keeps every frame once."""

    def extract_observation(self, T_idxs: Any, B_idxs: Any) -> Nested:
        """Return stacks [m,C,...] at rows ``T_idxs`` [m], 0 <= t < T, and ``B_idxs`` [m].

        Raises:
            IndexError: if an index is out of range.
        """
        if self.storage_device is not None:
            return self.stack_on_device(T_idxs, B_idxs)
        return self.stacks(T_idxs, B_idxs, 1, np.empty)[0]


class UniformReplayFrameBuffer(UniformReplay, NStepFrameBuffer):
    """Single transitions, drawn uniformly from storage that keeps every frame once."""


class PrioritizedReplayFrameBuffer(PrioritizedReplay, NStepFrameBuffer):
    """Single transitions, drawn by priority from storage that keeps every frame once."""


class AsyncUniformReplayFrameBuffer(AsyncReplayBufferMixin, UniformReplayFrameBuffer):
    """A :class:`UniformReplayFrameBuffer` that processes share."""


class AsyncPrioritizedReplayFrameBuffer(AsyncReplayBufferMixin, PrioritizedReplayFrameBuffer):
    """A :class:`PrioritizedReplayFrameBuffer` that processes share."""

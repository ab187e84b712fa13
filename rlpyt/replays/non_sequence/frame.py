"""Single transitions of image observations, whose frames are stored once."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.utils.jit import jit
from rlpyt.utils.types import BoolArray, IntArray, NDArray, Nested

_PAGE = 4096  # Number of elements, of one byte each, in a page of memory.


@jit
def _stack(
    frames: NDArray, done: BoolArray, T_idxs: IntArray, B_idxs: IntArray, stacks: NDArray
) -> bool:
    """Fill ``stacks`` [m,C,P] from ``frames`` [T+C-1,B,P]; before a reset they are zero.

    Returns False at the first index out of range: compiled code would read any memory.
    """
    T, B = done.shape
    n_frames = stacks.shape[1]
    for i in range(len(T_idxs)):
        t = T_idxs[i]
        b = B_idxs[i]
        if t < 0 or t >= T or b < 0 or b >= B:
            return False
        first = 0  # The oldest frame of this episode.
        for f in range(1, n_frames):
            if done[t - f, b]:
                first = n_frames - f
                break
        stacks[i, :first] = 0
        # Ask memory for all pages of the stack before waiting for any of them.
        for c in range(first, n_frames):
            frame = frames[t + c, b]
            for p in range(0, len(frame), _PAGE):
                stacks[i, c, p] = frame[p]
        for c in range(first, n_frames):
            frame = frames[t + c, b]
            stack = stacks[i, c]
            for p in range(len(frame)):
                stack[p] = frame[p]
    return True


class NStepFrameBuffer(FrameBufferMixin, NStepReturnBuffer):
    """Storage of single transitions that keeps every frame once."""

    def extract_observation(self, T_idxs: Any, B_idxs: Any) -> Nested:
        """Return stacks [m,C,...] at rows ``T_idxs`` [m], 0 <= t < T, and ``B_idxs`` [m].

        Raises:
            IndexError: if an index is out of range.
        """
        if self.storage_device is not None:
            return self.stack_on_device(T_idxs, B_idxs)
        frames = self.samples_frames
        stacks = np.empty((len(T_idxs), self.n_frames, *frames.shape[2:]), frames.dtype)
        # Plain arrays for compiled code, which those in shared memory need not be.
        flat = np.asarray(frames).reshape(*frames.shape[:2], -1)
        flat_stacks = stacks.reshape(*stacks.shape[:2], -1)
        if not _stack(flat, np.asarray(self.samples.done), T_idxs, B_idxs, flat_stacks):
            raise self.out_of_range(T_idxs, B_idxs)
        return stacks


class UniformReplayFrameBuffer(UniformReplay, NStepFrameBuffer):
    """Single transitions, drawn uniformly from storage that keeps every frame once."""


class PrioritizedReplayFrameBuffer(PrioritizedReplay, NStepFrameBuffer):
    """Single transitions, drawn by priority from storage that keeps every frame once."""


class AsyncUniformReplayFrameBuffer(AsyncReplayBufferMixin, UniformReplayFrameBuffer):
    """A :class:`UniformReplayFrameBuffer` that processes share."""


class AsyncPrioritizedReplayFrameBuffer(AsyncReplayBufferMixin, PrioritizedReplayFrameBuffer):
    """A :class:`PrioritizedReplayFrameBuffer` that processes share."""

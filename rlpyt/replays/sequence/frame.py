"""Sequences of image observations, whose frames are stored once."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplay
from rlpyt.replays.sequence.uniform import UniformSequenceReplay
from rlpyt.utils.jit import jit
from rlpyt.utils.types import BoolArray, IntArray, NDArray, Nested


@jit
def _stack_sequences(
    frames: NDArray, done: BoolArray, T_idxs: IntArray, B_idxs: IntArray, stacks: NDArray
) -> bool:
    """Fill ``stacks`` [L,m,C,P] from ``frames`` [T+C-1,B,P]; before a reset they are zero.

    Every frame is copied to all the stacks it is in while it is in the cache. Returns False at the
    first index out of range: compiled code would read any memory.
    """
    T, B = done.shape
    n_rows, _, n_frames, size = stacks.shape
    for i in range(len(T_idxs)):
        b = B_idxs[i]
        if T_idxs[i] < 0 or T_idxs[i] >= T or b < 0 or b >= B:
            return False
        n_old = 0  # Frames of this episode before row t, as far as stacks reach.
        while n_old < n_frames - 1 and not done[T_idxs[i] - n_old - 1, b]:
            n_old += 1
        for k in range(n_rows):
            t = (T_idxs[i] + k) % T
            if k > 0:
                n_old = 0 if done[t - 1, b] else min(n_old + 1, n_frames - 1)
            first = n_frames - 1 - n_old
            stacks[k, i, :first] = 0
            for c in range(first, n_frames):
                frame = frames[t + c, b]
                stack = stacks[k, i, c]
                for p in range(size):
                    stack[p] = frame[p]
    return True


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
        frames = self.samples_frames
        shape = (T, len(T_idxs), self.n_frames, *frames.shape[2:])
        stacks = self.batch_memory.empty(shape, frames.dtype)
        # Plain arrays for compiled code, which those in shared memory need not be.
        flat = np.asarray(frames).reshape(*frames.shape[:2], -1)
        flat_stacks = stacks.reshape(*stacks.shape[:3], -1)
        if not _stack_sequences(flat, np.asarray(self.samples.done), T_idxs, B_idxs, flat_stacks):
            raise self.out_of_range(T_idxs, B_idxs)
        return stacks


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

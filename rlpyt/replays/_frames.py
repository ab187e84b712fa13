"""Storage of images which keeps every frame once, and stacks them again when they are read."""

from __future__ import annotations

import numpy as np

from rlpyt.replays._extract import Empty
from rlpyt.replays._memory import LINE, Allocate
from rlpyt.replays._stream import finish_stream, stream_copy
from rlpyt.replays._window import runs
from rlpyt.utils.jit import jit
from rlpyt.utils.types import BoolArray, IntArray, NDArray

_PAGE = 4096  # Elements between which memory is a new page, for bytes.


@jit
def _stack(
    frames: NDArray, done: BoolArray, T_idxs: IntArray, B_idxs: IntArray, stacks: NDArray
) -> bool:
    """Fill ``stacks`` [n,C,P] from ``frames`` [T+C-1,B,P]; before a reset they are zero.

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


@jit
def _stack_sequences(
    frames: NDArray,
    frame_size: int,
    done: BoolArray,
    T_idxs: IntArray,
    B_idxs: IntArray,
    stacks: NDArray,
    shape: tuple[int, int],
    offset: int,
) -> bool:
    """Fill ``stacks``, the bytes of [L,n,C,P], from ``frames``, the bytes of [T+C-1,B,P].

    Every frame is copied to all the stacks it is in while it is in the cache; ``offset`` is that of
    ``stacks`` from a line of memory. Returns False at the first index out of range.
    """
    T, B = done.shape
    n_rows, n_frames = shape
    n = len(T_idxs)
    row = B * frame_size
    part = frame_size // n_frames
    for i in range(n):
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
            to = (k * n + i) * n_frames * frame_size
            at = (t * B + b) * frame_size
            stacks[to : to + first * frame_size] = 0
            for c in range(first, n_frames):
                # One part of the newest frame of the next stack while every frame is copied.
                ahead = at + n_frames * row + c * part
                start = c * frame_size
                stream_copy(stacks, to + start, frames, at + c * row, frame_size, offset, ahead)
    finish_stream()
    return True


class FrameRing:
    """Frames [T+C-1,B,H,W] of stacks [C,H,W], each with one frame that the stack before had not.

    The stack of row t is ``frames[t : t + C]``, oldest first, of which only the last is new. What
    precedes a reset is not in a stack: it is zero.

    Args:
        example: one stack [C,H,W].
        T: rows.
        B: environments.
        allocate: makes the arrays.
    """

    def __init__(self, example: NDArray, T: int, B: int, allocate: Allocate) -> None:
        self.n_frames = len(example)
        self.T, self.B = T, B
        self.frames: NDArray = allocate(example[0], (T + self.n_frames - 1, B))
        self.new_frames = self.frames[self.n_frames - 1 :]
        self.overlap_is_known = self.n_frames == 1

    def check(self, observation: NDArray) -> None:
        """Raise ``ValueError`` unless ``observation`` is [T',B,C,H,W]."""
        expected = (self.B, self.n_frames, *self.frames.shape[2:])
        if observation.shape[1:] != expected:
            raise ValueError(
                f"samples.observation has shape {observation.shape}, this buffer stores "
                f"[T',B,C,H,W] with [B,C,H,W] = {expected}: append batches of the B and the "
                "example it was made with"
            )

    def check_overlap(
        self, t: int, observation: NDArray, done: NDArray, stored_done: BoolArray | None
    ) -> None:
        """Raise ``ValueError`` unless each stack continues the one before it.

        Done for every batch until one shows it beyond doubt, which images of one colour do not.

        Args:
            t: row of the first observation.
            observation: [T',B,C,H,W], the next to be written.
            done: [T',B], after which a stack begins anew on zeros.
            stored_done: [T,B] of what is in the ring, or None if row t - 1 cannot be read.
        """
        if stored_done is not None:
            rows = np.full(self.B, (t - 1) % self.T)
            last = self.read(stored_done, rows, np.arange(self.B))
            observation = np.concatenate((last[None], observation))
            done = np.concatenate((stored_done[rows[:1]], done))
        before, after = observation[:-1, :, 1:], observation[1:, :, :-1]
        is_new = done[:-1].astype(bool)[:, :, None, None, None]
        if not np.array_equal(np.where(is_new, 0, before), after):
            raise ValueError(
                f"observations [C,H,W] = {observation.shape[2:]} are not stacks of C successive "
                "frames, oldest first and zero before a reset, as a frame buffer stores them: use "
                "ReplayBufferCls=UniformReplayBuffer (or PrioritizedReplayBuffer), which store any "
                "observation whole"
            )
        self.overlap_is_known = after.size > 0 and after.min() != after.max()

    def write(self, t: int, observation: NDArray, is_first: bool) -> None:
        """Store ``observation`` [T',B,C,H,W] from row t on.

        Args:
            t: row of the first observation.
            observation: checked already.
            is_first: nothing precedes it in this ring.
        """
        n_old = self.n_frames - 1
        if is_first:
            self.frames[:n_old] = np.moveaxis(observation[0, :, :-1], 1, 0)
        done = 0
        for start, stop in runs(t, len(observation), self.T):
            n_rows = stop - start
            self.new_frames[start:stop] = observation[done : done + n_rows, :, -1]
            done += n_rows
            if stop == self.T:
                # The newest rows are also what precedes row 0.
                self.frames[:n_old] = self.frames[self.T :]

    def read(self, done: BoolArray, T_idxs: IntArray, B_idxs: IntArray) -> NDArray:
        """Stacks [n,C,H,W] at the rows ``T_idxs`` [n] (0 <= t < T) and environments ``B_idxs`` [n].

        Args:
            done: [T,B] of all rows, which tells where the stacks begin anew.
            T_idxs: rows.
            B_idxs: environments.

        Raises:
            IndexError: if an index is out of range.
        """
        n_rows, B = self.frames.shape[:2]
        image = self.frames.shape[2:]
        stacks = np.empty((len(T_idxs), self.n_frames, *image), self.frames.dtype)
        flat_stacks = stacks.reshape(len(T_idxs), self.n_frames, -1)
        # Plain arrays for compiled code, which those in shared memory need not be.
        frames = np.asarray(self.frames).reshape(n_rows, B, -1)
        if not _stack(frames, np.asarray(done), T_idxs, B_idxs, flat_stacks):
            raise self._out_of_range(T_idxs, B_idxs)
        return stacks

    def read_sequences(
        self, done: BoolArray, T_idxs: IntArray, B_idxs: IntArray, T: int, empty: Empty
    ) -> NDArray:
        """Stacks [T,n,C,H,W] of ``T`` successive rows, for each of ``n`` first rows.

        Args:
            done: [T,B] of all rows, as for :meth:`read`.
            T_idxs: [n] first rows.
            B_idxs: [n] environments.
            T: rows of every sequence.
            empty: makes the array.

        Raises:
            IndexError: if an index is out of range.
        """
        image = self.frames.shape[2:]
        stacks = empty((T, len(T_idxs), self.n_frames, *image), self.frames.dtype)
        as_bytes = stacks.reshape(-1).view(np.uint8)
        offset = as_bytes.ctypes.data % LINE
        frames = np.asarray(self.frames).reshape(-1).view(np.uint8)
        size = self.frames[0, 0].nbytes
        shape = (T, self.n_frames)
        done = np.asarray(done)
        if not _stack_sequences(frames, size, done, T_idxs, B_idxs, as_bytes, shape, offset):
            raise self._out_of_range(T_idxs, B_idxs)
        return stacks

    def _out_of_range(self, T_idxs: IntArray, B_idxs: IntArray) -> IndexError:
        return IndexError(
            f"T_idxs from {T_idxs.min()} to {T_idxs.max()} and B_idxs from {B_idxs.min()} to "
            f"{B_idxs.max()} are not all within [T,B] = {(self.T, self.B)}"
        )

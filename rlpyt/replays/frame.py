"""Storage of image observations that keeps every frame once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays.n_step import BaseNStepReturnBuffer, without
from rlpyt.utils.buffer import as_numpy, numpy_leaves
from rlpyt.utils.collections import record_class
from rlpyt.utils.jit import jit
from rlpyt.utils.logging import logger
from rlpyt.utils.types import BoolArray, IntArray, NDArray, Nested

# What is left of the usual record without its observation.
BufferSamples = record_class("BufferSamples", SamplesToBuffer._fields[1:])

_REMEDY = (
    "use ReplayBufferCls=UniformReplayBuffer (or PrioritizedReplayBuffer), which store any "
    "observation whole"
)


@jit
def _fill_stacks(
    frames: NDArray,
    done: BoolArray,
    T_idxs: IntArray,
    B_idxs: IntArray,
    stacks: NDArray,
    repeats_first: bool,
) -> bool:
    """Fill ``stacks`` [L,m,C,P] from ``frames`` [T+C-1,B,P].

    Before a reset they are zero, or repeat the first frame after it.

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
            if repeats_first:
                for c in range(first):
                    stacks[k, i, c] = frames[t + first, b]
            for c in range(first, n_frames):
                frame = frames[t + c, b]
                stack = stacks[k, i, c]
                for p in range(size):
                    stack[p] = frame[p]
    return True


def _host_stacks(
    frames: NDArray,
    done: NDArray,
    T_idxs: IntArray,
    B_idxs: IntArray,
    n_steps: int,
    repeats_first: bool,
    empty: Callable[..., NDArray],
) -> NDArray:
    """Return stacks [n_steps,m,C,...] of ``frames`` [T+C-1,B,...], from rows ``T_idxs`` [m] on.

    Raises:
        IndexError: if an index is out of range.
    """
    n_frames = len(frames) - len(done) + 1
    stacks = empty((n_steps, len(T_idxs), n_frames, *frames.shape[2:]), frames.dtype)
    # Plain arrays for compiled code, which those in shared memory need not be.
    flat = np.asarray(frames).reshape(*frames.shape[:2], -1)
    flat_stacks = stacks.reshape(*stacks.shape[:3], -1)
    if not _fill_stacks(flat, np.asarray(done), T_idxs, B_idxs, flat_stacks, repeats_first):
        raise IndexError(
            f"T_idxs from {T_idxs.min()} to {T_idxs.max()} and B_idxs from {B_idxs.min()} to "
            f"{B_idxs.max()} are not all within [T,B] = {tuple(done.shape)}"
        )
    return stacks


def _device_stacks(
    frames: torch.Tensor,
    done: torch.Tensor,
    T_idxs: torch.Tensor,
    B_idxs: torch.Tensor,
    n_steps: int,
    repeats_first: bool,
    empty: Any,
) -> torch.Tensor:
    """Return stacks of tensors, as :func:`_host_stacks` does."""
    (T, B), device = done.shape, frames.device
    n_old = len(frames) - T
    steps = torch.arange(n_steps, device=device)[:, None]
    rows = ((T_idxs + steps) % T)[..., None]
    # Flat indexes, since one index is faster than two.
    places = (rows + torch.arange(n_old + 1, device=device)) * B + B_idxs[:, None]
    stacks = frames.flatten(0, 1)[places]
    # A frame is from before a reset if an episode ended with its row or a later one before t.
    back = (rows - 1 - torch.arange(n_old, device=device)) % T
    is_cut = (done[back, B_idxs[:, None]].cumsum(-1) > 0).flip(-1)
    old = stacks[:, :, :n_old]
    mask = is_cut.reshape(*is_cut.shape, *[1] * (stacks.dim() - 3))
    if repeats_first:
        first = is_cut.sum(-1).reshape(*rows.shape, *[1] * (stacks.dim() - 3))
        repeated = stacks.gather(2, first.expand_as(stacks[:, :, :1]))
        old.copy_(torch.where(mask, repeated, old))
    else:
        old.masked_fill_(mask, 0)
    return stacks


class FrameBufferMixin(BaseNStepReturnBuffer):
    """Mixin that stores only the newest of the C frames of each observation [C,...].

    The observation of row t is ``samples_frames[t : t + C]``. Frames from before a reset are zeros,
    as Atari environments give them, or copies of the first frame after it, as gymnasium's
    ``FrameStackObservation`` does. ``samples`` holds the other fields.

    The example's observation is one array [C,...], usually [C,H,W], oldest frame first.

    Raises:
        ValueError: if the observation is anything else, or (as soon as that shows) not a stack of
            successive frames. If only a later batch has a reset with other frames, a warning is
            logged.

    Attributes:
        n_frames: number C of frames in an observation.
        samples_frames: frames [T+C-1,B,...].
        samples_new_frames: view [T,B,...] of every row's newest frame.
        overlap_is_known: whether batches have proved that stacks continue each other, and begin
            on zeros after a reset, or on copies of the first frame.
        repeats_first: whether stacks begin on copies of the first frame; algorithms set it if the
            environment shows that, and other buffers find it out in the first batch with a reset.
    """

    repeats_first = False

    def allocate_rows(self, example: Nested) -> None:
        stack = _as_stack(example.observation)
        self.n_frames = len(stack)
        self.off_forward = max(1, self.n_frames - 1)
        self.overlap_is_known = self.n_frames == 1
        self._varies = self._resets = False  # What batches have shown so far.
        super().allocate_rows(without(example, "observation"))
        lead = (self.T + self.n_frames - 1, self.B)
        self.samples_frames: Any = self.store.allocate(stack[0], lead)
        self.samples_new_frames = self.samples_frames[self.n_frames - 1 :]
        self._stacks: Any = _host_stacks if self.store.device is None else _device_stacks
        self.stored_rows["frames"] = self.samples_frames

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        observation = samples.observation
        expected = (self.B, self.n_frames, *self.samples_frames.shape[2:])
        if observation.shape[1:] != expected:
            raise ValueError(
                f"samples.observation has shape {tuple(observation.shape)}, this buffer stores "
                f"[T',B,C,...] with [B,C,...] = {expected}: append batches of the B and the "
                "example it was made with"
            )
        if not self.overlap_is_known:
            last_done = self.samples.done[(self.window.t - 1) % self.T]
            self._check_overlap(*numpy_leaves((observation, samples.done, last_done)))
        t, n_old, frames = self.window.t, self.n_frames - 1, self.samples_frames
        is_first = not (t or self.window.full)
        n_rows, rows = super().append_samples(samples)
        if is_first and n_old:
            self.store.write(frames[:n_old], 0, observation[0, :, :-1].swapaxes(0, 1))
        self.store.write(self.samples_new_frames, t, observation[:, :, -1])
        if t + n_rows >= self.T:  # The newest rows are also what precedes row 0.
            frames[:n_old] = frames[self.T :]
        return n_rows, rows

    def _check_overlap(self, observation: NDArray, done: NDArray, last_done: NDArray) -> None:
        """Raise ``ValueError`` unless each stack continues the one before it, or a reset.

        Batches are checked until both are confirmed; images of a single color, and the blank rows
        of environments that wait for a reset, cannot. If only a later batch has the first reset, a
        warning is logged instead.

        Args:
            observation: observations [T',B,C,...] to be written next.
            done: flags [T',B], after which a stack begins on zeros.
            last_done: flags [B] of the row before.
        """
        t, C = self.window.t, self.n_frames
        # The first stacks of all look back at rows that nothing was written to.
        follows = self.window.full or t >= C
        row = (t - 1) % self.T
        if follows:
            done = np.concatenate((last_done[None], done))
        is_new = done[:-1].astype(bool)
        if self._varies and not is_new.any():
            return
        if follows:
            last = np.array(as_numpy(self.samples_frames[row : row + C]))
            for f in range(1, C):
                is_cut = as_numpy(self.samples.done[row - f]).astype(bool)
                last[: C - f, is_cut] = last[C - f, is_cut] if self.repeats_first else 0
            observation = np.concatenate((np.moveaxis(last, 0, 1)[None], observation))
        before, after = observation[:-1, :, 1:], observation[1:, :, :-1]
        starts = is_new.reshape(is_new.shape + (1,) * (before.ndim - 2))
        repeated = np.where(starts, observation[1:, :, -1:], before)
        expected = repeated if self.repeats_first else np.where(starts, 0, before)
        fits = np.array_equal(expected, after)
        if not fits and not self._resets and not self.async_ and np.array_equal(repeated, after):
            fits = self.repeats_first = True
        if not fits and self._varies:
            logger.log(
                "WARNING: after a reset, observations have other frames than zeros or, from the "
                f"start, copies of the first; {type(self).__name__} changes them: {_REMEDY}."
            )
            self.overlap_is_known = True
            return
        if not fits:
            raise ValueError(
                f"observations [C,...] = {observation.shape[2:]} are not stacks of C successive "
                "frames, oldest first, with zeros or copies of the first frame before a reset, as "
                f"a frame buffer stores them: {_REMEDY}"
            )
        self._varies |= after.size > 0 and bool(after.min() != after.max())
        self._resets |= bool(observation[1:, :, -1][is_new].any())
        self.overlap_is_known = self._varies and self._resets

    def extract_observation(self, T_idxs: Any, B_idxs: Any, T: int | None = None) -> Any:
        """Return stacks [m,C,...] at rows ``T_idxs`` [m], 0 <= t < T, and ``B_idxs`` [m].

        With a number of steps, return stacks [T,m,C,...] of as many successive rows.

        Raises:
            IndexError: if an index is out of range, in host memory.
        """
        arrays, empty = (self.samples_frames, self.samples.done), self.store.memory.empty
        stacks = self._stacks(*arrays, T_idxs, B_idxs, T or 1, self.repeats_first, empty)
        return stacks[0] if T is None else stacks

    def state_dict(self) -> dict[str, Any]:
        own = {"repeats_first": True} if self.repeats_first else {}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.repeats_first = state.pop("repeats_first", self.repeats_first)
        super().load_state_dict(state)
        # These images passed already, and new environments do not continue them.
        self.overlap_is_known |= self.window.n_filled > 0


def _as_stack(observation: Any) -> NDArray:
    if isinstance(observation, tuple) or np.ndim(observation) < 2:
        kind = "a record" if isinstance(observation, tuple) else f"shape {np.shape(observation)}"
        raise ValueError(
            f"a frame buffer stores observations [C,H,W] or [C,...], C frames in one array, but "
            f"the example is {kind}: {_REMEDY}"
        )
    return as_numpy(observation)

"""Replay of image observations which stores every frame once."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays._extract import without
from rlpyt.replays._frames import FrameRing
from rlpyt.replays._ring import as_numpy
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import IntArray, NDArray, Nested

# What is left of the usual record without its observation.
BufferSamples = record_class("BufferSamples", SamplesToBuffer._fields[1:])


def _without_observation(samples: Any) -> Any:
    """The record of all other fields, which the ring of rows stores."""
    return without(samples, "observation", "BufferSamples")


class FrameBufferMixin(BaseReplayBuffer):
    """Stores of every observation [C,H,W] only the newest frame.

    The observation of row t is ``samples_frames[t : t + C]``, with zeros for frames from before a
    reset, as Atari environments give them. ``samples`` holds the other fields.

    Args:
        example: as for the buffer it is mixed into; ``observation`` is one array [C,H,W], oldest
            frame first.

    Raises:
        ValueError: if the observation is anything else, or (as soon as that shows) is no stack of
            successive frames.

    Attributes:
        n_frames: C.
        samples_frames: [T+C-1,B,H,W].
        samples_new_frames: [T,B,H,W] view, the newest frame of every row.
    """

    def __init__(self, example: Nested, **kwargs: Any) -> None:
        stack = _as_stack(example.observation)
        super().__init__(example=_without_observation(example), **kwargs)
        self.n_frames = len(stack)
        self.off_forward = max(1, self.n_frames - 1)
        self.frame_ring = FrameRing(stack, self.T, self.B, self.allocate)
        self.samples_frames = self.frame_ring.frames
        self.samples_new_frames = self.frame_ring.new_frames
        self.stored_rows["frames"] = self.samples_frames

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        observation = as_numpy(samples.observation)
        self.frame_ring.check(observation)
        t = self.t
        is_first = t == 0 and not self._buffer_full
        if not self.frame_ring.overlap_is_known:
            # The first stacks of all look back at rows which nothing was written to.
            stored = self.samples.done if self._buffer_full or t >= self.n_frames else None
            self.frame_ring.check_overlap(t, observation, as_numpy(samples.done), stored)
        n_rows, rows = super().append_samples(_without_observation(samples))
        self.frame_ring.write(t, observation, is_first)
        return n_rows, rows

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        # These images passed already, and environments made anew do not continue them.
        self.frame_ring.overlap_is_known |= self.current_window().n_filled > 0


def _as_stack(observation: Any) -> NDArray:
    if isinstance(observation, tuple) or np.ndim(observation) != 3:
        kind = "a record" if isinstance(observation, tuple) else f"shape {np.shape(observation)}"
        raise ValueError(
            f"a frame buffer stores observations [C,H,W], C frames in one array, but the example "
            f"is {kind}: use UniformReplayBuffer or PrioritizedReplayBuffer, which store any "
            "observation whole"
        )
    return as_numpy(observation)

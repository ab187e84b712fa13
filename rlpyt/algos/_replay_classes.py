"""The classes of replay buffers among which algorithms choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpyt.replays.non_sequence import frame, prioritized, time_limit, uniform
from rlpyt.replays.sequence import (
    frame as sequence_frame,
    prioritized as sequence_prioritized,
    time_limit as sequence_time_limit,
    uniform as sequence_uniform,
)

# By (time limits are known, frames are stored once, prioritized): for one process, and for many.
ReplayClasses = Mapping[tuple[bool, bool, bool], tuple[Any, Any]]

TRANSITIONS: ReplayClasses = {
    (False, False, False): (uniform.UniformReplayBuffer, uniform.AsyncUniformReplayBuffer),
    (False, False, True): (
        prioritized.PrioritizedReplayBuffer,
        prioritized.AsyncPrioritizedReplayBuffer,
    ),
    (False, True, False): (frame.UniformReplayFrameBuffer, frame.AsyncUniformReplayFrameBuffer),
    (False, True, True): (
        frame.PrioritizedReplayFrameBuffer,
        frame.AsyncPrioritizedReplayFrameBuffer,
    ),
    (True, False, False): (
        time_limit.TlUniformReplayBuffer,
        time_limit.AsyncTlUniformReplayBuffer,
    ),
    (True, False, True): (
        time_limit.TlPrioritizedReplayBuffer,
        time_limit.AsyncTlPrioritizedReplayBuffer,
    ),
    (True, True, False): (
        time_limit.TlUniformReplayFrameBuffer,
        time_limit.AsyncTlUniformReplayFrameBuffer,
    ),
    (True, True, True): (
        time_limit.TlPrioritizedReplayFrameBuffer,
        time_limit.AsyncTlPrioritizedReplayFrameBuffer,
    ),
}

SEQUENCES: ReplayClasses = {
    (False, False, False): (
        sequence_uniform.UniformSequenceReplayBuffer,
        sequence_uniform.AsyncUniformSequenceReplayBuffer,
    ),
    (False, False, True): (
        sequence_prioritized.PrioritizedSequenceReplayBuffer,
        sequence_prioritized.AsyncPrioritizedSequenceReplayBuffer,
    ),
    (False, True, False): (
        sequence_frame.UniformSequenceReplayFrameBuffer,
        sequence_frame.AsyncUniformSequenceReplayFrameBuffer,
    ),
    (False, True, True): (
        sequence_frame.PrioritizedSequenceReplayFrameBuffer,
        sequence_frame.AsyncPrioritizedSequenceReplayFrameBuffer,
    ),
    (True, False, False): (
        sequence_time_limit.TlUniformSequenceReplayBuffer,
        sequence_time_limit.AsyncTlUniformSequenceReplayBuffer,
    ),
    (True, False, True): (
        sequence_time_limit.TlPrioritizedSequenceReplayBuffer,
        sequence_time_limit.AsyncTlPrioritizedSequenceReplayBuffer,
    ),
    (True, True, False): (
        sequence_time_limit.TlUniformSequenceReplayFrameBuffer,
        sequence_time_limit.AsyncTlUniformSequenceReplayFrameBuffer,
    ),
    (True, True, True): (
        sequence_time_limit.TlPrioritizedSequenceReplayFrameBuffer,
        sequence_time_limit.AsyncTlPrioritizedSequenceReplayFrameBuffer,
    ),
}


def select(
    classes: ReplayClasses,
    async_: bool,
    *,
    time_limits: bool = False,
    frames: bool = False,
    prioritized: bool = False,
) -> Any:
    """The class with these abilities, for one process or (``async_``) for several."""
    own, shared = classes[time_limits, frames, prioritized]
    return shared if async_ else own

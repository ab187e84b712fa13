"""Single transitions, drawn by priority."""

from __future__ import annotations

from rlpyt.core.records import extended
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.priorities import EPS as EPS, PrioritizedReplay as PrioritizedReplay

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")


class PrioritizedReplayBuffer(PrioritizedReplay, NStepReturnBuffer):
    """Single transitions, drawn by priority from storage of whole observations."""


class AsyncPrioritizedReplayBuffer(AsyncReplayBufferMixin, PrioritizedReplayBuffer):
    """A :class:`PrioritizedReplayBuffer` that processes share."""

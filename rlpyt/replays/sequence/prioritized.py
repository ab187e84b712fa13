"""Sequences, drawn by priority."""

from __future__ import annotations

from rlpyt.core.records import extended
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.priorities import EPS as EPS, PrioritizedReplay
from rlpyt.replays.sequence.n_step import SamplesFromReplay, SequenceNStepReturnBuffer

SamplesFromReplayPri = extended(SamplesFromReplay, ("is_weights",), "Pri")

PrioritizedSequenceReplay = PrioritizedReplay


class PrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceNStepReturnBuffer):
    """Sequences, drawn by priority from storage of whole observations."""


class AsyncPrioritizedSequenceReplayBuffer(AsyncReplayBufferMixin, PrioritizedSequenceReplayBuffer):
    """A :class:`PrioritizedSequenceReplayBuffer` that processes share."""

"""Sequences which know whether time limits ended their episodes."""

from __future__ import annotations

from typing import Any

from rlpyt.core.records import extended
from rlpyt.replays._time_limits import TimeLimits
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.sequence.frame import SequenceNStepFrameBuffer
from rlpyt.replays.sequence.n_step import SamplesFromReplay, SequenceNStepReturnBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplay
from rlpyt.replays.sequence.uniform import UniformSequenceReplay

SamplesFromReplayTL = extended(SamplesFromReplay, TimeLimits.batch_fields, "TL")


class SequenceNStepTimeLimitBuffer(TimeLimits, SequenceNStepReturnBuffer):
    """Storage of sequences which know of time limits: ``timeout`` and ``timeout_n`` [T,B]."""

    batch_record: Any = SamplesFromReplayTL


class TlUniformSequenceReplayBuffer(UniformSequenceReplay, SequenceNStepTimeLimitBuffer):
    """Sequences with time limits, drawn uniformly from storage of whole observations."""


class TlPrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceNStepTimeLimitBuffer):
    """Sequences with time limits, drawn by priority from storage of whole observations."""


class SequenceNStepTimeLimitFrameBuffer(SequenceNStepFrameBuffer, SequenceNStepTimeLimitBuffer):
    """Storage of sequences which knows of time limits and keeps every frame once."""


class TlUniformSequenceReplayFrameBuffer(UniformSequenceReplay, SequenceNStepTimeLimitFrameBuffer):
    """Sequences with time limits, drawn uniformly from frames stored once."""


class TlPrioritizedSequenceReplayFrameBuffer(
    PrioritizedSequenceReplay, SequenceNStepTimeLimitFrameBuffer
):
    """Sequences with time limits, drawn by priority from frames stored once."""


class AsyncTlUniformSequenceReplayBuffer(AsyncReplayBufferMixin, TlUniformSequenceReplayBuffer):
    """A :class:`TlUniformSequenceReplayBuffer` which processes share."""


class AsyncTlPrioritizedSequenceReplayBuffer(
    AsyncReplayBufferMixin, TlPrioritizedSequenceReplayBuffer
):
    """A :class:`TlPrioritizedSequenceReplayBuffer` which processes share."""


class AsyncTlUniformSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, TlUniformSequenceReplayFrameBuffer
):
    """A :class:`TlUniformSequenceReplayFrameBuffer` which processes share."""


class AsyncTlPrioritizedSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, TlPrioritizedSequenceReplayFrameBuffer
):
    """A :class:`TlPrioritizedSequenceReplayFrameBuffer` which processes share."""

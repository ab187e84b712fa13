"""Sequences, with the time limits that ended their episodes."""

from __future__ import annotations

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.sequence.frame import SequenceNStepFrameBuffer
from rlpyt.replays.sequence.n_step import SamplesFromReplayTL, SequenceTimeLimitBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplay
from rlpyt.replays.sequence.uniform import UniformSequenceReplay


class TlUniformSequenceReplayBuffer(UniformSequenceReplay, SequenceTimeLimitBuffer):
    """Sequences with time limits, drawn uniformly from storage of whole observations."""


class TlPrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceTimeLimitBuffer):
    """Sequences with time limits, drawn by priority from storage of whole observations."""


class TlUniformSequenceReplayFrameBuffer(UniformSequenceReplay, SequenceNStepFrameBuffer):
    """Sequences with time limits, drawn uniformly from frames stored once."""

    batch_record: Any = SamplesFromReplayTL


class TlPrioritizedSequenceReplayFrameBuffer(PrioritizedSequenceReplay, SequenceNStepFrameBuffer):
    """Sequences with time limits, drawn by priority from frames stored once."""

    batch_record: Any = SamplesFromReplayTL


class AsyncTlUniformSequenceReplayBuffer(AsyncReplayBufferMixin, TlUniformSequenceReplayBuffer):
    """A :class:`TlUniformSequenceReplayBuffer` that processes share."""


class AsyncTlPrioritizedSequenceReplayBuffer(
    AsyncReplayBufferMixin, TlPrioritizedSequenceReplayBuffer
):
    """A :class:`TlPrioritizedSequenceReplayBuffer` that processes share."""


class AsyncTlUniformSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, TlUniformSequenceReplayFrameBuffer
):
    """A :class:`TlUniformSequenceReplayFrameBuffer` that processes share."""


class AsyncTlPrioritizedSequenceReplayFrameBuffer(
    AsyncReplayBufferMixin, TlPrioritizedSequenceReplayFrameBuffer
):
    """A :class:`TlPrioritizedSequenceReplayFrameBuffer` that processes share."""

"""Single transitions with the time limits that ended their episodes."""

from __future__ import annotations

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.frame import NStepFrameBuffer
from rlpyt.replays.non_sequence.n_step import (
    NStepTimeLimitBuffer as NStepTimeLimitBuffer,
    SamplesFromReplay as SamplesFromReplay,
    SamplesFromReplayTL,
)
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay


class TlUniformReplayBuffer(UniformReplay, NStepTimeLimitBuffer):
    """Single transitions with time limits, drawn uniformly from storage of whole observations."""


class TlPrioritizedReplayBuffer(PrioritizedReplay, NStepTimeLimitBuffer):
    """Single transitions with time limits, drawn by priority from storage of whole observations."""


class TlUniformReplayFrameBuffer(UniformReplay, NStepFrameBuffer):
    """Single transitions with time limits, drawn uniformly from frames stored once."""

    batch_record: Any = SamplesFromReplayTL


class TlPrioritizedReplayFrameBuffer(PrioritizedReplay, NStepFrameBuffer):
    """Single transitions with time limits, drawn by priority from frames stored once."""

    batch_record: Any = SamplesFromReplayTL


class AsyncTlUniformReplayBuffer(AsyncReplayBufferMixin, TlUniformReplayBuffer):
    """A :class:`TlUniformReplayBuffer` that processes share."""


class AsyncTlPrioritizedReplayBuffer(AsyncReplayBufferMixin, TlPrioritizedReplayBuffer):
    """A :class:`TlPrioritizedReplayBuffer` that processes share."""


class AsyncTlUniformReplayFrameBuffer(AsyncReplayBufferMixin, TlUniformReplayFrameBuffer):
    """A :class:`TlUniformReplayFrameBuffer` that processes share."""


class AsyncTlPrioritizedReplayFrameBuffer(AsyncReplayBufferMixin, TlPrioritizedReplayFrameBuffer):
    """A :class:`TlPrioritizedReplayFrameBuffer` that processes share."""

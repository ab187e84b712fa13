"""Single transitions which know whether a time limit ended their episode."""

from __future__ import annotations

from typing import Any

from rlpyt.core.records import extended
from rlpyt.replays._time_limits import TimeLimits
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.frame import NStepFrameBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay

SamplesFromReplayTL = extended(SamplesFromReplay, TimeLimits.batch_fields, "TL")


class NStepTimeLimitBuffer(TimeLimits, NStepReturnBuffer):
    """Storage of single n-step transitions which know of time limits."""

    batch_record: Any = SamplesFromReplayTL


class TlUniformReplayBuffer(UniformReplay, NStepTimeLimitBuffer):
    """Single transitions with time limits, drawn uniformly from storage of whole observations."""


class TlPrioritizedReplayBuffer(PrioritizedReplay, NStepTimeLimitBuffer):
    """Single transitions with time limits, drawn by priority from storage of whole observations."""


class NStepTimeLimitFrameBuffer(NStepFrameBuffer, NStepTimeLimitBuffer):
    """Storage of transitions which knows of time limits and keeps every frame once."""


class TlUniformReplayFrameBuffer(UniformReplay, NStepTimeLimitFrameBuffer):
    """Single transitions with time limits, drawn uniformly from frames stored once."""


class TlPrioritizedReplayFrameBuffer(PrioritizedReplay, NStepTimeLimitFrameBuffer):
    """Single transitions with time limits, drawn by priority from frames stored once."""


class AsyncTlUniformReplayBuffer(AsyncReplayBufferMixin, TlUniformReplayBuffer):
    """A :class:`TlUniformReplayBuffer` which processes share."""


class AsyncTlPrioritizedReplayBuffer(AsyncReplayBufferMixin, TlPrioritizedReplayBuffer):
    """A :class:`TlPrioritizedReplayBuffer` which processes share."""


class AsyncTlUniformReplayFrameBuffer(AsyncReplayBufferMixin, TlUniformReplayFrameBuffer):
    """A :class:`TlUniformReplayFrameBuffer` which processes share."""


class AsyncTlPrioritizedReplayFrameBuffer(AsyncReplayBufferMixin, TlPrioritizedReplayFrameBuffer):
    """A :class:`TlPrioritizedReplayFrameBuffer` which processes share."""

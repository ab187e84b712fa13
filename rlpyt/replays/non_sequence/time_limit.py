"""Single transitions with the time limits that ended their episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs, extended
from rlpyt.replays._memory import gather
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.frame import NStepFrameBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.utils.buffer import named_leaves, numpy_leaves, torchify_buffer
from rlpyt.utils.types import IntArray, Nested

SamplesFromReplayTL = extended(SamplesFromReplay, ("timeout", "timeout_n"), "TL")


class NStepTimeLimitBuffer(NStepReturnBuffer):
    """Storage of single n-step transitions, with time limits and the observations at them.

    If the example has ``last_observation``, what the environment returned for each action, it is
    stored where ``timeout`` is set. A sample whose return is truncated after k rewards then has
    this observation, and the action and reward before it, as ``target_inputs``; ``done_n`` and
    ``timeout_n`` are False, because the return can be bootstrapped. For n > 1 batches have a
    further field ``bootstrap_steps`` [B]: k for such samples, n for the others.

    Attributes:
        samples_last_observation: [T,B,...], or None; only pages that are written take memory.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 4.
    """

    batch_record: Any = SamplesFromReplayTL

    def __init__(self, example: Nested, *args: Any, **kwargs: Any) -> None:
        super().__init__(example, *args, **kwargs)
        self.samples_last_observation: Any = None
        if "last_observation" in example._fields:
            last = self.allocate(example.last_observation, (self.T, self.B))
            self.samples_last_observation = last
            self._last_arrays = dict(named_leaves(last, "last_observation"))
            self.stored_rows.update(self._last_arrays)

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        n_rows, rows = super().append_samples(samples)
        if self.samples_last_observation is not None:
            t, b = np.nonzero(self.samples.timeout[rows])
            row = np.arange(self.T)[rows][t]
            sources = numpy_leaves(samples.last_observation)
            for array, source in zip(self._last_arrays.values(), sources, strict=True):
                array[row, b] = source[t, b]
        return n_rows, rows

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of :meth:`extract_batch`, bootstrapped at time limits where it can be.

        The user's own fields are added as well.
        """
        batch = super().read_batch(T_idxs, B_idxs, *T)
        if self.samples_last_observation is None:
            return batch
        n = self.n_step_return
        steps = torch.full(batch.done_n.shape, n)
        hits = np.flatnonzero(batch.timeout_n)
        if len(hits):
            rows, B_idxs = (
                np.asarray(T_idxs)[hits] + np.arange(n)[:, None],
                np.asarray(B_idxs)[hits],
            )
            ends = self.samples.done[rows % self.T, B_idxs].argmax(axis=0)
            flat = self.flat_idxs(rows[0] + ends, B_idxs)
            samples = self.samples
            last = gather((self.samples_last_observation, samples.action, samples.reward), flat)
            batch.target_inputs[hits] = torchify_buffer(AgentInputs(*last))
            batch.done_n[hits] = False
            batch.timeout_n[hits] = False
            steps[hits] = torch.from_numpy(ends + 1)
        if n == 1:
            return batch
        return extended(type(batch), ("bootstrap_steps",), "K")(*batch, steps)


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

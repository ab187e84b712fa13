"""Single n-step transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import (
    AgentInputs,
    SamplesFromReplay as SamplesFromReplay,
    SamplesToBuffer,
    extended,
)
from rlpyt.replays._memory import gather
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import named_leaves, numpy_leaves, torchify_buffer
from rlpyt.utils.types import IntArray, Nested

SamplesFromReplayTL = extended(SamplesFromReplay, ("timeout", "timeout_n"), "TL")


class NStepReturnBuffer(BaseNStepReturnBuffer):
    """Storage from which single n-step transitions are read.

    Fields of the example beyond those of ``SamplesToBuffer`` come with every batch of
    ``sample_batch``, under their names, as they were at t; a subclass that overrides
    ``extract_batch`` adds them itself.
    """

    batch_record: Any = SamplesFromReplay

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        is_ours = type(self).extract_batch is NStepReturnBuffer.extract_batch
        self.init_batch_fields(SamplesToBuffer._fields if is_ours else self.samples._fields)

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, *args: Any) -> Any:
        """Return the transitions that begin at rows ``T_idxs`` [m] of environments ``B_idxs`` [m].

        Returns:
            ``SamplesFromReplay`` of tensors [m,...]: agent inputs at t, with previous action and
            reward zero at the start of an episode, and target inputs at t + n.
        """
        n, m = self.n_step_return, len(T_idxs)
        T_idxs, B_idxs = np.asarray(T_idxs), np.asarray(B_idxs)
        rows = np.concatenate((T_idxs - 1, T_idxs, T_idxs + (n - 1)))
        flat = self.flat_idxs(rows, np.concatenate((B_idxs, B_idxs, B_idxs)))
        samples = self.samples
        actions, rewards, dones = gather((samples.action, samples.reward, samples.done), flat)
        now, after = slice(m, 2 * m), slice(2 * m, None)
        prev_action, prev_reward = actions[:m], rewards[:m]
        is_first = dones[:m].astype(bool, copy=False)
        prev_action[is_first] = 0
        prev_reward[is_first] = 0
        # Agent and target observations overlap in memory, so they are read in one go.
        observations = self.extract_observation(
            np.concatenate((T_idxs % self.T, (T_idxs + n) % self.T)),
            np.concatenate((B_idxs, B_idxs)),
        )
        return_, done_n, *timeouts = gather(
            (self.samples_return_, self.samples_done_n, *self.timeouts.values()), flat[now]
        )
        batch = self.batch_record(
            AgentInputs(observations[:m], prev_action, prev_reward),
            actions[now],
            return_,
            dones[now],
            done_n,
            AgentInputs(observations[m:], actions[after], rewards[after]),
            *timeouts,
        )
        return torchify_buffer(batch)

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray) -> Nested:
        """Return observations [m,...] at rows ``T_idxs`` [m] and environments ``B_idxs`` [m].

        Called once per batch, for the agent's and then the target's observations.
        """
        (observation,) = gather((self.samples.observation,), self.flat_idxs(T_idxs, B_idxs))
        return observation


class NStepTimeLimitBuffer(NStepReturnBuffer):
    """Storage of single n-step transitions, with time limits and the observations at them.

    If the example has ``last_observation``, what the environment returned for each action, it is
    stored where ``timeout`` is set. A sample whose return is truncated after k rewards then has
    this observation, and the action and reward before it, as ``target_inputs``; ``done_n`` and
    ``timeout_n`` are False, because the return can be bootstrapped. For n > 1 batches have a
    further field ``bootstrap_steps`` [B]: k for such samples, n for the others.

    Attributes:
        samples_last_observation: [T,B,...], or None.

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
            T_idxs, B_idxs = np.asarray(T_idxs)[hits], np.asarray(B_idxs)[hits]
            rows = (T_idxs + np.arange(n)[:, None]) % self.T
            ends = self.samples.done[rows, B_idxs].argmax(axis=0)
            flat = self.flat_idxs(T_idxs + ends, B_idxs)
            samples = self.samples
            last = gather((self.samples_last_observation, samples.action, samples.reward), flat)
            batch.target_inputs[hits] = torchify_buffer(AgentInputs(*last))
            batch.done_n[hits] = False
            batch.timeout_n[hits] = False
            steps[hits] = torch.from_numpy(ends + 1)
        if n == 1:
            return batch
        return extended(type(batch), ("bootstrap_steps",), "K")(*batch, steps)

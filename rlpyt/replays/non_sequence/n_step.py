"""Single n-step transitions."""

from __future__ import annotations

from operator import getitem
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import (
    AgentInputs,
    SamplesFromReplay as SamplesFromReplay,
    SamplesToBuffer,
    extended,
)
from rlpyt.replays._memory import as_mask, concatenate, fill, gather
from rlpyt.replays.last_observation import LastObservationMixin, first_of
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import buffer_func, leaves, torchify_buffer
from rlpyt.utils.types import IntArray, Nested

SamplesFromReplayTL = extended(SamplesFromReplay, ("timeout", "timeout_n"), "TL")


class NStepReturnBuffer(BaseNStepReturnBuffer):
    """Storage from which single n-step transitions are read.

    Every batch of ``sample_batch`` has the fields of the example that ``SamplesToBuffer`` lacks,
    under their names, as they were at t; a subclass that overrides ``extract_batch`` adds them
    itself.
    """

    def allocate_rows(self, example: Nested) -> None:
        super().allocate_rows(example)
        n = self.n_step_return
        # Rows before t, at t, of the last reward, and of the target's observation.
        (self._offsets,) = self.move(np.array([[-1], [0], [n - 1], [n]]))
        is_ours = type(self).extract_batch is NStepReturnBuffer.extract_batch
        self.init_batch_fields(SamplesToBuffer._fields if is_ours else self.samples._fields)

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, *args: Any) -> Any:
        """Return the transitions that begin at rows ``T_idxs`` [m] of environments ``B_idxs`` [m].

        Returns:
            ``SamplesFromReplay`` of tensors [m,...]: agent inputs at t, with previous action
            null and reward zero at the start of an episode, and target inputs at t + n.
        """
        T_idxs, B_idxs = self.indexes(T_idxs, B_idxs)
        m, samples = len(T_idxs), self.samples
        flat = self.flat_idxs(T_idxs + self._offsets[:3], B_idxs)
        actions, rewards, dones = gather((samples.action, samples.reward, samples.done), flat)
        prev_action, prev_reward, is_first = actions[0], rewards[0], as_mask(dones[0])
        fill(prev_action, is_first, self.null_action)
        fill(prev_reward, is_first)
        # Agent and target observations overlap in memory, so they are read in one go.
        rows = (T_idxs + self._offsets[1::2]) % self.T
        observations = self.extract_observation(rows.reshape(-1), concatenate((B_idxs, B_idxs)))
        return_, done_n, *timeouts = gather(
            (self.samples_return_, self.samples_done_n, *self.timeouts), flat[1]
        )
        batch = self.batch_record(
            AgentInputs(buffer_func(observations, getitem, slice(m)), prev_action, prev_reward),
            actions[1],
            return_,
            dones[1],
            done_n,
            AgentInputs(buffer_func(observations, getitem, slice(m, None)), actions[2], rewards[2]),
            *timeouts,
        )
        return torchify_buffer(batch)

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray) -> Nested:
        """Return observations [m,...] at rows ``T_idxs`` [m] and environments ``B_idxs`` [m].

        Called once per batch, for the agent's and then the target's observations.
        """
        (observation,) = gather((self.samples.observation,), self.flat_idxs(T_idxs, B_idxs))
        return observation


class NStepTimeLimitBuffer(LastObservationMixin, NStepReturnBuffer):
    """Storage of single n-step transitions, with time limits and the observations at them.

    If last observations are stored, a sample whose return is truncated after k rewards has this
    observation, and the action and reward before it, as ``target_inputs``; ``done_n`` and
    ``timeout_n`` are False, because the return can be bootstrapped. For n > 1 batches have a
    further field ``bootstrap_steps`` [B]: k for such samples, n for the others.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 4.
    """

    batch_record: Any = SamplesFromReplayTL

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of :meth:`extract_batch`, bootstrapped at time limits where it can be.

        The user's own fields are added as well.
        """
        T_idxs, B_idxs = self.indexes(T_idxs, B_idxs)
        batch = super().read_batch(T_idxs, B_idxs, *T)
        if self.samples_last_observation is None:
            return batch
        n = self.n_step_return
        if self.storage_device is None:
            steps = torch.full(batch.done_n.shape, n)
            hits = np.flatnonzero(batch.timeout_n)
            if len(hits):
                last, ends = self._last_inputs(T_idxs[hits], B_idxs[hits])
                batch.target_inputs[hits] = torchify_buffer(last)
                batch.done_n[hits] = False
                batch.timeout_n[hits] = False
                steps[hits] = torch.from_numpy(ends + 1)
        else:  # For all, since the host does not wait for the number of hits.
            is_hit = batch.timeout_n != 0
            last, ends = self._last_inputs(T_idxs, B_idxs)
            for target, other in zip(leaves(batch.target_inputs), leaves(last), strict=True):
                mask = is_hit.reshape(-1, *[1] * (target.dim() - 1))
                target.copy_(torch.where(mask, other, target))
            fill((batch.done_n, batch.timeout_n), is_hit)
            steps = torch.where(is_hit, ends + 1, n)
        if n == 1:
            return batch
        return extended(type(batch), ("bootstrap_steps",), "K")(*batch, steps)

    def _last_inputs(self, T_idxs: Any, B_idxs: Any) -> tuple[AgentInputs, Any]:
        """Return the inputs at the ends of episodes after rows ``T_idxs`` [m], and the distances.

        Returns:
            Last observations with the action and reward before them, and the number [m] of rows
            from ``T_idxs`` to the end.
        """
        rows = (T_idxs + self.arange(self.n_step_return)[:, None]) % self.T
        ends = first_of(self.samples.done[rows, B_idxs])
        flat = self.flat_idxs(T_idxs + ends, B_idxs)
        last = (self.samples_last_observation, self.samples.action, self.samples.reward)
        return AgentInputs(*gather(last, flat)), ends

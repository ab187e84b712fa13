"""Single n-step transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs, SamplesFromReplay as SamplesFromReplay, extended
from rlpyt.replays.last_observation import LastObservationMixin, first_of
from rlpyt.replays.n_step import BaseNStepReturnBuffer
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
        (self._offsets,) = self.store.local(np.array([[-1], [0], [n - 1], [n]]))
        if type(self).extract_batch is NStepReturnBuffer.extract_batch:
            self.set_user_fields()

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of :meth:`extract_batch`, with the user's own fields at its end."""
        batch = self.extract_batch(T_idxs, B_idxs)
        if not self.user_fields:
            return batch
        places = self.store.places((self.T, self.B), T_idxs, B_idxs)
        return self.with_user_fields(batch, places)

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, *args: Any) -> Any:
        """Return the transitions that begin at rows ``T_idxs`` [m] of environments ``B_idxs`` [m].

        Returns:
            ``SamplesFromReplay`` of tensors [m,...]: agent inputs at t, with previous action
            null and reward zero at the start of an episode, and target inputs at t + n.
        """
        store = self.store
        places = store.places((self.T, self.B), T_idxs, B_idxs, self._offsets)
        actions, rewards, dones, *ends = store.read(self._read, places[:3])
        store.fill(dones[0], (actions[0], rewards[0]), (self.null_action, None))
        # Agent and target observations overlap in memory, so they are read in one go.
        both = places[1::2].reshape(-1)
        observations = self.extract_observation(both // self.B, both % self.B)
        return_, done_n, *timeouts = (x[1] for x in ends)
        m = len(return_)
        batch = self.batch_record(
            AgentInputs(_part(observations, slice(m)), actions[0], rewards[0]),
            actions[1],
            return_,
            dones[1],
            done_n,
            AgentInputs(_part(observations, slice(m, None)), actions[2], rewards[2]),
            *timeouts,
        )
        return store.tensors(batch)

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray) -> Nested:
        """Return observations [m,...] at rows ``T_idxs`` [m] and environments ``B_idxs`` [m].

        Called once per batch, for the agent's and then the target's observations.
        """
        places = self.store.places((self.T, self.B), T_idxs, B_idxs)
        (observation,) = self.store.read((self.samples.observation,), places)
        return observation


def _part(observations: Nested, rows: slice) -> Nested:
    """Return ``rows`` of an array, or of all arrays of a record of any kind."""
    if isinstance(observations, tuple):
        record: Any = observations
        return record._make([_part(x, rows) for x in record])
    return None if observations is None else observations[rows]


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
        batch = super().read_batch(T_idxs, B_idxs, *T)
        if self.samples_last_observation is None:
            return batch
        n = self.n_step_return
        steps = torch.full_like(batch.done_n, n, dtype=torch.int64)

        def at_limits(hits: Any) -> Nested:
            offsets = self.store.arange(n)[:, None]
            places = self.store.places((self.T, self.B), T_idxs, B_idxs, offsets)[:, hits]
            (done,) = self.store.read((self.samples.done,), places)
            ends = first_of(done)
            last = (self.samples_last_observation, self.samples.action, self.samples.reward)
            inputs = self.store.read(last, places[ends, self.store.arange(len(ends))])
            return *inputs, False, False, ends + 1

        changed = (batch.target_inputs, batch.done_n, batch.timeout_n, steps)
        self.store.replace(batch.timeout_n, changed, at_limits)
        if n == 1:
            return batch
        return extended(type(batch), ("bootstrap_steps",), "K")(*batch, steps)

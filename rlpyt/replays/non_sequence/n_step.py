"""Single n-step transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.core.records import (
    AgentInputs,
    SamplesFromReplay as SamplesFromReplay,
    SamplesToBuffer,
)
from rlpyt.replays._memory import gather
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.types import IntArray, Nested


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

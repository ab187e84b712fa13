"""Single n-step transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs, SamplesFromReplay as SamplesFromReplay
from rlpyt.replays._extract import blank, cut, gather
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.types import IntArray, Nested


class NStepReturnBuffer(BaseNStepReturnBuffer):
    """Storage from which single n-step transitions are read.

    Fields of the example beyond those of ``SamplesToBuffer`` come with every batch, under their
    names, as they were at t; a subclass which overrides ``extract_batch`` adds them itself.
    """

    batch_record: Any = SamplesFromReplay

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, *args: Any) -> Any:
        """The transitions that begin at rows ``T_idxs`` [m] of environments ``B_idxs`` [m].

        Returns:
            ``SamplesFromReplay`` of tensors [m,...]: agent inputs at t, with previous action and
            reward zero at the start of an episode, and target inputs at t + n.
        """
        n = self.n_step_return
        T_idxs, B_idxs = np.asarray(T_idxs), np.asarray(B_idxs)
        rows = np.concatenate((T_idxs - 1, T_idxs, T_idxs + (n - 1)))
        flat = self.flat_idxs(rows, np.concatenate((B_idxs, B_idxs, B_idxs)))
        now = flat[len(T_idxs) : 2 * len(T_idxs)]
        prev_action, action, target_prev_action = cut(gather(self.samples.action, flat), 3)
        prev_reward, _, target_prev_reward = cut(gather(self.samples.reward, flat), 3)
        prev_done, done, _ = cut(gather(self.samples.done, flat), 3)
        blank((prev_action, prev_reward), prev_done.astype(bool, copy=False))
        # Agent and target observations overlap in memory, so they are read in one go.
        observation, target_observation = cut(
            self.extract_observation(
                np.concatenate((T_idxs % self.T, (T_idxs + n) % self.T)),
                np.concatenate((B_idxs, B_idxs)),
            ),
            2,
        )
        batch = self.batch_class(
            AgentInputs(observation, prev_action, prev_reward),
            action,
            gather(self.samples_return_, now),
            done,
            gather(self.samples_done_n, now),
            AgentInputs(target_observation, target_prev_action, target_prev_reward),
            *(gather(field, now) for field in self.row_fields.values()),
        )
        return torchify_buffer(batch)

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray) -> Nested:
        """Observations [m,...] at rows ``T_idxs`` [m] and environments ``B_idxs`` [m].

        Called once per batch, for the agent's and then the target's observations.
        """
        return gather(self.samples.observation, self.flat_idxs(T_idxs, B_idxs))

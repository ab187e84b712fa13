"""What follows the end of an episode: reset at once, hold until the batch ends, or be done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.types import BoolArray, Nested


class ResetNow:
    """A finished environment is reset at once: the next row of the batch is a new episode."""

    mid_batch_reset = True

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        self._envs = envs
        self.waiting: BoolArray = np.zeros(len(envs), dtype=bool)

    def begin_batch(self) -> None:
        """Nothing was put off."""

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        """Return what the agent sees after the last ``observation`` of an episode."""
        return self._envs[b].reset() if traj_done else observation

    def reset_if_needed(self, announce: Callable[[int], None]) -> None:
        """Nothing was put off."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing is remembered."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing is remembered."""


class HoldUntilBatchEnd:
    """A finished environment waits; the rest of its batch is blank, with ``done`` True.

    Where only the learner's episode ended (a lost life), the environment goes on in the next batch
    from the observation which was held back.
    """

    mid_batch_reset = False

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        self._envs = envs
        self._inputs = inputs
        self.waiting: BoolArray = np.zeros(len(envs), dtype=bool)
        self._need_reset: BoolArray = np.zeros(len(envs), dtype=bool)
        self._held = buffer_from_example(inputs.observation[0], len(envs))

    def begin_batch(self) -> None:
        """Let every environment go on."""
        for b in np.flatnonzero(self.waiting):
            self._inputs.observation[b] = self._held[b]
        self.waiting[:] = False

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        """Return what the agent sees after the last ``observation`` of an episode."""
        self.waiting[b] = True
        self._need_reset[b] = traj_done
        self._held[b] = observation
        return 0

    def reset_if_needed(self, announce: Callable[[int], None]) -> None:
        """Reset the environments whose trajectory ended; ``announce`` each before its reset."""
        for b in np.flatnonzero(self._need_reset).tolist():
            announce(b)
            self._held[b] = self._envs[b].reset()
        self._need_reset[:] = False

    def state_dict(self) -> dict[str, Any]:
        """Return who waits, for what, and with which observation."""
        return {"waiting": self.waiting, "need_reset": self._need_reset, "held": self._held}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` returned."""
        self.waiting[:] = state["waiting"]
        self._need_reset[:] = state["need_reset"]
        self._held[:] = state["held"]


class ResetUntilQuota(ResetNow):
    """Every environment completes the number of trajectories it was given, then waits for good.

    Which trajectories count is settled before the first step, so short ones are not favoured.

    Args:
        envs: the environments.
        inputs: of the agent.
        quota: number of trajectories of each environment.
    """

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs, quota: Sequence[int]) -> None:
        super().__init__(envs, inputs)
        self._left = list(quota)
        self.waiting[:] = [n == 0 for n in quota]

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        if traj_done:
            self._left[b] -= 1
            if self._left[b] == 0:
                self.waiting[b] = True
                return observation
        return super().next_observation(b, observation, traj_done)

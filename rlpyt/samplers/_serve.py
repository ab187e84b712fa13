"""The one loop in which actions are chosen for workers, and the groups of workers it serves.

A worker releases ``obs_ready`` whenever its observations are in the step buffer, and acquires
``act_ready`` before it steps: T + 1 and T times in a batch. Groups are served in turn. With
overlap, a group steps as soon as its actions are chosen, also while those of another group are;
without, it waits until the other group has stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._batch_writer import Rows, plain
from rlpyt.utils.types import NDArray, Nested


class Group:
    """Workers whose environments are acted for together.

    Args:
        agent: chooses actions.
        obs_ready: semaphores of the workers.
        act_ready: likewise.
        step_buffer_np: [B,...] of the environments of the group.
        agent_inputs: the same memory as torch tensors.
        null_action: which precedes an episode.
    """

    def __init__(
        self,
        agent: Any,
        obs_ready: Sequence[Any],
        act_ready: Sequence[Any],
        step_buffer_np: Nested,
        agent_inputs: AgentInputs,
        null_action: Nested,
    ) -> None:
        step = plain(step_buffer_np)
        self.agent = agent
        self.obs_ready, self.act_ready = obs_ready, act_ready
        self.agent_inputs = agent_inputs
        self._prev_action, self._prev_reward, self._done = step.action, step.reward, step.done
        self._null_action = null_action
        self._action, self._agent_info = Rows(step.action), Rows(step.agent_info)
        self._is_stepping = True  # Workers begin by themselves.

    def await_observations(self) -> None:
        """Wait until all workers have stepped, unless that was seen before."""
        if self._is_stepping:
            for semaphore in self.obs_ready:
                semaphore.acquire()
            self._is_stepping = False

    def choose_actions(self) -> None:
        """Write the agent's next actions into the step buffer."""
        self._forget_finished()
        action, agent_info = self.agent.step(*self.agent_inputs)
        everything = slice(None)
        # Before the action, since an agent may report the very inputs which that overwrites.
        if self._agent_info:
            self._agent_info.write(everything, agent_info)
        self._action.write(everything, action)

    def release_actions(self) -> None:
        """Let the workers step."""
        self._is_stepping = True
        for semaphore in self.act_ready:
            semaphore.release()

    def finish(self, bootstrap_value: NDArray | None = None) -> None:
        """After the last step: start finished environments anew, and record the agent's value.

        Args:
            bootstrap_value: [B], written in place.
        """
        self._forget_finished()
        if bootstrap_value is not None:
            bootstrap_value[:] = self.agent.value(*self.agent_inputs)
        self._is_stepping = True

    def require_drained(self) -> None:
        """Raise ``RuntimeError`` if workers and server do not agree on how many steps were taken.

        To be called while the workers rest.
        """
        for semaphore in (*self.obs_ready, *self.act_ready):
            if semaphore.acquire(block=False):
                raise RuntimeError(
                    "a worker and the action server have lost step: a semaphore is left raised. "
                    "If the collector or the server is your own, let a worker release obs_ready "
                    "T + 1 times and acquire act_ready T times in a batch"
                )

    def _forget_finished(self) -> None:
        for b in np.flatnonzero(self._done).tolist():
            self._prev_action[b] = self._null_action
            self._prev_reward[b] = 0
            self.agent.reset_one(b)


def serve(
    groups: Sequence[Group],
    n_steps: int,
    overlap: bool,
    stop: Callable[[], bool] | None = None,
) -> bool:
    """Choose actions for ``n_steps`` steps of every group.

    Args:
        groups: served in turn.
        n_steps: time steps.
        overlap: whether a group may step while actions for another one are chosen. To be True if
            there is one group only.
        stop: asked when all groups have taken the same number of steps; costs their overlap.

    Returns:
        Whether it stopped early. Either way the workers of all groups have stepped last, and
        nobody was released since.
    """
    held: Group | None = None
    for _ in range(n_steps):
        if stop is not None:
            if held is not None:
                held.release_actions()
                held = None
            for group in groups:
                group.await_observations()
            if stop():
                return True
        for group in groups:
            group.await_observations()
            if held is not None:
                held.release_actions()
            group.choose_actions()
            if overlap:
                group.release_actions()
            else:
                held = group
    for group in groups:
        group.await_observations()
        if held is not None:
            held.release_actions()
            held = None
    return False

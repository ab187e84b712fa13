"""Fast copies of step records into the rows of preallocated buffers.

A step loop writes the same few arrays again and again. Taking the buffers apart beforehand leaves
only the copies of numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.core.rows import InfoRows, observation_rows, rows_of
from rlpyt.utils.buffer import leaves
from rlpyt.utils.types import BoolArray, NDArray, Nested


def plain(buffer: Nested) -> Nested:
    """Return views of ``buffer`` as base-class arrays, which are faster than shared ones."""
    if isinstance(buffer, tuple):
        return buffer._make([plain(part) for part in buffer])  # type: ignore[attr-defined]
    return np.asarray(buffer) if isinstance(buffer, np.ndarray) else buffer


class NoBatch:
    """Writer that ignores the steps of a loop, where only trajectories are recorded.

    Attributes:
        bootstrap_value: [1,B], for the agent's value after the last step; None if not recorded.
    """

    bootstrap_value: NDArray | None = None

    def begin(self, inputs: AgentInputs) -> list[tuple[NDArray, NDArray]]:
        """Write the previous action and reward of the first row; later rows are views of others.

        Args:
            inputs: inputs of the agent [B,...], which a loop writes in place.

        Returns:
            The arrays [T,B,...] of the observation, each with the array [B,...] to copy from.
        """
        return []

    def add_action(self, t: int, action: Nested, agent_info: Nested) -> None:
        """Write what the agent returned at step ``t``."""

    def add_step(self, t: int, b: Any, env_info: Nested, observation: Nested) -> None:
        """Write what environment ``b``, or several of them, returned at step ``t``."""

    def add_outcome(
        self, t: int, reward: NDArray, done: BoolArray, waiting: Sequence[int] = ()
    ) -> None:
        """Write rewards [B] and ``done`` [B], and zeros elsewhere for ``waiting`` environments."""


NO_BATCH = NoBatch()


class BatchRows(NoBatch):
    """The fields of a sampler batch [T,B,...], which a step loop writes row by row.

    Args:
        samples_np: numpy record of the batch.
        n_leading: number of leading dimensions from which :meth:`add_step` chooses rows: 2 for a
            step of one environment, 1 for a step of all.
    """

    def __init__(self, samples_np: Nested, n_leading: int = 2) -> None:
        self.samples_np = samples_np
        agent, env = plain(samples_np)
        self._first, self._observation = (agent.prev_action, env.prev_reward), env.observation
        self._inputs: AgentInputs | None = None
        self._first_pairs: list[tuple[NDArray, NDArray]] = []
        self._observation_pairs: list[tuple[NDArray, NDArray]] = []
        self._action, self._agent_info = rows_of(agent.action), rows_of(agent.agent_info)
        self._reward: NDArray = env.reward
        self._done: NDArray = env.done
        has_info = bool(leaves(env.env_info))
        self._env_info = InfoRows(env.env_info, n_leading) if has_info else None
        last = env.next_observation if "next_observation" in env._fields else None
        self._next_observation = None if last is None else observation_rows(last, n_leading)
        self._blanked = leaves((agent.action, agent.agent_info, env.env_info, last))
        if "bootstrap_value" in agent._fields:
            self.bootstrap_value = agent.bootstrap_value

    def begin(self, inputs: AgentInputs) -> list[tuple[NDArray, NDArray]]:
        if inputs is not self._inputs:
            self._inputs = inputs
            present = leaves((inputs.prev_action, inputs.prev_reward))
            self._first_pairs = list(zip(leaves(self._first), present))
            self._observation_pairs = list(
                zip(leaves(self._observation), leaves(inputs.observation))
            )
        for rows, now in self._first_pairs:
            rows[0] = now
        return self._observation_pairs

    def add_action(self, t: int, action: Nested, agent_info: Nested) -> None:
        self._action[t] = action
        if self._agent_info is not None:
            self._agent_info[t] = agent_info

    def add_step(self, t: int, b: Any, env_info: Nested, observation: Nested) -> None:
        if self._env_info is not None:
            self._env_info[t, b] = env_info
        if self._next_observation is not None:
            self._next_observation[t, b] = observation

    def add_outcome(
        self, t: int, reward: NDArray, done: BoolArray, waiting: Sequence[int] = ()
    ) -> None:
        self._reward[t] = reward
        self._done[t] = done
        if waiting:
            for array in self._blanked:
                array[t, waiting] = 0

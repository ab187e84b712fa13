"""Fast copies of step records into the rows of preallocated buffers.

A step loop writes the same few arrays again and again. Taking the buffers apart beforehand leaves
only the copies of numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs
from rlpyt.utils.buffer import leaves, named_leaves
from rlpyt.utils.types import BoolArray, NDArray, Nested


def plain(buffer: Nested) -> Nested:
    """Return views of ``buffer`` as base-class arrays, which are faster than shared ones."""
    if isinstance(buffer, tuple):
        return buffer._make([plain(part) for part in buffer])  # type: ignore[attr-defined]
    return np.asarray(buffer) if isinstance(buffer, np.ndarray) else buffer


class RecordRows:
    """The rows of a record of arrays: ``rows[loc] = record`` as for one array.

    Args:
        buffer: (nested) namedarraytuple of arrays.
    """

    def __init__(self, buffer: Nested) -> None:
        self._buffer = buffer
        self._leaves: list[NDArray] = leaves(buffer)
        self._n_leaves = len(self._leaves)
        self._fitting: Any = None  # Type of the last record with these fields in this order.

    def __setitem__(self, loc: Any, record: Nested) -> None:
        """Write ``record`` of arrays, CPU tensors or numbers into ``[loc]`` of every array."""
        parts = leaves(record)
        is_known = type(record) is self._fitting
        if len(parts) != self._n_leaves or not (is_known or self._fits(record)):
            self._buffer[loc] = record  # Skips absent fields, and names a field that does not fit.
            return
        for leaf, part in zip(self._leaves, parts):
            # Assigning the tensor itself gives the same values ten times slower.
            leaf[loc] = part.numpy() if type(part) is torch.Tensor else part

    def _fits(self, record: Nested) -> bool:
        """Return whether ``record`` has the fields of the buffer, in the same order."""
        names, own = ([name for name, _ in named_leaves(x)] for x in (record, self._buffer))
        if names == own:
            self._fitting = type(record)
        return names == own


def rows_of(buffer: Nested) -> Any:
    """Return an object whose rows can be assigned, or None if ``buffer`` is empty.

    It is ``buffer`` itself if that is an array, or a :class:`RecordRows` that writes to it if it is
    a record.
    """
    if isinstance(buffer, np.ndarray):
        return buffer
    return RecordRows(buffer) if leaves(buffer) else None


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
    """

    def __init__(self, samples_np: Nested) -> None:
        self.samples_np = samples_np
        agent, env = plain(samples_np)
        self._first, self._observation = (agent.prev_action, env.prev_reward), env.observation
        self._inputs: AgentInputs | None = None
        self._first_pairs: list[tuple[NDArray, NDArray]] = []
        self._observation_pairs: list[tuple[NDArray, NDArray]] = []
        self._action, self._agent_info = rows_of(agent.action), rows_of(agent.agent_info)
        self._reward: NDArray = env.reward
        self._done: NDArray = env.done
        self._env_info = rows_of(env.env_info)
        keeps_last = "next_observation" in env._fields
        self._next_observation = rows_of(env.next_observation) if keeps_last else None
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
            self._env_info[t, b] = env_info or 0
        if self._next_observation is not None:
            self._next_observation[t, b] = observation

    def add_outcome(
        self, t: int, reward: NDArray, done: BoolArray, waiting: Sequence[int] = ()
    ) -> None:
        self._reward[t] = reward
        self._done[t] = done
        if waiting:
            for rows in (self._action, self._agent_info, self._env_info, self._next_observation):
                if rows is not None:
                    rows[t, waiting] = 0

"""Fast copies of step records into the rows of preallocated buffers.

A step loop writes the same few arrays again and again. Taking the buffers apart beforehand leaves
only the copies of numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs
from rlpyt.utils.buffer import leaves
from rlpyt.utils.types import NDArray, Nested


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

    def __setitem__(self, loc: Any, record: Nested) -> None:
        """Write ``record`` of arrays, CPU tensors or numbers into ``[loc]`` of every array."""
        parts = leaves(record)
        if len(parts) != self._n_leaves:
            self._buffer[loc] = record  # Knows absent fields, and names one that does not fit.
            return
        for leaf, part in zip(self._leaves, parts):
            # Assigning the tensor itself gives the same values ten times slower.
            leaf[loc] = part.numpy() if type(part) is torch.Tensor else part


def rows_of(buffer: Nested) -> Any:
    """Return what ``buffer`` is written through: itself if an array, None if it has no arrays."""
    if isinstance(buffer, np.ndarray):
        return buffer
    return RecordRows(buffer) if leaves(buffer) else None


class BatchRows:
    """The fields of a sampler batch [T,B,...], as a step loop writes them row by row.

    Fields that the batch does not have are None.

    Args:
        samples_np: numpy record of the batch.
    """

    def __init__(self, samples_np: Nested) -> None:
        self.samples_np = samples_np
        agent, env = plain(samples_np)
        self._first, self._observation = (agent.prev_action, env.prev_reward), env.observation
        self.action, self.agent_info = rows_of(agent.action), rows_of(agent.agent_info)
        self.reward: NDArray = env.reward
        self.done: NDArray = env.done
        self.env_info = rows_of(env.env_info)
        self.next_observation = rows_of(getattr(env, "next_observation", None))
        self.bootstrap_value: NDArray | None = getattr(agent, "bootstrap_value", None)

    def begin(self, inputs: AgentInputs) -> list[tuple[NDArray, NDArray]]:
        """Write the previous action and reward of the first row; views give those of later rows.

        Args:
            inputs: inputs of the agent [B,...], which a loop writes in place.

        Returns:
            The arrays [T,B,...] of the observation, each with the array [B,...] to copy from.
        """
        for rows, now in zip(leaves(self._first), leaves((inputs.prev_action, inputs.prev_reward))):
            rows[0] = now
        return list(zip(leaves(self._observation), leaves(inputs.observation)))

    def blank(self, t: int, waiting: list[int]) -> None:
        """Make row ``t`` of waiting environments zeros, apart from reward and done."""
        for rows in (self.action, self.agent_info, self.env_info, self.next_observation):
            if rows is not None:
                rows[t, waiting] = 0

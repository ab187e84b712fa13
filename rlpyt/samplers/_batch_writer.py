"""Copies into rows of sampler batches, with everything that can be looked up looked up once.

A step loop writes the same few arrays again and again. Taking the records apart beforehand leaves
nothing but the copies of numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs
from rlpyt.utils.types import BoolArray, NDArray, Nested


def leaves(record: Nested) -> list[Any]:
    """The arrays, tensors and numbers of a record in order, without those which are None."""
    if record is None:
        return []
    if not isinstance(record, tuple):
        return [record]
    found: list[Any] = []
    for part in record:
        if isinstance(part, tuple):
            found += leaves(part)
        elif part is not None:
            found.append(part)
    return found


def plain(buffer: Nested) -> Nested:
    """The same buffer as plain arrays: views of shared ones, which are slower, are none."""
    if isinstance(buffer, tuple):
        return buffer._make([plain(part) for part in buffer])  # type: ignore[attr-defined]
    return np.asarray(buffer) if isinstance(buffer, np.ndarray) else buffer


class Rows:
    """Writes records of one structure into a buffer of this structure.

    Args:
        buffer: of arrays, or None, or a record without arrays.
    """

    def __init__(self, buffer: Nested) -> None:
        self._buffer = buffer
        self._leaves: list[NDArray] = leaves(buffer)
        self._n_leaves = len(self._leaves)
        self._only = buffer if isinstance(buffer, np.ndarray) else None

    def __bool__(self) -> bool:
        return self._n_leaves > 0

    def write(self, loc: Any, record: Nested) -> None:
        """Write ``record`` of arrays, CPU tensors or numbers into ``[loc]`` of every array."""
        if self._only is not None:
            self._only[loc] = record
            return
        parts = leaves(record)
        if len(parts) != self._n_leaves:
            self._buffer[loc] = record  # Knows holes, and names the field which does not fit.
            return
        for leaf, part in zip(self._leaves, parts):
            # The same as for an array, but ten times faster.
            leaf[loc] = part.numpy() if type(part) is torch.Tensor else part

    def fill(self, loc: Any, value: float) -> None:
        """Write one number into ``[loc]`` of every array."""
        for leaf in self._leaves:
            leaf[loc] = value


class RowCopy:
    """Copies the same arrays [...] into rows of buffers [T,...].

    Args:
        destination: buffers.
        source: arrays of the same structure, whose present contents are copied.
    """

    def __init__(self, destination: Nested, source: Nested) -> None:
        self._pairs = list(zip(leaves(destination), leaves(source)))

    def to(self, t: int) -> None:
        """Write row ``t``."""
        for destination, source in self._pairs:
            destination[t] = source


class BatchSink:
    """Records steps in a sampler batch [T,B,...].

    Args:
        samples_np: the batch.
        inputs: of the agent, which are recorded before each step.
    """

    def __init__(self, samples_np: Nested, inputs: AgentInputs) -> None:
        samples_np = plain(samples_np)
        agent, env = samples_np.agent, samples_np.env
        self._first = RowCopy(
            (agent.prev_action, env.prev_reward), (inputs.prev_action, inputs.prev_reward)
        )
        self._observation = RowCopy(env.observation, inputs.observation)
        self._action, self._agent_info = Rows(agent.action), Rows(agent.agent_info)
        self._reward, self._done = env.reward, env.done
        self._env_info = Rows(env.env_info)
        self._next_observation = Rows(getattr(env, "next_observation", None))
        self._value = getattr(agent, "bootstrap_value", None)

    def begin(self) -> None:
        """Record what precedes the first row; later rows follow from the overlapping views."""
        self._first.to(0)

    def observe(self, t: int) -> None:
        """Record what the agent sees."""
        self._observation.to(t)

    def stepped(self, t: int, b: int, observation: Nested, env_info: Nested) -> None:
        """Record what one environment returned."""
        if self._env_info:
            try:
                self._env_info.write((t, b), env_info)
            except Exception as error:
                raise ValueError(
                    f"env_info of environment {b} does not fit its buffer ({error}): it was "
                    f"{env_info!r}; every step must return the fields, shapes and dtypes of the "
                    "first one (for a gym environment, declare them with info_example)"
                ) from error
        if self._next_observation:
            self._next_observation.write((t, b), observation)

    def acted(self, t: int, action: Nested, agent_info: Nested) -> None:
        """Record what the agent does; before stepping, which changes inputs it may report."""
        self._action.write(t, action)
        if self._agent_info:
            self._agent_info.write(t, agent_info)

    def rewarded(self, t: int, reward: NDArray, done: BoolArray) -> None:
        """Record what follows from that in all environments."""
        self._reward[t] = reward
        self._done[t] = done

    def record(
        self, t: int, action: Nested, agent_info: Nested, reward: NDArray, done: BoolArray
    ) -> None:
        """Record both."""
        self.acted(t, action, agent_info)
        self.rewarded(t, reward, done)

    def blank(self, t: int, waiting: Sequence[int]) -> None:
        """Make the row of waiting environments zeros; reward and done are recorded apart."""
        for rows in (self._action, self._agent_info, self._env_info, self._next_observation):
            rows.fill((t, waiting), 0)

    def bootstrap(self, value: Callable[[], NDArray]) -> None:
        """Record the value after the last row, if the batch has room for it."""
        if self._value is not None:
            self._value[:] = value()


class NoSink:
    """Records nothing: an evaluation keeps trajectories only."""

    def begin(self) -> None: ...

    def observe(self, t: int) -> None: ...

    def stepped(self, t: int, b: int, observation: Nested, env_info: Nested) -> None: ...

    def acted(self, t: int, action: Nested, agent_info: Nested) -> None: ...

    def rewarded(self, t: int, reward: NDArray, done: BoolArray) -> None: ...

    def record(
        self, t: int, action: Nested, agent_info: Nested, reward: NDArray, done: BoolArray
    ) -> None: ...

    def blank(self, t: int, waiting: Sequence[int]) -> None: ...

    def bootstrap(self, value: Callable[[], NDArray]) -> None: ...

"""Who acts for the environments of a step loop: an agent in this process, or a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._rows import Rows, plain
from rlpyt.samplers._sinks import BatchSink, NoSink
from rlpyt.samplers.collectors import BaseEvalCollector
from rlpyt.utils.buffer import numpify_buffer, torchify_buffer
from rlpyt.utils.types import BoolArray, Nested


class LocalActions:
    """The agent acts in this process, on torch views of the numpy inputs.

    Attributes:
        inputs: the agent's next inputs [B,...], which the loop writes in place.
        done: [B], whether the last step ended an episode of the learner.
    """

    def __init__(self, agent: Any, inputs: AgentInputs, null_action: Nested) -> None:
        self.agent = agent
        self.inputs = inputs
        self.done: BoolArray = np.zeros(len(inputs.prev_reward), dtype=bool)
        self._inputs_pyt = torchify_buffer(inputs)
        self._prev_action = Rows(inputs.prev_action)
        self._null_action = null_action

    @classmethod
    def of(cls, collector: Any, inputs: AgentInputs) -> LocalActions:
        """For the agent of ``collector``, and these inputs."""
        return cls(collector.agent, inputs, collector.envs[0].action_space.null_value())

    def choose(self) -> tuple[Nested, Nested] | None:
        """Return action [B,...], numpy, and agent_info [B,...], or None to stop."""
        action, agent_info = self.agent.step(*self._inputs_pyt)
        is_tensor = type(action) is torch.Tensor
        return action.numpy() if is_tensor else numpify_buffer(action), agent_info

    def advance(self, action: Nested, over: Sequence[int]) -> None:
        """Let the inputs follow from the step; environments ``over`` begin anew."""
        self._prev_action.write(slice(None), action)
        for b in over:
            self.inputs.prev_action[b] = self._null_action
            self.inputs.prev_reward[b] = 0
            self.agent.reset_one(b)

    def finish(self, sink: BatchSink | NoSink) -> None:
        """After the last step: record the agent's value of its present inputs."""
        sink.bootstrap(lambda: numpify_buffer(self.agent.value(*self._inputs_pyt)))


class ServedActions:
    """Actions are chosen in another process, for many workers at once, over shared memory.

    A step costs one release and one acquire of a semaphore. The server reads ``done``, and starts
    the agent anew where that is set.

    Attributes:
        inputs: observation, previous action and reward: a part of the step buffer.
        done: likewise.
    """

    def __init__(self, step_buffer_np: Nested, sync: Any, may_stop: bool = False) -> None:
        step = plain(step_buffer_np)
        self.inputs = AgentInputs(step.observation, step.action, step.reward)
        self.done: BoolArray = step.done
        self._agent_info = step.agent_info
        self._sync = sync
        self._may_stop = may_stop

    @classmethod
    def of(cls, collector: Any, inputs: AgentInputs) -> ServedActions:
        """For the step buffer of ``collector``; ``inputs`` is unused."""
        may_stop = isinstance(collector, BaseEvalCollector)
        return cls(collector.step_buffer_np, collector.sync, may_stop)

    def choose(self) -> tuple[Nested, Nested] | None:
        """Return copies of action [B,...], and agent_info [B,...], or None to stop."""
        self._sync.obs_ready.release()
        self._sync.act_ready.acquire()
        if self._may_stop and self._sync.stop_eval.value:
            return None
        # A copy, since environments may keep what they were given.
        return _copy(self.inputs.prev_action), self._agent_info

    def advance(self, action: Nested, over: Sequence[int]) -> None:
        """The server does so."""

    def finish(self, sink: BatchSink | NoSink) -> None:
        """After the last step, or instead of it: let the server look at the present inputs."""
        self._sync.obs_ready.release()


def _copy(buffer: Nested) -> Nested:
    if isinstance(buffer, tuple):
        return buffer._make([_copy(part) for part in buffer])  # type: ignore[attr-defined]
    return None if buffer is None else buffer.copy()

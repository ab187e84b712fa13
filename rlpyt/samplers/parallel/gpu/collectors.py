"""Collectors whose actions are chosen by a server, for the environments of all workers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers._batch_writer import plain
from rlpyt.samplers._step_loop import Actions, HoldUntilBatchEnd, ResetNow, StepLoop
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.eval_collectors import LoopEvalCollector
from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.types import Nested


class ServedActions(Actions):
    """Actions that another process chooses, for many workers at once, over shared memory.

    A step costs one release and one acquire of a semaphore. The server reads ``done``, resets the
    agent's inputs and state where that is set, and writes the value after the last step.
    """

    def __init__(
        self,
        collector: Any,
        inputs: AgentInputs,
        null_action: Nested,
        noise: ActingNoise | None = None,
        may_stop: bool = False,
    ) -> None:
        step = plain(collector.step_buffer_np)
        self.inputs = AgentInputs(step.observation, step.action, step.reward)
        self.done = step.done
        self._agent_info = step.agent_info
        self._sync = collector.sync
        self._may_stop = may_stop

    def choose(self) -> tuple[Nested, Nested] | None:
        self._sync.obs_ready.release()
        self._sync.act_ready.acquire()
        if self._may_stop and self._sync.stop_eval.value:
            return None
        # A copy, since environments may keep what they were given.
        return map_buffer(np.copy, self.inputs.prev_action), self._agent_info

    def finish(self, bootstrap_value: Nested = None, waiting: Sequence[int] = ()) -> None:
        self._sync.obs_ready.release()


class GpuResetCollector(LoopCollector):
    """Collector that resets a finished environment at once; its next row is a new episode."""

    mid_batch_reset = True
    kind = "served"
    actions, on_done = ServedActions, ResetNow


class GpuWaitResetCollector(LoopCollector):
    """Collector whose finished environments wait for the batch end; their other rows are blank."""

    mid_batch_reset = False
    kind = "served"
    actions, on_done = ServedActions, HoldUntilBatchEnd


class GpuEvalCollector(LoopEvalCollector):
    """Evaluation collector of a worker, until ``max_T`` or the server's ``sync.stop_eval``."""

    kind = "served evaluation"
    actions = ServedActions

    def is_enough(self, loop: StepLoop) -> bool:
        return False  # The server stops all workers at the same step.

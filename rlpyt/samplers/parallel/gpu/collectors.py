"""Collectors whose actions are chosen by a server, for the environments of all workers at once."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers._step_loop import HoldUntilBatchEnd, ResetNow, ServedActions, StepLoop
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.eval_collectors import LoopEvalCollector


class GpuResetCollector(LoopCollector):
    """A finished environment is reset at once; its next row in the batch is a new episode."""

    mid_batch_reset = True
    kind = "steps where actions are served"
    actions, on_done = ServedActions, ResetNow


class GpuWaitResetCollector(LoopCollector):
    """A finished environment waits for the end of the batch; the rest of its rows are blank."""

    mid_batch_reset = False
    kind = "steps where actions are served"
    actions, on_done = ServedActions, HoldUntilBatchEnd


class GpuEvalCollector(LoopEvalCollector):
    """Evaluates in a worker; trajectory infos go to the queue as soon as they are complete."""

    kind = "evaluates in a worker, to which actions are served"
    actions = ServedActions

    def collect_evaluation(self, itr: int) -> None:
        """Run one evaluation, until ``max_T``, or until the server sets ``sync.stop_eval``."""
        self.run_evaluation(itr)
        self.traj_infos_queue.put(None)

    def is_enough(self, loop: StepLoop) -> bool:
        return False  # The server says so, to all workers at the same step.

    def report(self, place: tuple[int, int], traj_info: Any) -> None:
        self.traj_infos_queue.put(traj_info, place)

"""Collectors whose agent acts in the process of the environments."""

from __future__ import annotations

from rlpyt.samplers._step_loop import HoldUntilBatchEnd, LocalActions, ResetNow, StepLoop
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.eval_collectors import LoopEvalCollector


class CpuResetCollector(LoopCollector):
    """A finished environment is reset at once; its next row in the batch is a new episode."""

    mid_batch_reset = True
    kind = "local"
    actions, on_done = LocalActions, ResetNow


class CpuWaitResetCollector(LoopCollector):
    """A finished environment waits for the end of the batch; the rest of its rows are blank."""

    mid_batch_reset = False
    kind = "local"
    actions, on_done = LocalActions, HoldUntilBatchEnd


class CpuEvalCollector(LoopEvalCollector):
    """Evaluates in a worker, until ``max_T``, the quota, or ``sync.stop_eval``."""

    kind = "local evaluation in a worker"
    actions = LocalActions

    def is_enough(self, loop: StepLoop) -> bool:
        return bool(self.sync.stop_eval.value) or super().is_enough(loop)

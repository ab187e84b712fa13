"""Collectors whose agent acts in the process of the environments."""

from __future__ import annotations

from rlpyt.samplers._step_loop import HoldUntilBatchEnd, LocalActions, ResetNow, StepLoop
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.eval_collectors import LoopEvalCollector


class CpuResetCollector(LoopCollector):
    """Collector that resets a finished environment at once; its next row is a new episode."""

    mid_batch_reset = True
    kind = "local"
    actions, on_done = LocalActions, ResetNow


class CpuWaitResetCollector(LoopCollector):
    """Collector whose finished environments wait for the batch end; their other rows are blank."""

    mid_batch_reset = False
    kind = "local"
    actions, on_done = LocalActions, HoldUntilBatchEnd


class CpuEvalCollector(LoopEvalCollector):
    """Evaluation collector of a worker, until ``max_T``, the quota or ``sync.stop_eval``."""

    kind = "local evaluation in a worker"
    actions = LocalActions

    def is_enough(self, loop: StepLoop) -> bool:
        return bool(self.sync.stop_eval.value) or super().is_enough(loop)

"""Collectors whose agent acts in the process of the environments."""

from __future__ import annotations

from rlpyt.samplers._collect import HoldUntilBatchEnd, LocalActions, LoopCollector, ResetNow


class CpuResetCollector(LoopCollector):
    """A finished environment is reset at once; its next row in the batch is a new episode."""

    mid_batch_reset = True
    actions, on_done = LocalActions, ResetNow


class CpuWaitResetCollector(LoopCollector):
    """A finished environment waits for the end of the batch; the rest of its rows are blank."""

    mid_batch_reset = False
    actions, on_done = LocalActions, HoldUntilBatchEnd

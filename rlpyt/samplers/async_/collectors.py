"""Collectors that write into two batches in turn: one is filled while the other is copied."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector


class DoubleBufferCollectorMixin:
    """Takes a pair of batches as ``samples_np`` and fills the one of index ``sync.db_idx``.

    It stands before any collector among the bases, and takes its arguments.

    Attributes:
        double_buffer: both batches.
        samples_np: batch that was filled last.
    """

    samples_np: Any
    sync: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.double_buffer = self.samples_np
        self.samples_np = self.double_buffer[0]

    def collect_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Fill the batch that is free."""
        self.samples_np = self.double_buffer[self.sync.db_idx.value]
        return super().collect_batch(*args, **kwargs)  # type: ignore[misc]


class DbCpuResetCollector(DoubleBufferCollectorMixin, CpuResetCollector):
    """The agent acts in this process; a finished environment is reset at once."""


class DbCpuWaitResetCollector(DoubleBufferCollectorMixin, CpuWaitResetCollector):
    """The agent acts in this process; a finished environment waits for the end of the batch."""


class DbGpuResetCollector(DoubleBufferCollectorMixin, GpuResetCollector):
    """Actions are served; a finished environment is reset at once."""


class DbGpuWaitResetCollector(DoubleBufferCollectorMixin, GpuWaitResetCollector):
    """Actions are served; a finished environment waits for the end of the batch."""

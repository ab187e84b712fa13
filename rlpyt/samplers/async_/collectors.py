"""Collectors by the names that they have in asynchronous sampling.

An asynchronous sampler gives a collector both batches as ``samples_np`` when it is made, and before
each batch sets ``samples_np`` to the one to fill. So any collector will do.
"""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector


class DoubleBufferCollectorMixin:
    """Mixin that keeps both batches; list it before any collector.

    Attributes:
        double_buffer: both batches.
    """

    samples_np: Any
    sync: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.double_buffer = self.samples_np

    def collect_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Fill the free batch, whose index is ``sync.db_idx``."""
        self.samples_np = self.double_buffer[self.sync.db_idx.value]
        return super().collect_batch(*args, **kwargs)  # type: ignore[misc]


class DbCpuResetCollector(DoubleBufferCollectorMixin, CpuResetCollector):
    """Collector whose agent acts in this process; finished environments are reset at once."""


class DbCpuWaitResetCollector(DoubleBufferCollectorMixin, CpuWaitResetCollector):
    """Collector whose agent acts in this process; finished environments wait for the batch end."""


class DbGpuResetCollector(DoubleBufferCollectorMixin, GpuResetCollector):
    """Collector with served actions; finished environments are reset at once."""


class DbGpuWaitResetCollector(DoubleBufferCollectorMixin, GpuWaitResetCollector):
    """Collector with served actions; finished environments wait for the batch end."""

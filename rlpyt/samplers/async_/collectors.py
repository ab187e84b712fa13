"""Collectors by the names that they have in asynchronous sampling.

An asynchronous sampler gives a collector both batches as ``samples_np`` when it is made, and before
each batch sets ``samples_np`` to the one to fill. So any collector will do.
"""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector


class DoubleBufferCollectorMixin:
    """Keeps both batches; it stands before any collector among the bases.

    Attributes:
        double_buffer: both batches.
    """

    samples_np: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.double_buffer = self.samples_np

    def collect_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Fill the free batch ``samples_np``."""
        return super().collect_batch(*args, **kwargs)  # type: ignore[misc]


class DbCpuResetCollector(DoubleBufferCollectorMixin, CpuResetCollector):
    """The agent acts in this process; a finished environment is reset at once."""


class DbCpuWaitResetCollector(DoubleBufferCollectorMixin, CpuWaitResetCollector):
    """The agent acts in this process; a finished environment waits for the end of the batch."""


class DbGpuResetCollector(DoubleBufferCollectorMixin, GpuResetCollector):
    """Actions are served; a finished environment is reset at once."""


class DbGpuWaitResetCollector(DoubleBufferCollectorMixin, GpuWaitResetCollector):
    """Actions are served; a finished environment waits for the end of the batch."""

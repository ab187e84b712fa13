"""How the process of a runner is prepared: CPU affinity, threads, allocator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil
import torch

from rlpyt.utils.allocator import tune_allocator
from rlpyt.utils.logging import logger


def prepare_process(affinity: Mapping[str, Any]) -> None:
    """Set CPU affinity and torch threads as ``affinity`` says, and tune the memory allocator.

    Args:
        affinity: ``master_cpus`` (used unless ``set_affinity`` is False) and
            ``master_torch_threads``, each optional.

    Raises:
        ValueError: if a CPU does not exist or may not be used by this process.
    """
    cpus = affinity.get("master_cpus")
    if cpus is not None and affinity.get("set_affinity", True):
        _pin(sorted({int(cpu) for cpu in cpus}))
    threads = affinity.get("master_torch_threads")
    if threads is not None:
        torch.set_num_threads(int(threads))
    logger.log(f"Runner master Torch threads: {torch.get_num_threads()}.")
    tune_allocator()


def _pin(cpus: list[int]) -> None:
    process = psutil.Process()
    if not hasattr(process, "cpu_affinity"):
        logger.log("Runner master CPU affinity: not available on this system.")
        return
    allowed = process.cpu_affinity()
    if not set(cpus) <= set(allowed):
        raise ValueError(
            f"affinity master_cpus is {cpus}, but this process may use only {sorted(allowed)}: "
            "name CPUs among these, or pass set_affinity=False"
        )
    process.cpu_affinity(cpus)
    logger.log(f"Runner master CPU affinity: {cpus}.")

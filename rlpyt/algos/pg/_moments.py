"""Mean and variance over the valid entries of a batch, and over all processes which train."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed

MIN_STD = 1e-6  # Keeps quotients finite where all entries are equal.


def moments(
    x: torch.Tensor, valid: torch.Tensor | None = None, device: torch.device | None = None
) -> tuple[float, float, float]:
    """Count, mean and sum of squared deviations, of the batches of all processes together.

    Args:
        x: [...] numbers.
        valid: [...] nonzero where the entry counts; None: all count.
        device: on which processes exchange, where the backend does not reach the CPU.

    Returns:
        Count, mean and sum of squared deviations; zeros without entries.
    """
    x = (x if valid is None else x[valid > 0]).double()
    local_count, total = float(x.numel()), float(x.sum())
    count, total = _sum_over_processes([local_count, total], device)
    mean = total / max(count, 1.0)
    (squares,) = _sum_over_processes([float(((x - mean) ** 2).sum())], device)
    return count, mean, squares


def normalize(
    x: torch.Tensor, valid: torch.Tensor | None = None, device: torch.device | None = None
) -> torch.Tensor:
    """Subtract the mean and divide by the standard deviation of the valid entries.

        (x - mean) / max(std, 1e-6),      std with n - 1 degrees of freedom

    Args:
        x: [...] numbers.
        valid: [...] nonzero where the entry counts; None: all count.
        device: see :func:`moments`.

    Returns:
        [...], all entries transformed.
    """
    count, mean, squares = moments(x, valid, device)
    std = math.sqrt(squares / max(count - 1, 1))
    return (x - mean) / max(std, MIN_STD)


class RunningStd:
    """Standard deviation of all data so far, merged exactly over batches and processes.

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm, eq. 2.1.
    """

    _is_held = False

    def __init__(self) -> None:
        self.count = self.mean = self.squares = 0.0

    @property
    def std(self) -> float:
        """The deviation; 1 as long as there is none."""
        std = math.sqrt(self.squares / self.count) if self.count else 1.0
        return std if std > MIN_STD else 1.0

    def update(
        self,
        x: torch.Tensor,
        valid: torch.Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Take a batch into account; arguments as of :func:`moments`."""
        if self._is_held:
            return
        count, mean, squares = moments(x, valid, device)
        total = self.count + count
        if not total:
            return
        delta = mean - self.mean
        self.mean += delta * count / total
        self.squares += squares + delta**2 * self.count * count / total
        self.count = total

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, batches are not taken into account: those of before come again."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def state_dict(self) -> dict[str, Any]:
        """The three numbers."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``."""
        self.count, self.mean, self.squares = state["count"], state["mean"], state["squares"]


def _sum_over_processes(values: list[float], device: torch.device | None) -> list[float]:
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    if distributed.get_world_size() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.double, device=device)
    distributed.all_reduce(tensor)
    summed: list[float] = tensor.tolist()
    return summed

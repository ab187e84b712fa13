"""Statistics of batches, over all processes that train together.

They are scalar tensors in double precision, so that nothing waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed

from rlpyt.utils.collections import fields_of
from rlpyt.utils.types import Nested

MIN_STD = 1e-6  # Keeps quotients finite where all entries are equal.


def moments(
    x: torch.Tensor, valid: torch.Tensor | None = None, device: torch.device | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return count, mean and sum of squared deviations over the batches of all processes.

    Args:
        x: numbers [...].
        valid: mask [...], nonzero where the entry counts; None to count all.
        device: device for the exchange between processes, since NCCL needs a GPU.

    Returns:
        Count, mean and sum of squared deviations; zeros without entries.
    """
    x = x.double()
    counts = None if valid is None else valid > 0
    count = x.new_full((), x.numel()) if counts is None else counts.sum().to(x)
    count, total = _sum_over_processes(count, _sum_where(x, counts), device=device)
    mean = total / count.clamp(min=1)
    (squares,) = _sum_over_processes(_sum_where((x - mean) ** 2, counts), device=device)
    return count, mean, squares


def normalize(
    x: torch.Tensor, valid: torch.Tensor | None = None, device: torch.device | None = None
) -> torch.Tensor:
    """Subtract the mean and divide by the standard deviation of the valid entries.

        (x - mean) / max(std, 1e-6),      std with n - 1 degrees of freedom

    Args:
        x: numbers [...].
        valid: mask [...], nonzero where the entry counts; None to count all.
        device: device of the exchange, see :func:`moments`.

    Returns:
        The transformed numbers [...], including invalid entries.
    """
    count, mean, squares = moments(x, valid, device)
    std = (squares / (count - 1).clamp(min=1)).sqrt()
    return (x - mean) / std.clamp(min=MIN_STD)


def value_statistics(
    agent_info: Nested, return_: torch.Tensor, valid: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """Return the share of the returns' variance that the recorded values explain.

        explainedVariance = 1 - Var(R - V) / Var(R)

    It is at most 1, 0 for constant values, and NaN for constant returns. Only the batch of this
    process counts.

    Args:
        agent_info: record [...]; without a field ``value`` in the shape of the returns, the result
            is empty.
        return_: returns R [...].
        valid: mask [...], nonzero where the entry counts; None to count all.
    """
    if "value" not in fields_of(agent_info):
        return {}
    value = agent_info.value
    tensors = isinstance(value, torch.Tensor) and isinstance(return_, torch.Tensor)
    if not tensors or value.shape != return_.shape:
        return {}
    error = return_ - value
    if valid is None:
        unexplained, variance = error.var(correction=0), return_.var(correction=0)
    else:
        unexplained = _mean_where((error - _mean_where(error, valid)) ** 2, valid)
        variance = _mean_where((return_ - _mean_where(return_, valid)) ** 2, valid)
    return {"explainedVariance": 1 - unexplained / variance.where(variance > 0, math.nan)}


def ratio_statistics(
    ratios: list[tuple[torch.Tensor, torch.Tensor | None]], ratio_clip: float
) -> dict[str, torch.Tensor]:
    """Return the mean distance, over all updates, between the new policy and the one that acted.

        approxKL     = mean of (ratio - 1) - log ratio
        clipFraction = mean of 1 if |ratio - 1| > c else 0

    Args:
        ratios: for each update, the ratios [...] and a mask [...] of the entries that count, or
            None.
        ratio_clip: c.

    Source: Schulman 2020, Approximating KL divergence (joschu.net/blog), estimator k3.
    """
    if not ratios:
        return {}
    excess, valid = _joined(ratios)
    return {
        "approxKL": _mean_where(excess - excess.log1p(), valid),
        "clipFraction": _mean_where((excess.abs() > ratio_clip).to(excess), valid),
    }


def approximate_kl(
    ratios: list[tuple[torch.Tensor, torch.Tensor | None]], device: torch.device | None = None
) -> torch.Tensor:
    """Return ``approxKL`` of :func:`ratio_statistics` over the batches of all processes.

    Args:
        ratios: ratios and masks, as for :func:`ratio_statistics`.
        device: device of the exchange, see :func:`moments`.
    """
    excess, valid = _joined(ratios)
    return moments(excess - excess.log1p(), valid, device)[1]


def _joined(
    ratios: list[tuple[torch.Tensor, torch.Tensor | None]],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return ratio - 1 and the mask of all updates, as vectors."""
    excess = torch.cat([ratio.reshape(-1) for ratio, _ in ratios]) - 1
    masks = [valid.reshape(-1) for _, valid in ratios if valid is not None]
    return excess, torch.cat(masks) if masks else None


class RunningStd:
    """Standard deviation of all data so far, merged exactly over batches and processes.

    Args:
        device: device of the data; None for the CPU.

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm, eq. 2.1.
    """

    _is_held = False

    def __init__(self, device: torch.device | None = None) -> None:
        # Three tensors: with one tensor under three names, a compiled graph would rely on that.
        self.count, self.mean, self.squares = (
            torch.zeros((), dtype=torch.double, device=device) for _ in range(3)
        )

    @property
    def std(self) -> torch.Tensor:
        """Standard deviation, a scalar; 1 before the first batch."""
        std = (self.squares / self.count.clamp(min=1)).sqrt()
        return torch.where(std > MIN_STD, std, 1.0)

    def update(
        self,
        x: torch.Tensor,
        valid: torch.Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Include a batch; arguments as for :func:`moments`."""
        if self._is_held:
            return
        count, mean, squares = moments(x, valid, device)
        total = self.count + count
        divisor = total.clamp(min=1)
        delta = mean - self.mean
        self.mean += delta * count / divisor
        self.squares += squares + delta**2 * self.count * count / divisor
        self.count += count

    @contextmanager
    def held(self) -> Iterator[None]:
        """Ignore batches within this context, where earlier ones are repeated."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def state_dict(self) -> dict[str, float]:
        """Return the three numbers."""
        return {name: float(getattr(self, name)) for name in ("count", "mean", "squares")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        for name in ("count", "mean", "squares"):
            getattr(self, name).fill_(state[name])


def _sum_where(x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return x.sum() if mask is None else torch.where(mask, x, 0).sum()


def _mean_where(x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    return x.mean() if valid is None else _sum_where(x, valid > 0) / (valid > 0).sum()


def _sum_over_processes(
    *values: torch.Tensor, device: torch.device | None
) -> tuple[torch.Tensor, ...]:
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    if distributed.get_world_size() == 1:
        return values
    tensor = torch.stack(values).to(device)
    distributed.all_reduce(tensor)
    return tuple(tensor.to(values[0].device))

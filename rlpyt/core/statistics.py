"""Running statistics of environments, such as the normalization of observations in a wrapper.

The policy is trained on what they make of observations, so they travel with its snapshot, and are
frozen wherever it acts outside of training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from rlpyt.utils.buffer import as_numpy

MOMENTS = ("mean", "var", "count")

#: Mean, variance and count, arrays or tensors, of each of the running statistics by name.
Statistics = Mapping[str, Mapping[str, Any]]


@runtime_checkable
class HasStatistics(Protocol):
    """An environment with running statistics."""

    def statistics(self) -> Statistics:
        """Return the statistics so far; empty without any."""

    def use_statistics(self, statistics: Statistics, frozen: bool = True) -> None:
        """Continue with ``statistics``; if ``frozen``, further observations do not change them."""


def statistics_of(env: Any) -> Statistics:
    """Return the running statistics of an environment; empty if it has none."""
    return env.statistics() if isinstance(env, HasStatistics) else {}


def continue_statistics(env: Any, statistics: Statistics) -> None:
    """Let an environment count on from ``statistics``, if it has some."""
    if statistics and isinstance(env, HasStatistics):
        env.use_statistics(statistics, frozen=False)


def merged(parts: Iterable[Statistics]) -> dict[str, dict[str, torch.Tensor]]:
    """Merge the statistics of several environments, by count.

    With n_i observations of mean m_i and variance v_i::

        n = sum_i n_i,      m = sum_i n_i m_i / n,      v = sum_i n_i (v_i + (m_i - m)^2) / n

    Args:
        parts: statistics of each environment.

    Returns:
        Mean, variance and count, float64, of every name.

    Source: Chan, Golub and LeVeque 1979, Stanford STAN-CS-79-773.
    """
    by_name: dict[str, list[tuple[Any, ...]]] = {}
    for part in parts:
        for name, moments in part.items():
            by_name.setdefault(name, []).append(
                tuple(np.asarray(as_numpy(moments[key]), np.float64) for key in MOMENTS)
            )
    return {name: dict(zip(MOMENTS, _merge(rows))) for name, rows in by_name.items()}


def _merge(rows: list[tuple[Any, ...]]) -> list[torch.Tensor]:
    if len(rows) == 1:  # Exactly, without rounding.
        return [torch.tensor(x) for x in rows[0]]
    n = sum(count for *_, count in rows)
    mean = sum(count * mean for mean, _, count in rows) / n
    var = sum(count * (var + (m - mean) ** 2) for m, var, count in rows) / n
    return [torch.as_tensor(x) for x in (mean, var, n)]

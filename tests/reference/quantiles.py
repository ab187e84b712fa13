"""Naive twin of the quantile Huber loss: one sample at a time, plain numbers."""

from __future__ import annotations

from collections.abc import Sequence


def quantile_huber(
    quantiles: Sequence[float], tau: Sequence[float], targets: Sequence[float], kappa: float
) -> tuple[float, float]:
    """Loss of one sample, and the absolute difference of the means, at most ``kappa``."""
    loss = 0.0
    for theta, fraction in zip(quantiles, tau, strict=True):
        for y in targets:
            u = y - theta
            huber = u * u / 2 if abs(u) <= kappa else kappa * (abs(u) - kappa / 2)
            weight = 1 - fraction if u < 0 else fraction
            loss += weight * huber / kappa / len(targets)
    error = sum(targets) / len(targets) - sum(quantiles) / len(quantiles)
    return loss, min(abs(error), kappa)

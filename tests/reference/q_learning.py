"""Naive twins of the losses of value-based algorithms: one sample at a time, plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence


def td_loss(
    q: float,
    return_: float,
    done_n: bool,
    target_qs: Sequence[float],
    choosing_qs: Sequence[float],
    discount: float,
    n_step: int,
    delta_clip: float | None,
) -> tuple[float, float]:
    """Loss and absolute temporal difference of one sample."""
    best = max(range(len(choosing_qs)), key=lambda action: choosing_qs[action])
    y = return_
    if not done_n:
        y += math.prod([discount] * n_step) * target_qs[best]
    error = abs(y - q)
    if delta_clip is None or error <= delta_clip:
        return error * error / 2, error
    return delta_clip * (error - delta_clip / 2), delta_clip


def project(
    return_: float, done_n: bool, p: Sequence[float], z: Sequence[float], discount_n: float
) -> list[float]:
    """Algorithm 1 of Bellemare et al. 2017: split each moved atom between its two neighbours."""
    dz = z[1] - z[0]
    projected = [0.0] * len(z)
    for p_j, z_j in zip(p, z, strict=True):
        y = return_ + (0 if done_n else discount_n * z_j)
        b = (min(max(y, z[0]), z[-1]) - z[0]) / dz
        lower = min(math.floor(b), len(z) - 1)
        upper = min(lower + 1, len(z) - 1)
        share = b - lower
        projected[lower] += p_j * (1 - share)
        projected[upper] += p_j * share
    return projected


def cross_entropy(p: Sequence[float], target_p: Sequence[float]) -> float:
    """Of one sample, with probabilities of at least the smallest normal float32."""
    return -sum(t * math.log(max(q, 2**-126)) for q, t in zip(p, target_p, strict=True) if t)


def divergence(p: Sequence[float], target_p: Sequence[float]) -> float:
    """Kullback-Leibler divergence of one sample, in [1e-6, 1e6]."""
    total = cross_entropy(p, target_p) + sum(t * math.log(t) for t in target_p if t)
    return min(max(total, 1e-6), 1e6)


def munchausen_target(
    reward: float,
    done: bool,
    action: int,
    q: Sequence[float],
    next_q: Sequence[float],
    next_values: Sequence[float],
    discount: float,
    alpha: float,
    entropy_tau: float,
    clip: float,
) -> float:
    """Target of one sample; policies are of ``q`` and ``next_q``, ``next_values`` are averaged."""

    def policy(values: Sequence[float]) -> list[float]:
        weights = [math.exp((value - max(values)) / entropy_tau) for value in values]
        return [weight / sum(weights) for weight in weights]

    y = reward + alpha * min(max(entropy_tau * math.log(policy(q)[action]), clip), 0)
    if not done:
        for p, value in zip(policy(next_q), next_values, strict=True):
            y += discount * p * (value - entropy_tau * math.log(p))
    return y

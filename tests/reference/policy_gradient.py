"""Naive twins of policy gradient targets and losses: one number at a time, plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence


def normalized(numbers: Sequence[float], among: Sequence[float] | None = None) -> list[float]:
    """Numbers by mean and standard deviation (n - 1) of ``among``, or of themselves."""
    among = numbers if among is None else among
    mean = sum(among) / len(among)
    variance = sum((x - mean) ** 2 for x in among) / max(len(among) - 1, 1)
    return [(x - mean) / max(math.sqrt(variance), 1e-6) for x in numbers]


def surrogate(ratio: float, advantage: float, clip: float) -> float:
    """Loss of one action: the worse of the plain and the clipped one."""
    clipped = min(max(ratio, 1 - clip), 1 + clip)
    return max(-ratio * advantage, -clipped * advantage)


def naive_gae(
    reward: Sequence[float],
    value: Sequence[float],
    done: Sequence[float],
    bootstrap_value: float,
    discount: float,
    gae_lambda: float,
) -> list[float]:
    """One trajectory, forwards: every advantage as its own explicit sum of TD errors."""
    T = len(reward)
    values = [*value, bootstrap_value]
    delta = [
        reward[t] + discount * (0.0 if done[t] else values[t + 1]) - value[t] for t in range(T)
    ]
    advantages = []
    for t in range(T):
        total = 0.0
        for k in range(t, T):
            total += (discount * gae_lambda) ** (k - t) * delta[k]
            if done[k]:
                break
        advantages.append(total)
    return advantages


def naive_vtrace(
    ratio: Sequence[float],
    reward: Sequence[float],
    value: Sequence[float],
    done: Sequence[float],
    bootstrap_value: float,
    discount: float,
    rho_bar: float,
    c_bar: float,
) -> tuple[list[float], list[float]]:
    """One trajectory, forwards: equation 1 of the paper, and the advantages of section 4.2."""
    T = len(reward)
    values = [*value, bootstrap_value]
    targets = []
    for s in range(T):
        target, weight = value[s], 1.0
        for t in range(s, T):
            following = 0.0 if done[t] else discount * values[t + 1]
            target += weight * min(rho_bar, ratio[t]) * (reward[t] + following - value[t])
            weight *= discount * min(c_bar, ratio[t])
            if done[t]:
                break
        targets.append(target)
    nexts = [*targets[1:], bootstrap_value]
    return [
        min(rho_bar, ratio[t]) * (reward[t] + (0.0 if done[t] else discount * nexts[t]) - value[t])
        for t in range(T)
    ], targets

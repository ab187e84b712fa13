"""Naive twins of policy gradient targets and losses: one number at a time, plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence


def returns(
    rewards: Sequence[float],
    dones: Sequence[bool],
    bootstrap_value: float,
    discount: float,
    values_where_cut: Sequence[float | None],
) -> list[float]:
    """Discounted returns of one environment; an episode that was cut goes on with a value."""
    following, result = bootstrap_value, []
    steps = list(zip(rewards, dones, values_where_cut, strict=True))
    for reward, done, cut_value in reversed(steps):
        if done:
            following = 0.0 if cut_value is None else cut_value
        following = reward + discount * following
        result.append(following)
    return result[::-1]


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


def mean(numbers: Sequence[float], valid: Sequence[float]) -> float:
    """Of those where ``valid`` is 1."""
    kept = [x for x, v in zip(numbers, valid, strict=True) if v]
    return sum(kept) / len(kept)


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

"""Statistics of scores from few runs, with bootstrap intervals.

Scores are given as one array for each task, [N,...]: the N runs of the task come first, further
dimensions are independent of each other, such as the points of a curve. Tasks may differ in N.

Source: Agarwal et al. 2021, arXiv:2108.13264.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rlpyt.utils.types import NDArray

Statistic = Callable[[Sequence[NDArray]], NDArray]


class Estimate(NamedTuple):
    """Point estimate with the limits of its interval; the limits are NaN without an interval."""

    value: NDArray
    low: NDArray
    high: NDArray


def interquartile_mean(scores: Sequence[NDArray]) -> NDArray:
    """Return the mean of all runs without the lowest and the highest quarter.

    IQM = 1/(N - 2k) sum_i x_i for i = k+1, ..., N-k, with x_1 <= ... <= x_N and k = floor(N / 4).

    With fewer than four runs it is their mean.

    Args:
        scores: [N,...] scores of each task.

    Returns:
        [...], NaN where a score is NaN.

    Source: Agarwal et al. 2021, arXiv:2108.13264, section 4.3.
    """
    ordered = np.sort(np.concatenate(scores), axis=0)  # NaN comes last.
    n = len(ordered)
    mean = ordered[n // 4 : n - n // 4].mean(axis=0)
    return np.where(np.isnan(ordered[-1]), np.nan, mean)


def mean(scores: Sequence[NDArray]) -> NDArray:
    """Return the mean of all runs."""
    return np.asarray(np.concatenate(scores).mean(axis=0))


def median(scores: Sequence[NDArray]) -> NDArray:
    """Return the median of all runs."""
    return np.asarray(np.median(np.concatenate(scores), axis=0))


def median_of_tasks(scores: Sequence[NDArray]) -> NDArray:
    """Return the median over tasks of the mean of each task's runs."""
    return np.asarray(np.median([task.mean(axis=0) for task in scores], axis=0))


def optimality_gap(scores: Sequence[NDArray], aim: float = 1.0) -> NDArray:
    """Return the mean amount by which runs fail to reach a score.

    Gap = 1/M sum_m 1/N_m sum_n max(0, aim - x_mn), for M tasks.

    Args:
        scores: [N,...] scores of each task, on one scale.
        aim: score above which a run gains nothing.

    Returns:
        [...], 0 at best.

    Source: Agarwal et al. 2021, arXiv:2108.13264, section 4.3.
    """
    gaps = [np.maximum(0, aim - task).mean(axis=0) for task in scores]
    return np.asarray(np.mean(gaps, axis=0))


STATISTICS: dict[str, Statistic] = {"iqm": interquartile_mean, "mean": mean, "median": median}


def performance_profile(scores: Sequence[NDArray], thresholds: NDArray) -> NDArray:
    """Return the fraction of runs that score more than each threshold.

    F(tau) = 1/M sum_m 1/N_m sum_n [x_mn > tau], for M tasks.

    Args:
        scores: [N] scores of each task, on one scale.
        thresholds: [P] scores to exceed.

    Returns:
        [P] fractions.

    Source: Agarwal et al. 2021, arXiv:2108.13264, section 4.2.
    """
    fractions = [np.mean(task[:, None] > thresholds, axis=0) for task in scores]
    return np.asarray(np.mean(fractions, axis=0))


def probability_of_improvement(scores: Sequence[NDArray], baseline: Sequence[NDArray]) -> NDArray:
    """Return the probability that a run outscores a baseline run on the same task.

    P = 1/M sum_m 1/(N_m K_m) sum_n sum_k S(x_mn, y_mk) with S = 1 if x > y, 1/2 if x = y, else 0:
    the Mann-Whitney statistic, averaged over M tasks chosen with equal probability.

    Args:
        scores: [N] scores of each task.
        baseline: [K] scores of the baseline, for the same tasks in the same order.

    Returns:
        One probability.

    Raises:
        ValueError: if the numbers of tasks differ.

    Source: Agarwal et al. 2021, arXiv:2108.13264, section 4.3.
    """
    if len(scores) != len(baseline):
        raise ValueError(
            f"scores has {len(scores)} tasks and baseline has {len(baseline)}: give both the same "
            "tasks"
        )
    wins = [np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y)) for x, y in zip(scores, baseline)]
    return np.asarray(np.mean(wins))


def estimate(
    statistic: Statistic,
    scores: Sequence[NDArray],
    confidence: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """Return a statistic of the scores, with its stratified bootstrap interval.

    Every resample draws as many runs of each task, with replacement, as the task has; the limits
    are percentiles of the statistic over all resamples. There is no interval if a task has a
    single run, which shows no spread.

    Args:
        statistic: function of the scores, such as :func:`interquartile_mean`.
        scores: [N,...] scores of each task, or of each task and method.
        confidence: probability with which the interval should contain the true value, in (0, 1).
            Intervals of few runs are too narrow.
        n_resamples: number of resamples.
        seed: seed of the drawing.

    Raises:
        ValueError: if there are no scores, or the confidence is not between 0 and 1.

    Source: Agarwal et al. 2021, arXiv:2108.13264, section 4.1.
    """
    if not len(scores) or not all(len(task) for task in scores):
        raise ValueError("scores is empty, or has a task without runs: leave such tasks out")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1, such as 0.95")
    value = np.asarray(statistic(scores))
    if min(len(task) for task in scores) < 2:
        none = np.full(value.shape, np.nan)
        return Estimate(value, none, none)
    generator = np.random.default_rng(seed)
    resampled = [
        statistic([task[generator.integers(len(task), size=len(task))] for task in scores])
        for _ in range(n_resamples)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    return Estimate(value, low, high)

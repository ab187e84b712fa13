from itertools import product

import numpy as np
import pytest

from rlpyt.experiments.results.statistics import (
    estimate,
    interquartile_mean,
    mean,
    median,
    median_of_tasks,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)


def arrays(*tasks):
    return [np.array(task, dtype=float) for task in tasks]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[7]], 7),
        ([[1, 2, 6]], 3),  # Fewer than four: nothing is cut off.
        ([[1, 2, 3, 100]], 2.5),
        ([[9, 1, 2, 3, 100]], 14 / 3),
        ([[100, 1, 2, 3, 4, 5, 6, -50]], 3.5),
        ([[100, 1, 2, 3], [4, 5, 6, -50]], 3.5),  # The tasks are pooled.
        ([[100, 1, 2], [3, 4, 5, 6, -50]], 3.5),
    ],
)
def test_interquartile_mean(scores, expected):
    assert interquartile_mean(arrays(*scores)) == pytest.approx(expected)


def test_points_of_curves_are_independent():
    curves = np.array([[1.0, 40, 5], [2, 30, 5], [3, 20, 5], [100, 10, np.nan]])
    np.testing.assert_array_equal(interquartile_mean([curves]), [2.5, 25, np.nan])
    np.testing.assert_array_equal(median([curves]), [2.5, 25, np.nan])
    np.testing.assert_array_equal(mean([curves]), [26.5, 25, np.nan])


def test_performance_profile():
    scores = arrays([1, 3], [2])
    found = performance_profile(scores, np.array([0, 1, 2, 2.5, 3]))
    assert found.tolist() == [1, 0.75, 0.25, 0.25, 0]  # Both tasks weigh the same.


def test_statistics_in_which_tasks_weigh_the_same():
    scores = arrays([0, 0.5], [2, 0.8, 0.8], [0.1])
    assert median_of_tasks(scores) == 0.25  # Of 0.25, 1.2 and 0.1.
    assert optimality_gap(scores) == pytest.approx((0.75 + 0.4 / 3 + 0.9) / 3)
    assert optimality_gap(scores, aim=0) == 0


def test_probability_of_improvement():
    x, y = arrays([1, 3], [5]), arrays([2, 3], [1, 0, 4])
    assert probability_of_improvement(x[:1], y[:1]) == 1.5 / 4  # Of 4 pairs one win and one tie.
    assert probability_of_improvement(x, y) == (0.375 + 1) / 2
    assert probability_of_improvement(y, x) == (0.625 + 0) / 2
    with pytest.raises(ValueError, match="scores has 2 tasks and baseline has 1"):
        probability_of_improvement(x, y[:1])


@pytest.mark.parametrize(("confidence", "limits"), [(0.9, (0, 1)), (0.4, (0.5, 0.5))])
def test_interval_of_two_runs(confidence, limits):
    """Resamples of {0, 1} have the mean 0, 1/2, 1 with probability 1/4, 1/2, 1/4."""
    found = estimate(mean, arrays([0, 1]), confidence)
    assert found.value == 0.5
    assert (found.low, found.high) == limits


def test_interval_is_that_of_all_resamples():
    scores = [0.0, 1, 5, 2]
    everything = [interquartile_mean(arrays(drawn)) for drawn in product(scores, repeat=4)]
    low, high = np.quantile(everything, [0.1, 0.9])
    found = estimate(interquartile_mean, arrays(scores), 0.8, n_resamples=4000)
    assert found == (1.5, low, high) == (1.5, 0.5, 3.5)


def test_resamples_keep_the_number_of_runs_of_each_task():
    found = estimate(mean, arrays([0, 0], [1, 1]))
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5)


def test_runs_are_drawn_as_whole_curves():
    """A sum of a curve and its mirror image is 1 in every resample."""
    curves = np.array([[0.0, 1], [1, 0], [0.3, 0.7]])
    found = estimate(lambda scores: mean(scores).sum(), [curves])
    np.testing.assert_allclose([found.low, found.high], 1)


def test_no_interval_of_a_single_run():
    for scores in (arrays([3]), arrays([3, 4, 5], [3])):
        found = estimate(mean, scores)
        assert np.isfinite(found.value)
        assert np.isnan([found.low, found.high]).all()


def test_refusals():
    with pytest.raises(ValueError, match="a task without runs"):
        estimate(mean, arrays([1, 2], []))
    with pytest.raises(ValueError, match="scores is empty"):
        estimate(mean, [])
    with pytest.raises(ValueError, match="confidence=95 must lie between 0 and 1"):
        estimate(mean, arrays([1, 2]), confidence=95)


def test_intervals_cover_the_true_value():
    generator = np.random.default_rng(0)
    n_simulations, hits = 250, 0
    for seed in range(n_simulations):
        # Tasks of different spread, around a true interquartile mean of 2.
        scores = [generator.normal(2, spread, size=10) for spread in (0.5, 1, 1)]
        found = estimate(interquartile_mean, scores, 0.9, n_resamples=150, seed=seed)
        hits += bool(found.low <= 2 <= found.high)
    # In the long run 88%: intervals of few runs are a bit narrow. Three standard deviations are 6%.
    assert 0.82 < hits / n_simulations < 0.94

"""The sequential test of two settings: false alarms, seeds that it saves, and its verdicts."""

import numpy as np
import pytest

from rlpyt.experiments.results.sequential import SequentialTest, simulated_shares
from rlpyt.experiments.results.statistics import probability_of_improvement
from tests.selection import FULL

N = 20
# Skewed, heavy-tailed, and with many ties.
DISTRIBUTIONS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 2, shape),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "ties": lambda rng, shape: rng.integers(0, 3, shape).astype(float),
}


@pytest.fixture(scope="module")
def test():
    return SequentialTest(0.95, N)


def run(test, ours, theirs):
    """Return the verdict, and the number of seeds after which it came."""
    for n in range(1, len(ours) + 1):
        verdict = test.verdict(ours[:n], theirs[:n])
        if verdict is not None:
            return verdict, n
    raise AssertionError("no verdict")


def test_shares_are_those_of_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1, 5), dtype=np.float32)
    (shares,) = simulated_shares(5, 1)
    naive = [np.mean(x[0, :n, None] > y[0, None, :n]) for n in range(1, 6)]
    assert shares == pytest.approx(naive)


def test_few_seeds_never_decide(test):
    assert np.isinf(test.critical[:4]).all()
    assert (test.critical[4:] <= 0.5).all()
    with pytest.raises(ValueError, match="allow more"):
        SequentialTest(0.95, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        SequentialTest(95, N)


def test_verdicts(test):
    high, low = np.arange(N) + 100.0, np.arange(N) * 1.0
    assert run(test, high, low) == ("better", 5)
    assert run(test, low, high) == ("worse", 5)
    same = np.full(N, 500.0)
    verdict, n = run(test, same, same)
    assert verdict == "undecided"
    assert n < N  # Later seeds could not have changed it.


def test_it_ends_undecided_only_when_no_further_seeds_can_decide(test):
    rng = np.random.default_rng(1)
    ours, theirs = rng.standard_normal((2, N))
    verdict, n = run(test, ours, theirs)
    assert verdict == "undecided"
    for best in (1e9, -1e9):  # The most that the remaining seeds can do.
        later = np.concatenate([ours[:n], np.full(N - n, best)])
        others = np.concatenate([theirs[:n], np.full(N - n, -best)])
        decisions = [
            abs(probability_of_improvement([later[:m]], [others[:m]]) - 0.5)
            for m in range(n, N + 1)
        ]
        assert (np.array(decisions) < test.critical[n - 1 :]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS if FULL else ["cauchy", "ties"])
def test_false_alarms_are_as_rare_as_stated(name, test):
    rng = np.random.default_rng(7)
    n_runs = 3000
    pairs = DISTRIBUTIONS[name](rng, (n_runs, 2, N))
    alarms = sum(run(test, *pair)[0] != "undecided" for pair in pairs) / n_runs
    # Three standard errors above 5%.
    assert alarms < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_runs)
    if name != "ties":
        assert alarms > 0.03


@pytest.mark.slow
def test_differences_need_fewer_seeds_than_a_fixed_number(test):
    rng = np.random.default_rng(8)
    found = {}
    for shift in (1, 2, 3):
        pairs = rng.standard_normal((500, 2, N)) + np.array([[[shift], [0.0]]])
        verdicts = [run(test, *pair) for pair in pairs]
        right = np.mean([verdict == "better" for verdict, _ in verdicts])
        found[shift] = right, np.mean([n for _, n in verdicts])
    assert found[1] == pytest.approx((0.74, 13.1), rel=0.1)
    assert found[2] == pytest.approx((1.0, 6.8), rel=0.05)
    assert found[3] == pytest.approx((1.0, 5.3), rel=0.05)

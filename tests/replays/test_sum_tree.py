"""The sum tree against a dictionary and a cumulative sum."""

import numpy as np
import pytest

from rlpyt.replays._tree import LeafTree
from rlpyt.replays.sum_tree import SumTree
from tests.reference.naive_tree import NaiveTree


def on_rows(tree):
    return np.flatnonzero(tree.priorities[:, 0]).tolist()


def assert_sums_exact(tree):
    """Every node equals the sum of its two children, to the last bit."""
    nodes = tree.tree
    k = np.arange(tree.low_idx)
    np.testing.assert_array_equal(nodes[k], nodes[2 * k + 1] + nodes[2 * k + 2])
    assert not nodes[tree.low_idx + tree.size :].any()


def random_pair(rng):
    b, f = int(rng.integers(0, 4)), int(rng.integers(0, 4))
    T, B, shift = b + f + int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(b + 1))
    enable = bool(rng.integers(2))
    tree = SumTree(T, B, b, f, 1.5, enable_input_priorities=enable, input_priority_shift=shift)
    return tree, NaiveTree(T, B, b, f, 1.5, shift), enable


def advance_both(rng, tree, twin, enable):
    n = int(rng.integers(0, tree.T + 1))
    shape = [(), (tree.B,), (n, tree.B)][rng.integers(3)]
    priorities = rng.random(shape) + 0.1 if enable and rng.random() < 0.7 else None
    tree.advance(n, priorities)
    twin.advance(n, priorities)


def sample_and_update_both(rng, tree, twin):
    (T_idxs, B_idxs), priorities = tree.sample(7)
    np.testing.assert_array_equal(twin.array()[T_idxs, B_idxs], priorities)
    assert (priorities > 0).all()
    n_rows_sampled = twin.n_rows
    for n in rng.integers(0, tree.T + 1, rng.integers(0, 3)):
        # Entries may be switched off, or their rows written anew, between a sample and its update.
        tree.advance(int(n))
        twin.advance(int(n))
    values = rng.random(7) * 10.0 ** rng.integers(-8, 8, 7)
    tree.update_batch_priorities(values)
    twin.update(T_idxs, B_idxs, values, n_rows_sampled)


@pytest.mark.parametrize("seed", range(3))
def test_equals_naive_tree(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        tree, twin, enable = random_pair(rng)
        for _ in range(15):
            advance_both(rng, tree, twin, enable)
            if tree.tree[0] > 0:
                sample_and_update_both(rng, tree, twin)
            np.testing.assert_array_equal(tree.priorities, twin.array())
            assert_sums_exact(tree)


@pytest.mark.parametrize("seed", range(3))
def test_find_equals_cumulative_sum(seed):
    """Whole-number priorities and 2^-20 grid: no rounding, so the two agree exactly."""
    rng = np.random.default_rng(seed)
    tree, twin, _ = random_pair(rng)
    tree.advance(tree.T)
    twin.advance(tree.T)
    (T_idxs, B_idxs), _ = tree.sample(30)
    values = rng.integers(0, 50, 30).astype(float)
    tree.update_batch_priorities(values)
    twin.update(T_idxs, B_idxs, values)
    if tree.tree[0] > 0:
        u = rng.integers(0, 2**20, 500) / 2**20
        np.testing.assert_array_equal(tree.find(u) - tree.low_idx, twin.find(u))


def chi_square(counts, probabilities):
    expected = probabilities * counts.sum()
    return ((counts - expected) ** 2 / expected).sum()


def is_likely(counts, probabilities):
    """Chi-square at most its mean plus five standard deviations."""
    df = len(counts) - 1
    return chi_square(counts, probabilities) < df + 5 * np.sqrt(2 * df)


def weighted_tree(weights):
    """A tree whose valid rows 1, 2, ... have these weights."""
    tree = SumTree(len(weights) + 2, 1, 1, 1, enable_input_priorities=True)
    tree.advance(len(weights) + 2, priorities=np.array([[1.0], *[[w] for w in weights], [1.0]]))
    tree.rng = np.random.default_rng(11)
    np.testing.assert_array_equal(tree.priorities[1:-1, 0], weights)
    return tree


def test_frequencies_are_in_proportion_to_priorities():
    weights = np.array([0.5, 1, 2, 4, 3, 0.1, 7])
    (T_idxs, _), _ = weighted_tree(weights).sample(50_000)
    assert is_likely(np.bincount(T_idxs, minlength=9)[1:-1], weights / weights.sum())


def test_unique_draws_follow_each_other_without_replacement():
    """They used to be sorted and cut, which favoured low indexes."""
    weights = np.array([1.0, 2, 3, 4])
    tree = weighted_tree(weights)
    counts = np.zeros((4, 4))
    for _ in range(4000):
        (T_idxs, _), _ = tree.sample(2, unique=True)
        counts[T_idxs[0] - 1, T_idxs[1] - 1] += 1
    p = weights / weights.sum()
    expected = p[:, None] * p / (1 - p[:, None])
    off_diagonal = ~np.eye(4, dtype=bool)
    assert not counts[~off_diagonal].any()
    assert is_likely(counts[off_diagonal], expected[off_diagonal])


def test_unique_draws_when_one_priority_has_nearly_all_weight():
    weights = np.array([1.0, 1e12, 2.0, 1.0])
    tree = weighted_tree(weights)
    seconds = np.zeros(5)
    for _ in range(1500):
        (T_idxs, _), priorities = tree.sample(3, unique=True)
        assert len(set(T_idxs)) == 3
        assert T_idxs[0] == 2
        np.testing.assert_array_equal(priorities, weights[T_idxs - 1])
        seconds[T_idxs[1]] += 1
    assert is_likely(seconds[[1, 3, 4]], np.array([0.25, 0.5, 0.25]))


@pytest.mark.parametrize("weights", [[1.0, 2, 3], [1.0, 1e-17, 1e17, 0.3], [0.1] * 5])
def test_rounding_never_leads_to_an_empty_leaf(weights):
    """A draw rounded up to the total used to end in the padding behind the leaves."""
    tree = weighted_tree(weights)
    leaves = tree.find(np.array([0.0, 1 - 2**-53, 1.0])) - tree.low_idx
    assert leaves.min() == 1
    assert leaves.max() == len(weights)


def test_reset_starts_again():
    tree = SumTree(8, 1, 2, 1)
    tree.advance(7)
    tree.reset()
    assert tree.tree[0] == 0
    tree.advance(4)
    assert on_rows(tree) == [1]


def test_print_tree(capsys):
    tree = weighted_tree([1.0, 2, 3, 4])
    tree.print_tree(0)
    assert capsys.readouterr().out == "10.0\n"
    tree.print_tree()
    lines = capsys.readouterr().out.splitlines()
    assert [sum(map(float, line.split())) for line in lines] == [10.0] * 4


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 4, 5, 8, 9, 1000])
def test_leaf_tree_of_any_size(n_leaves):
    tree = LeafTree(n_leaves)
    tree.load_leaves(np.arange(1.0, n_leaves + 1))
    assert tree.nodes[0] == n_leaves * (n_leaves + 1) / 2
    leaves, values = tree.find(np.cumsum(np.arange(1.0, n_leaves + 1)) - 0.5)
    np.testing.assert_array_equal(leaves, np.arange(n_leaves))
    np.testing.assert_array_equal(values, np.arange(1.0, n_leaves + 1))


def test_state_round_trip():
    tree = SumTree(16, 3, 2, 1, enable_input_priorities=True, input_priority_shift=1)
    rng = np.random.default_rng(0)
    for _ in range(9):
        tree.advance(3, rng.random((3, 3)))
    tree.sample(8)
    other = SumTree(16, 3, 2, 1, enable_input_priorities=True, input_priority_shift=1)
    other.load_state_dict(tree.state_dict())
    for one in (tree, other):
        one.update_batch_priorities(np.arange(1.0, 9))
        one.advance(4, 2.0)
    np.testing.assert_array_equal(tree.tree, other.tree)
    np.testing.assert_array_equal(tree.sample(5)[0], other.sample(5)[0])


def test_rows_written_since_the_sample_are_part_of_the_state():
    # Their new entries are not those of the update.
    tree, other = (SumTree(8, 1, 1, 1) for _ in range(2))
    tree.advance(8)
    tree.sample(6, unique=True)  # Rows 1 to 6.
    tree.advance(4)
    other.load_state_dict(tree.state_dict())
    other.update_batch_priorities(5.0)
    assert other.priorities[:, 0].tolist() == [1, 1, 1, 0, 0, 5, 5, 1]


def test_propagate_diffs_adds_to_leaves_and_to_all_sums_above():
    tree = SumTree(T=6, B=1, off_backward=1, off_forward=1)
    tree.advance(5)
    total = tree.tree[0]
    tree.propagate_diffs(tree.low_idx + np.array([1, 2]), np.array([0.5, 2.0]))
    assert tree.priorities[1:3, 0].tolist() == [1.5, 3.0]
    assert tree.tree[0] == total + 2.5 == tree.priorities.sum()

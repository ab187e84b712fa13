import numpy as np
import pytest
import torch

from rlpyt.algos.rollouts import filled_parts, iterate_parts, shuffled_parts
from rlpyt.algos.statistics import (
    RunningStd,
    moments,
    normalize,
    ratio_statistics,
    value_statistics,
)
from rlpyt.utils.collections import namedarraytuple
from tests.forked import in_two_ranks
from tests.reference.policy_gradient import normalized

Pair = namedarraytuple("Pair", ["a", "b"])


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("n", "n_parts", "sizes"),
    [(8, 4, [2, 2, 2, 2]), (10, 4, [3, 3, 2, 2]), (7, 3, [3, 2, 2]), (4, 4, [1] * 4), (5, 1, [5])],
)
def test_every_row_is_in_one_part(n, n_parts, sizes):
    # What did not fill a minibatch was dropped.
    order, found = shuffled_parts(np.arange(n) * 10, n_parts, rng())
    assert found == sizes
    assert sorted(order.tolist()) == [10 * i for i in range(n)]
    assert n < 7 or order.tolist() != sorted(order.tolist())


def test_parts_are_filled_to_one_size_with_their_own_entries():
    order, cpu = torch.tensor([7, 3, 9, 4, 1, 8]), torch.device("cpu")
    order, sizes, masks = filled_parts(order, [3, 2, 1], 4, cpu)
    assert order.tolist() == [7, 3, 9, 7, 4, 1, 4, 1, 8, 8, 8, 8]
    assert sizes == [4, 4, 4]
    assert [mask.tolist() for mask in masks] == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]


def test_fewer_rows_than_parts_come_several_times():
    order, sizes = shuffled_parts(np.array([3, 5]), 5, rng())
    assert sizes == [1] * 5
    assert set(order.tolist()) == {3, 5}


def test_parts_of_nested_records():
    batch = Pair(torch.arange(6).reshape(3, 2), Pair(None, torch.arange(12.0).reshape(3, 2, 2)))
    order = torch.tensor([5, 0, 3, 1, 2, 4])
    parts = list(iterate_parts(batch, order, [4, 2], n_dims=2))
    assert [part.a.tolist() for part in parts] == [[5, 0, 3, 1], [2, 4]]
    assert parts[1].b.a is None
    assert parts[1].b.b.tolist() == [[4, 5], [8, 9]]
    assert isinstance(parts[0].b, Pair)


def test_parts_of_environments():
    batch = Pair(torch.arange(6).reshape(2, 3), None)
    parts = list(iterate_parts(batch, torch.tensor([2, 0, 1]), [2, 1], dim=1))
    assert [part.a.tolist() for part in parts] == [[[2, 0], [5, 3]], [[1], [4]]]
    assert [part.b for part in parts] == [None, None]


# --- Statistics ---------------------------------------------------------------------------------


def test_of_all_entries():
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert moments(x) == (4.0, 3.0, 14.0)
    assert normalize(x).flatten().tolist() == pytest.approx(normalized([1, 2, 3, 6]))


def test_of_valid_entries_applied_to_all():
    x, valid = torch.tensor([1.0, 2.0, 100.0, 6.0]), torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert normalize(x, valid).tolist() == pytest.approx(normalized([1, 2, 100, 6], [1, 2, 6]))


def test_equal_entries_and_a_single_one_stay_finite():
    # The deviation of a single entry was NaN.
    assert normalize(torch.full((3,), 5.0)).tolist() == [0, 0, 0]
    assert normalize(torch.tensor([5.0])).tolist() == [0]


def test_large_offsets_lose_no_digits():
    x = torch.tensor([0.0, 1.0, 2.0]) + 2**20
    assert normalize(x).tolist() == pytest.approx([-1, 0, 1])


def test_running_deviation_is_that_of_all_data():
    running, batches = RunningStd(), [torch.randn(n) * 3 + n for n in (5, 1, 30)]
    assert running.std == 1
    for batch in batches:
        running.update(batch)
    assert running.std.item() == pytest.approx(
        torch.cat(batches).std(unbiased=False).item(), rel=1e-5
    )
    other = RunningStd()
    other.load_state_dict(running.state_dict())
    assert other.std == running.std


def test_running_deviation_of_nothing_and_of_constants():
    running = RunningStd()
    running.update(torch.ones(3), torch.zeros(3))
    assert running.std == 1
    running.update(torch.ones(3))
    assert running.std == 1


def normalize_part(rank):
    x = [torch.tensor([1.0, 2.0, 50.0]), torch.tensor([3.0, 6.0])][rank]
    valid = [torch.tensor([1.0, 1.0, 0.0]), None][rank]
    return normalize(x, valid).tolist()


def test_statistics_are_those_of_all_processes(tmp_path):
    """Each process normalised by its own batch, so that equal advantages differed in weight."""
    found = in_two_ranks(normalize_part, tmp_path / "store")
    expected = normalized([1, 2, 50, 3, 6], [1, 2, 3, 6])
    assert [*found[0], *found[1]] == pytest.approx(expected)


Info = namedarraytuple("Info", ["value"])


def explained_variance(value, return_, valid):
    return value_statistics(Info(value), return_, valid)["explainedVariance"]


@pytest.mark.parametrize("valid", [None, torch.tensor([[1.0, 1.0], [1.0, 1.0]])])
def test_explained_variance(valid):
    return_ = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert explained_variance(return_ + 5, return_, valid).item() == pytest.approx(1)
    assert explained_variance(torch.full((2, 2), 7.0), return_, valid).item() == pytest.approx(0)
    # Errors 1, -1, 1, -1 have the variance 1, the returns 3.5.
    value = return_ - torch.tensor([[1.0, -1.0], [1.0, -1.0]])
    assert explained_variance(value, return_, valid).item() == pytest.approx(1 - 1 / 3.5)
    # It was -inf, and the mean of its row with it.
    assert explained_variance(return_, torch.ones(2, 2), valid).isnan()


def test_explained_variance_of_valid_entries():
    return_, value = torch.tensor([1.0, 3.0, float("nan")]), torch.tensor([1.0, 2.0, 0.0])
    found = explained_variance(value, return_, torch.tensor([1.0, 1.0, 0.0]))
    assert found.item() == pytest.approx(1 - 0.25 / 1)


def test_ratio_statistics():
    ratios = torch.tensor([1.0, 1.5, 0.5]), torch.tensor([1.05])
    found = ratio_statistics([(x, None) for x in ratios], 0.1)
    expected = sum((x - 1) - np.log(x) for x in (1.0, 1.5, 0.5, 1.05)) / 4
    assert found["approxKL"].item() == pytest.approx(expected, rel=1e-4)
    assert found["clipFraction"].item() == 0.5
    masked = ratio_statistics([(ratios[0], torch.tensor([1.0, 0.0, 1.0]))], 0.1)
    assert masked["clipFraction"].item() == 0.5
    assert ratio_statistics([], 0.1) == {}

"""Discounted returns and advantages against tables by hand and a naive twin."""

from functools import partial

import numpy as np
import pytest
import torch

from rlpyt.algos import utils as old_path
from rlpyt.returns.advantages import (
    discount_return,
    generalized_advantage_estimation,
    generalized_advantage_estimation_tl,
    q_lambda_return,
    vtrace,
)
from tests.reference.policy_gradient import naive_gae, naive_vtrace
from tests.refused import assert_refused


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    T, B = 23, 5
    return {
        "reward": rng.normal(size=(T, B)).astype("float32"),
        "value": rng.normal(size=(T, B)).astype("float32"),
        "done": rng.random((T, B)) < 0.2,
        "bootstrap_value": rng.normal(size=(1, B)).astype("float32"),
    }


def test_gae_table_by_hand():
    ones, zeros = np.ones((3, 1)), np.zeros((3, 1))
    advantage, return_ = generalized_advantage_estimation(
        reward=ones,
        value=zeros,
        done=zeros,
        bootstrap_value=np.ones(1),
        discount=0.9,
        gae_lambda=0.5,
    )
    # delta = 1, 1, 1.9; A_2 = 1.9, A_1 = 1 + .45 * 1.9, A_0 = 1 + .45 * A_1.
    np.testing.assert_allclose(advantage[:, 0], [1.83475, 1.855, 1.9])
    np.testing.assert_array_equal(return_, advantage)


def test_discount_return_stops_at_done_and_bootstraps_at_the_end():
    reward = np.arange(1.0, 5.0)[:, None]
    done = np.array([0, 1, 0, 0])[:, None]
    return_ = discount_return(reward, done, np.array([8.0]), 0.5)
    np.testing.assert_allclose(return_[:, 0], [2.0, 2.0, 7.0, 8.0])
    done[-1] = 1
    return_ = discount_return(reward, done, np.array([8.0]), 0.5)
    np.testing.assert_allclose(return_[:, 0], [2.0, 2.0, 5.0, 4.0])


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_gae_equals_naive_twin(batch, gae_lambda):
    advantage, return_ = generalized_advantage_estimation(
        **batch, discount=0.97, gae_lambda=gae_lambda
    )
    for b in range(batch["reward"].shape[1]):
        expected = naive_gae(
            batch["reward"][:, b],
            batch["value"][:, b],
            batch["done"][:, b],
            batch["bootstrap_value"][0, b],
            0.97,
            gae_lambda,
        )
        np.testing.assert_allclose(advantage[:, b], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(return_, advantage + batch["value"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("done_dtype", [torch.bool, torch.uint8, torch.float32])
def test_torch_equals_numpy_for_every_kind_of_done(batch, done_dtype):
    as_torch = {name: torch.from_numpy(array) for name, array in batch.items()}
    as_torch["done"] = as_torch["done"].to(done_dtype)
    expected = generalized_advantage_estimation(**batch, discount=0.9, gae_lambda=0.8)
    result = generalized_advantage_estimation(**as_torch, discount=0.9, gae_lambda=0.8)
    for tensor, array in zip(result, expected):
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_destinations_are_written_in_place(batch):
    for kind in (np.asarray, torch.from_numpy):
        inputs = {name: kind(array) for name, array in batch.items()}
        advantage_dest, return_dest = kind(np.full((23, 5), 7.0)), kind(np.full((23, 5), 7.0))
        advantage, return_ = generalized_advantage_estimation(
            **inputs,
            discount=0.9,
            gae_lambda=0.8,
            advantage_dest=advantage_dest,
            return_dest=return_dest,
        )
        assert advantage is advantage_dest
        assert return_ is return_dest
        assert not (np.asarray(advantage) == 7).any()


def test_further_dimensions_are_independent(batch):
    stacked = {name: np.stack([array, 2 * array], axis=2) for name, array in batch.items()}
    stacked["done"] = stacked["done"].astype(bool)
    double, _ = generalized_advantage_estimation(**stacked, discount=0.9, gae_lambda=0.8)
    single, _ = generalized_advantage_estimation(**batch, discount=0.9, gae_lambda=0.8)
    np.testing.assert_allclose(double[..., 0], single, rtol=1e-6)
    np.testing.assert_allclose(double[..., 1], 2 * single, rtol=1e-5)


def test_time_limit_is_no_terminal_state(batch):
    none = np.zeros_like(batch["done"])
    plain = generalized_advantage_estimation(**batch, discount=0.9, gae_lambda=0.8)
    same = generalized_advantage_estimation_tl(**batch, discount=0.9, gae_lambda=0.8, timeout=none)
    np.testing.assert_array_equal(plain[0], same[0])
    # A time limit at every end: nothing is learned there, and earlier steps bootstrap from V_t.
    advantage, return_ = generalized_advantage_estimation_tl(
        **batch, discount=0.9, gae_lambda=0.8, timeout=batch["done"]
    )
    assert (advantage[batch["done"]] == 0).all()
    np.testing.assert_array_equal(return_[batch["done"]], batch["value"][batch["done"]])


@pytest.mark.parametrize("dtype", ["float16", "float64", torch.float16, torch.bfloat16])
def test_results_have_the_dtype_of_reward(batch, dtype):
    """The compiled loops know no half precision, for which they failed."""

    def cast(array):
        in_torch = torch.as_tensor(array)
        return in_torch.to(dtype) if isinstance(dtype, torch.dtype) else array.astype(dtype)

    low = {key: cast(array) for key, array in batch.items()}
    wide = {key: torch.as_tensor(array).double() for key, array in low.items()}
    results = generalized_advantage_estimation(**low, discount=0.97, gae_lambda=0.8)
    expected = generalized_advantage_estimation(**wide, discount=0.97, gae_lambda=0.8)
    for result, precise in zip(results, expected):
        assert result.dtype == dtype
        # Rounded once, at the end: within half a unit of the last place.
        rtol = torch.finfo(torch.as_tensor(result).dtype).eps / 2
        np.testing.assert_allclose(torch.as_tensor(result).double(), precise, rtol * 1.001, 1e-6)


def test_flags_and_bootstrap_values_are_broadcast(batch):
    double = np.stack([batch["reward"], batch["reward"]], axis=2)
    done = batch["done"][..., None]
    both = discount_return(double, done, 0.0, 0.9)
    one = discount_return(batch["reward"], batch["done"], np.zeros(5), 0.9)
    np.testing.assert_array_equal(both[..., 1], one)


NEEDS_GRADIENT = torch.ones(23, 5, requires_grad=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"value": np.zeros((5, 23))}, "value has shape (5, 23), expected (23, 5)"),
        ({"done": np.zeros((5, 23))}, "done has shape (5, 23), expected (23, 5)"),
        ({"done": np.zeros((1, 5))}, "done has shape (1, 5), expected (23, 5)"),
        ({"value": np.zeros((23, 1))}, "value has shape (23, 1), expected (23, 5)"),
        ({"value": np.zeros((22, 5))}, "value has shape (22, 5), expected (23, 5)"),
        ({"value": NEEDS_GRADIENT}, "value requires grad value.detach"),
        ({"ratio": torch.ones(5, 23)}, "shapes [5, 23] give all as [T,B]"),
        ({"ratio": NEEDS_GRADIENT}, "ratio requires grad ratio.detach"),
    ],
)
def test_refused(batch, changed, words):
    batch = {**batch, **changed}
    if "ratio" in changed:
        tensors = {name: torch.as_tensor(array) for name, array in batch.items()}
        assert_refused(lambda: vtrace(**tensors, discount=0.9), words)
        return
    call = partial(generalized_advantage_estimation, **batch, discount=0.9, gae_lambda=0.8)
    assert_refused(call, words)


def test_old_path_hands_on_the_same_functions():
    assert old_path.discount_return is discount_return
    assert old_path.generalized_advantage_estimation is generalized_advantage_estimation


def test_q_lambda_table_by_hand():
    reward = np.array([1.0, 2.0, 3.0, 4.0])[:, None]
    value = np.array([9.0, 8.0, 6.0, 4.0])[:, None]
    done = np.array([0, 1, 0, 0])[:, None]
    # G_3 = 4 + .5 * 10, G_2 = 3 + .5 * (.25 * 9 + .75 * 4), G_1 ends, G_0 = 1 + .5 * (.5 + 6).
    expected = [4.25, 2.0, 5.625, 9.0]
    for kind in (np.asarray, torch.from_numpy):
        batch = map(kind, (reward, value, done, np.array([10.0])))
        return_ = q_lambda_return(*batch, discount=0.5, q_lambda=0.25)
        np.testing.assert_allclose(return_[:, 0], expected)
    # Cut by a time limit, the second return is its value.
    return_ = q_lambda_return(reward, value, done, np.array([10.0]), 0.5, 0.25, timeout=done)
    np.testing.assert_allclose(return_[:, 0], [5.0, 8.0, 5.625, 9.0])


# --- V-trace --------------------------------------------------------------------------------------


def column(*numbers):
    return torch.tensor(numbers)[:, None]


@pytest.mark.parametrize(
    ("settings", "advantage", "target"),
    [
        # delta = 1.5, 1, 3; v_2 = 2 + 3, v_1 = 1 + 1 + .25 * (5 - 2), v_0 = 1.5 + .5 * 1.75.
        ({}, [2.375, 1.75, 3.0], [2.375, 2.75, 5.0]),
        # delta_0 = 3, but later errors have the same weights.
        ({"rho_bar": 2.0}, [4.75, 1.75, 3.0], [3.875, 2.75, 5.0]),
        ({"rho_bar": 2.0, "c_bar": 2.0}, [4.75, 1.75, 3.0], [4.75, 2.75, 5.0]),
        ({"vtrace_lambda": 0.0}, [2.0, 1.75, 3.0], [1.5, 2.0, 5.0]),
        # The episode ends at 1: delta_1 = .5, v_0 = 1.5 + .5 * .5.
        ({"done": column(0, 1, 0)}, [1.75, 0.5, 3.0], [1.75, 1.5, 5.0]),
        # By a time limit: nothing is learned there.
        ({"done": column(0, 1, 0), "timeout": column(0, 1, 1)}, [1.5, 0.0, 3.0], [1.5, 1.0, 5.0]),
    ],
)
def test_vtrace_table_by_hand(settings, advantage, target):
    batch = {"reward": column(1.0, 2.0, 3.0), "value": column(0.0, 1.0, 2.0)}
    batch |= {"done": column(0, 0, 0), "bootstrap_value": torch.tensor([4.0])}
    result = vtrace(column(2.0, 0.5, 1.0), **{**batch, "discount": 0.5, **settings})
    np.testing.assert_allclose(result[0][:, 0], advantage)
    np.testing.assert_allclose(result[1][:, 0], target)


@pytest.mark.parametrize(("rho_bar", "c_bar"), [(1.0, 1.0), (2.0, 0.7), (np.inf, np.inf)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_vtrace_equals_naive_twin(batch, rho_bar, c_bar, seed):
    ratio = np.random.default_rng(seed).lognormal(size=(23, 5)).astype("float32")
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    bounds = {"rho_bar": rho_bar, "c_bar": c_bar}
    results = vtrace(torch.from_numpy(ratio), **tensors, discount=0.97, **bounds)
    for b in range(5):
        columns = [batch[name][:, b] for name in ("reward", "value", "done")]
        start = batch["bootstrap_value"][0, b]
        expected = naive_vtrace(ratio[:, b], *columns, start, 0.97, rho_bar, c_bar)
        for result, numbers in zip(results, expected):
            assert result.dtype == torch.float32
            np.testing.assert_allclose(result[:, b], numbers, rtol=1e-4, atol=1e-4)


def test_vtrace_of_the_policy_that_acted_is_the_return(batch):
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    advantage, target = vtrace(torch.ones(23, 5), **tensors, discount=0.9)
    value = tensors.pop("value")
    return_ = discount_return(**tensors, discount=0.9)
    torch.testing.assert_close(target, return_)
    torch.testing.assert_close(advantage, return_ - value)

"""n-step returns, time limits within them, and validity masks."""

import numpy as np
import pytest
import torch

from rlpyt.returns.n_step import discount_return_n_step, timeout_n_step
from rlpyt.returns.valid import valid_from_done


@pytest.fixture
def table():
    """Rewards 1..5, an end at index 2."""
    return np.arange(1.0, 6.0), np.array([False, False, True, False, False])


def test_table_by_hand(table):
    return_, done_n = discount_return_n_step(*table, n_step=3, discount=0.5)
    np.testing.assert_allclose(return_, [2.75, 3.5, 3.0])
    np.testing.assert_array_equal(done_n, [True, True, True])


def naive_n_step(reward, done, n_step, discount):
    returns, done_ns = [], []
    for t in range(len(reward) - n_step + 1):
        total, ended = 0.0, False
        for k in range(n_step):
            if not ended:
                total += discount**k * reward[t + k]
            ended = ended or done[t + k]
        returns.append(total)
        done_ns.append(ended)
    return returns, done_ns


@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_equals_naive_twin_in_numpy_and_torch(n_step):
    rng = np.random.default_rng(1)
    reward = rng.normal(size=(17, 3)).astype("float32")
    done = rng.random((17, 3)) < 0.2
    return_, done_n = discount_return_n_step(reward, done, n_step, 0.9)
    for b in range(3):
        expected = naive_n_step(reward[:, b], done[:, b], n_step, 0.9)
        np.testing.assert_allclose(return_[:, b], expected[0], rtol=1e-5)
        np.testing.assert_array_equal(done_n[:, b], expected[1])
    in_torch = discount_return_n_step(torch.from_numpy(reward), torch.from_numpy(done), n_step, 0.9)
    np.testing.assert_array_equal(in_torch[0].numpy(), return_)
    np.testing.assert_array_equal(in_torch[1].numpy(), done_n)


@pytest.mark.parametrize("dtype", ["float16", "float64", torch.float16, torch.bfloat16])
def test_results_have_the_dtypes_of_the_arguments(table, dtype):
    """The compiled loops know no half precision, for which they failed."""
    reward, done = table
    if isinstance(dtype, torch.dtype):
        reward, done = torch.from_numpy(reward).to(dtype), torch.from_numpy(done).to(dtype)
    else:
        reward, done = reward.astype(dtype), done.astype(dtype)
    return_, done_n = discount_return_n_step(reward, done, 3, 0.5, do_truncated=True)
    assert return_.dtype == done_n.dtype == dtype
    assert return_.tolist() == [2.75, 3.5, 3.0, 6.5, 5.0]
    assert done_n.tolist() == [1, 1, 1, 0, 0]
    timeout_n = timeout_n_step(done, done, 3)
    assert timeout_n.dtype == dtype
    assert timeout_n.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32])
def test_done_n_keeps_the_dtype_of_done_and_its_destination_is_written(table, dtype):
    # Tensors given as ``done_n_dest`` used to be left as they were, a copy being written instead.
    reward, done = (torch.from_numpy(array) for array in table)
    dest = torch.zeros(3, dtype=dtype)
    _, done_n = discount_return_n_step(reward, done.to(dtype), 3, 0.5, done_n_dest=dest)
    assert done_n is dest
    assert done_n.dtype == dtype
    assert dest.bool().all()


def test_float_n_step_and_zero_steps(table):
    return_, _ = discount_return_n_step(*table, n_step=3.0, discount=0.5)
    assert len(return_) == 3
    with pytest.raises(ValueError, match="n_step is 0"):
        discount_return_n_step(*table, n_step=0, discount=0.5, do_truncated=True)


@pytest.mark.parametrize("n_step", [0, 6])
def test_n_step_out_of_range(table, n_step):
    with pytest.raises(ValueError, match=rf"n_step is {n_step}, but reward has 5 time steps"):
        discount_return_n_step(*table, n_step=n_step, discount=0.5)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_valid_up_to_and_including_the_first_done(kind):
    valid = valid_from_done(kind([[0, 1], [1, 0], [0, 0]]))
    np.testing.assert_array_equal(np.asarray(valid), [[1, 1], [1, 0], [0, 0]])
    assert np.asarray(valid).dtype == np.float32
    assert np.asarray(valid_from_done(kind([False, False]))).tolist() == [1, 1]

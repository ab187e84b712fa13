from __future__ import annotations

import pytest
import torch

from rlpyt.algos.losses import inv_value_scale, sequence_priorities, value_scale
from tests.reference.recurrent_q_learning import squash, unsquash

# x, eps, h(x)
SCALED = [
    (0.0, 1e-3, 0.0),
    (1.0, 1e-3, 0.4152136),
    (-1.0, 1e-3, -0.4152136),
    (3.0, 1e-3, 1.003),
    (100.0, 1e-3, 9.1498756),
    (-100.0, 1e-3, -9.1498756),
    (1e4, 1e-3, 109.005),
    (8.0, 0.0, 2.0),
    (8.0, 0.5, 6.0),
]


@pytest.mark.parametrize(("x", "eps", "expected"), SCALED)
def test_scale_of_values(x: float, eps: float, expected: float) -> None:
    assert value_scale(torch.tensor(x), eps).item() == pytest.approx(expected, rel=1e-6)
    # Without eps the formula of the source divides by zero.
    assert inv_value_scale(torch.tensor(expected), eps).item() == pytest.approx(x, rel=1e-5)


@pytest.mark.parametrize("eps", [1e-2, 1e-3, 1e-6])
def test_scale_and_its_inverse_like_their_naive_twins(eps: float) -> None:
    x = torch.cat([torch.linspace(-1e3, 1e3, 41), torch.tensor([1e-3, -0.02, 0.3])])
    z = value_scale(x, eps)
    for x_i, z_i in zip(x.tolist(), z.tolist()):
        assert z_i == pytest.approx(squash(x_i, eps), rel=1e-5, abs=1e-7)
        expected = pytest.approx(unsquash(z_i, eps), rel=1e-5, abs=1e-6)
        assert inv_value_scale(torch.tensor(z_i), eps).item() == expected
    assert torch.allclose(inv_value_scale(z, eps), x, rtol=1e-4, atol=1e-5)


def test_scale_follows_gradients() -> None:
    x = torch.tensor([3.0, -3.0], requires_grad=True)
    value_scale(x, 0.1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([0.25 + 0.1] * 2)


# errors over time, which steps count, eta, priority
PRIORITIES = [
    ([1.0, 2, 3], [1.0, 1, 1], 1.0, 3.0),
    ([1.0, 2, 3], [1.0, 1, 1], 0.0, 2.0),
    ([1.0, 2, 3], [1.0, 1, 1], 0.9, 2.9),
    ([1.0, 2, 30], [1.0, 1, 0], 0.9, 1.95),
    ([1.0, 2, 3], [0.0, 0, 0], 0.9, 0.0),
]


@pytest.mark.parametrize(("errors", "valid", "eta", "expected"), PRIORITIES)
def test_priorities(errors: list[float], valid: list[float], eta: float, expected: float) -> None:
    found = sequence_priorities(
        torch.tensor([errors, errors]).T, torch.tensor([valid, valid]).T, eta
    )
    assert found.tolist() == pytest.approx([expected] * 2)

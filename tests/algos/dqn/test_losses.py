from __future__ import annotations

import math

import pytest
import torch

from rlpyt.algos.losses import (
    categorical_projection,
    categorical_td_loss,
    huber_td_loss,
    n_step_target,
)
from tests.reference.q_learning import cross_entropy, divergence, project


@pytest.mark.parametrize(
    ("return_", "done", "n_step", "expected"),
    [(1, 0, 1, 6.0), (1, 0, 3, 2.25), (1, 1, 1, 1.0), (-2, 0, 2, 0.5)],
)
@pytest.mark.parametrize("as_number", [True, False])
def test_n_step_target(
    return_: float, done: int, n_step: int, expected: float, as_number: bool
) -> None:
    y = n_step_target(
        torch.tensor([float(return_)]),
        torch.tensor([bool(done)]),
        torch.tensor([10.0]),
        0.5,
        n_step if as_number else torch.tensor([n_step]),
    )
    assert y.tolist() == [expected]


# value, target, loss and |delta| without clipping, both with clipping at 1, gradient with clipping
HUBER = [
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (0.0, 0.5, 0.125, 0.5, 0.125, 0.5, -0.5),
    (1.0, 0.0, 0.5, 1.0, 0.5, 1.0, 1.0),
    (0.0, 3.0, 4.5, 3.0, 2.5, 1.0, -1.0),
    (2.0, -2.0, 8.0, 4.0, 3.5, 1.0, 1.0),
]


@pytest.mark.parametrize(("value", "target", "square", "error", "huber", "clipped", "grad"), HUBER)
def test_td_loss(
    value: float,
    target: float,
    square: float,
    error: float,
    huber: float,
    clipped: float,
    grad: float,
) -> None:
    q = torch.tensor([value], requires_grad=True)
    y = torch.tensor([target])
    loss, td_abs_error = huber_td_loss(q, y, None)
    assert (loss.item(), td_abs_error.item()) == pytest.approx((square, error))
    loss, td_abs_error = huber_td_loss(q, y, 1.0)
    assert (loss.item(), td_abs_error.item()) == pytest.approx((huber, clipped))
    assert not td_abs_error.requires_grad
    loss.sum().backward()
    assert q.grad is not None
    assert q.grad.item() == pytest.approx(grad)


Z = [-2.0, -1.0, 0.0, 1.0, 2.0]
UNIFORM = [0.2] * 5
AT_ZERO = [0, 0, 1.0, 0, 0]
# return, done, probabilities, discount^n, projection on the atoms -2 ... 2
PROJECTIONS = [
    (0.0, False, UNIFORM, 1.0, UNIFORM),
    (0.0, True, UNIFORM, 1.0, AT_ZERO),
    (1.0, True, UNIFORM, 1.0, [0, 0, 0, 1, 0]),
    (0.25, False, AT_ZERO, 1.0, [0, 0, 0.75, 0.25, 0]),
    (5.0, False, UNIFORM, 1.0, [0, 0, 0, 0, 1]),
    (-5.0, True, UNIFORM, 1.0, [1, 0, 0, 0, 0]),
    (1.0, False, UNIFORM, 1.0, [0, 0.2, 0.2, 0.2, 0.4]),
    (0.0, False, UNIFORM, 0.5, [0, 0.3, 0.4, 0.3, 0]),
]


@pytest.mark.parametrize(("return_", "done", "p", "discount", "expected"), PROJECTIONS)
def test_projection(
    return_: float, done: bool, p: list[float], discount: float, expected: list[float]
) -> None:
    found = categorical_projection(
        torch.tensor([return_]),
        torch.tensor([done]),
        torch.tensor([p]),
        torch.tensor(Z),
        discount,
        1,
    )
    assert found[0].tolist() == pytest.approx(expected)
    assert project(return_, done, p, Z, discount) == pytest.approx(expected)


@pytest.mark.parametrize("n_step", [1, 3])
def test_projection_like_its_naive_twin(n_step: int) -> None:
    return_, done = torch.randn(50) * 8, torch.rand(50) < 0.3
    p = torch.softmax(torch.randn(50, 11), -1)
    z = torch.linspace(-10, 10, 11)
    found = categorical_projection(return_, done, p, z, 0.9, n_step)
    assert torch.allclose(found.sum(-1), torch.ones(50), atol=1e-5)
    for i in range(50):
        expected = project(return_[i].item(), bool(done[i]), p[i].tolist(), z.tolist(), 0.9**n_step)
        assert found[i].tolist() == pytest.approx(expected, abs=1e-5)


def test_categorical_loss_like_its_naive_twin() -> None:
    p, target_p = (torch.softmax(6 * torch.randn(20, 5), -1) for _ in range(2))
    target_p[0] = torch.tensor([1.0, 0, 0, 0, 0])
    p[1] = torch.tensor([0, 1.0, 0, 0, 0])
    p.requires_grad_()
    loss, kl_div = categorical_td_loss(p, target_p)
    assert loss.requires_grad
    assert not kl_div.requires_grad
    for i in range(20):
        pair = p[i].tolist(), target_p[i].tolist()
        assert loss[i].item() == pytest.approx(cross_entropy(*pair), rel=1e-4)
        assert kl_div[i].item() == pytest.approx(divergence(*pair), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("logit", [-23.0, -60.0, -85.0])
def test_categorical_loss_teaches_an_atom_that_is_all_but_impossible(logit: float) -> None:
    # Below 1e-6 the loss was 13.8, without gradient.
    logits = torch.tensor([[0.0, logit, 0.0], [logit, 0.0, 0.0]], requires_grad=True)
    p, target_p = torch.softmax(logits, -1), torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    loss, kl_div = categorical_td_loss(p, target_p)
    loss.sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, p.detach() - target_p)
    assert loss.tolist() == pytest.approx([math.log(2) - logit, math.log(2) - logit / 2])
    assert kl_div.tolist() == pytest.approx([math.log(2) - logit, -logit / 2])


def test_categorical_loss_of_a_model_in_lower_precision() -> None:
    logits = torch.tensor([[0.0, -60.0]], dtype=torch.bfloat16, requires_grad=True)
    loss, _ = categorical_td_loss(torch.softmax(logits, -1).float(), torch.tensor([[0.0, 1.0]]))
    loss.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([1, -1], rel=2**-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_categorical_loss_is_finite_where_a_probability_is_zero(dtype: torch.dtype) -> None:
    p = torch.tensor([[0.0, 1.0], [1e-7, 1.0], [1.0, 0.0]], dtype=dtype, requires_grad=True)
    loss, kl_div = categorical_td_loss(p, torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    loss.sum().backward()
    assert p.grad is not None
    assert all(torch.isfinite(x).all() for x in (loss, kl_div, p.grad))
    assert (loss[2].item(), kl_div[2].item()) == (0, pytest.approx(1e-6))


def test_divergence_of_equal_distributions_is_the_smallest_priority() -> None:
    p = torch.tensor([UNIFORM])
    _, kl_div = categorical_td_loss(p, p)
    assert kl_div.item() == pytest.approx(1e-6)

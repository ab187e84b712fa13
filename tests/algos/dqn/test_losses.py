import math

import pytest
import torch

from rlpyt.algos.losses import (
    categorical_projection,
    categorical_td_loss,
    inv_value_scale,
    n_step_target,
    value_scale,
)
from tests.reference.q_learning import cross_entropy, divergence, project
from tests.reference.recurrent_q_learning import squash, unsquash


@pytest.mark.parametrize(
    ("return_", "done", "n_step", "expected"),
    [(1, 0, 1, 6.0), (1, 0, 3, 2.25), (1, 1, 1, 1.0), (-2, 0, 2, 0.5)],
)
@pytest.mark.parametrize("as_number", [True, False])
def test_n_step_target(return_, done, n_step, expected, as_number):
    y = n_step_target(
        torch.tensor([float(return_)]),
        torch.tensor([bool(done)]),
        torch.tensor([10.0]),
        0.5,
        n_step if as_number else torch.tensor([n_step]),
    )
    assert y.tolist() == [expected]


@pytest.mark.parametrize(("n_step", "seed"), [(1, 0), (3, 1), (3, 2)])
def test_projection_like_its_naive_twin(n_step, seed):
    torch.manual_seed(seed)
    return_, done = torch.randn(50) * 8, torch.rand(50) < 0.3
    return_[:5] = torch.tensor([0.0, 2.0, -4.0, 10.0, -10.0])
    p = torch.softmax(torch.randn(50, 11), -1)
    z = torch.linspace(-10, 10, 11)
    found = categorical_projection(return_, done, p, z, 0.9, n_step)
    assert torch.allclose(found.sum(-1), torch.ones(50), atol=1e-5)
    for i in range(50):  # On, between and beyond the atoms.
        expected = project(return_[i].item(), bool(done[i]), p[i].tolist(), z.tolist(), 0.9**n_step)
        assert found[i].tolist() == pytest.approx(expected, abs=1e-5)


def test_categorical_loss_like_its_naive_twin():
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
def test_categorical_loss_teaches_an_atom_that_is_all_but_impossible(logit):
    # Below 1e-6 the loss was 13.8, without gradient.
    logits = torch.tensor([[0.0, logit, 0.0], [logit, 0.0, 0.0]], requires_grad=True)
    p, target_p = torch.softmax(logits, -1), torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    loss, kl_div = categorical_td_loss(p, target_p)
    loss.sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, p.detach() - target_p)
    assert loss.tolist() == pytest.approx([math.log(2) - logit, math.log(2) - logit / 2])
    assert kl_div.tolist() == pytest.approx([math.log(2) - logit, -logit / 2])


def test_categorical_loss_of_a_model_in_lower_precision():
    logits = torch.tensor([[0.0, -60.0]], dtype=torch.bfloat16, requires_grad=True)
    loss, _ = categorical_td_loss(torch.softmax(logits, -1).float(), torch.tensor([[0.0, 1.0]]))
    loss.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([1, -1], rel=2**-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_categorical_loss_is_finite_where_a_probability_is_zero(dtype):
    p = torch.tensor([[0.0, 1.0], [1e-7, 1.0], [1.0, 0.0]], dtype=dtype, requires_grad=True)
    loss, kl_div = categorical_td_loss(p, torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    loss.sum().backward()
    assert p.grad is not None
    assert all(torch.isfinite(x).all() for x in (loss, kl_div, p.grad))
    assert (loss[2].item(), kl_div[2].item()) == (0, pytest.approx(1e-6))


def test_divergence_of_equal_distributions_is_the_smallest_priority():
    p = torch.full((1, 5), 0.2)
    _, kl_div = categorical_td_loss(p, p)
    assert kl_div.item() == pytest.approx(1e-6)


@pytest.mark.parametrize("eps", [1e-2, 1e-3, 1e-6])
def test_scale_and_its_inverse_like_their_naive_twins(eps):
    x = torch.cat([torch.linspace(-1e3, 1e3, 41), torch.tensor([1e-3, -0.02, 0.3])])
    z = value_scale(x, eps)
    for x_i, z_i in zip(x.tolist(), z.tolist()):
        assert z_i == pytest.approx(squash(x_i, eps), rel=1e-5, abs=1e-7)
        expected = pytest.approx(unsquash(z_i, eps), rel=1e-5, abs=1e-6)
        assert inv_value_scale(torch.tensor(z_i), eps).item() == expected
    assert torch.allclose(inv_value_scale(z, eps), x, rtol=1e-4, atol=1e-5)


def test_scale_follows_gradients():
    x = torch.tensor([3.0, -3.0], requires_grad=True)
    value_scale(x, 0.1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([0.25 + 0.1] * 2)

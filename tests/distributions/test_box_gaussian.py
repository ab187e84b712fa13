"""Gaussians over boxes: units, bounds, and likelihoods of clipped actions."""

import math

import numpy as np
import pytest
import torch

from rlpyt.distributions.box_gaussian import BoxGaussian, clipped_log_likelihood
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian

INF = math.inf


def info(mean, log_std):
    return DistInfoStd(mean=torch.tensor(mean), log_std=torch.tensor(log_std))


class TestUnits:
    def test_every_dimension_by_its_own_bounds(self):
        d = BoxGaussian([0.0, -2.0, -INF], [10.0, 2.0, INF])
        scaled = d.scaled(torch.tensor([-1.0, 0.5, 3.0]), torch.zeros(3))
        assert scaled.mean.tolist() == [0, 1, 3]
        assert scaled.log_std.tolist() == pytest.approx([math.log(5), math.log(2), 0])
        assert d.unscaled(torch.tensor([10.0, -2.0, 7.0])).tolist() == [1, -1, 7]

    @pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-INF, INF), (-1.0, INF), (-0.5, -0.5)])
    def test_nothing_changes_where_there_is_no_other_unit(self, low, high):
        d = BoxGaussian([low], [high])
        mean, log_std = torch.tensor([0.3]), torch.tensor([-1.0])
        scaled = d.scaled(mean, log_std)
        assert scaled.log_std.tolist() == log_std.tolist()
        assert scaled.mean.item() == pytest.approx(0.3 - 0.5 * (high == -0.5))

    def test_can_be_left_to_the_network(self):
        d = BoxGaussian([0.0], [10.0], scale_to_box=False)
        assert d.scaled(torch.tensor([2.0]), torch.zeros(1)).mean == 2
        assert d.unscaled(torch.tensor([2.0])) == 2

    @pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
    def test_shapes(self, shape):
        lead = (2, 4)
        d = BoxGaussian(np.full(shape, -1.0), np.full(shape, 3.0))
        assert d.dim == math.prod(shape)
        p = DistInfoStd(mean=torch.randn(*lead, d.dim), log_std=torch.zeros(*lead, d.dim))
        action = d.sample(p)
        assert action.shape == d.mode(p).shape == lead + shape
        assert d.unscaled(action).shape == (*lead, d.dim)
        for quantity in (d.log_likelihood(action, p), d.entropy(p), d.kl(p, p)):
            assert quantity.shape == lead


class TestClipping:
    d = BoxGaussian([-1.0, 0.0], [1.0, INF])

    def test_table(self):
        """By hand: Phi(-1) = 0.158655 is beyond the bound, and the density is 1/sqrt(2 pi)."""
        p = info([0.0, 1.0], [0.0, 0.0])
        half_log_2pi = 0.5 * math.log(2 * math.pi)
        for action, expected in [
            ([0.0, 1.0], -2 * half_log_2pi),
            ([1.0, 1.0], math.log(0.1586553) - half_log_2pi),
            ([-1.0, 0.0], 2 * math.log(0.1586553)),
        ]:
            logli = self.d.log_likelihood(torch.tensor(action), p)
            assert logli.item() == pytest.approx(expected, rel=1e-5)

    def test_actions_stay_inside(self):
        p = info([[0.9, 0.1]] * 500, [[0.0, 1.0]] * 500)
        action = self.d.sample(p)
        assert action[:, 0].abs().max() == 1
        assert action[:, 1].min() == 0
        assert action[:, 1].max() > 1
        assert self.d.mode(info([2.0, -3.0], [0.0, 0.0])).tolist() == [1, 0]

    def test_an_action_without_choice_is_certain(self):
        both, one = BoxGaussian([-1.0, 0.5], [1.0, 0.5]), BoxGaussian([-1.0], [1.0])
        mean = torch.tensor([0.0, 3.0], requires_grad=True)
        logli = both.log_likelihood(
            torch.tensor([0.3, 0.5]), DistInfoStd(mean=mean, log_std=torch.zeros(2))
        )
        expected = one.log_likelihood(torch.tensor([0.3]), info([0.0], [0.0]))
        assert logli.item() == expected.item()
        assert torch.autograd.grad(logli, mean)[0].tolist() == pytest.approx([0.3, 0])

    def test_probabilities_sum_to_one(self):
        d = BoxGaussian([-1.0], [2.0])
        grid = torch.linspace(-1, 2, 30_001)[:, None]
        p = DistInfoStd(mean=torch.full_like(grid, 1.5), log_std=torch.full_like(grid, 0.3))
        likelihood = d.log_likelihood(grid, p).exp()
        inside = torch.trapezoid(likelihood[1:-1], grid[1:-1, 0])
        assert (likelihood[0] + inside + likelihood[-1]).item() == pytest.approx(1, abs=1e-3)

    def test_gradient_is_that_of_the_mean_clipped_action(self):
        """The score function has mean zero, which that of the density at the bound has not."""
        torch.manual_seed(0)
        n = 200_000
        mean = torch.full((n, 1), 0.8, requires_grad=True)
        means = {}
        for d in (BoxGaussian([-1.0], [1.0]), Gaussian(dim=1)):
            p = DistInfoStd(mean=mean, log_std=torch.zeros(n, 1))
            action = BoxGaussian([-1.0], [1.0]).sample(p).detach()
            (score,) = torch.autograd.grad(d.log_likelihood(action, p).mean(), mean)
            means[type(d)] = score.sum().item()
        assert means[BoxGaussian] == pytest.approx(0, abs=0.01)
        assert means[Gaussian] < -0.1

    def test_gradients_are_those_of_the_likelihood(self):
        low, high = torch.tensor([-1.0, 0.0, -INF]).double(), torch.tensor([1.0, INF, 2.0]).double()
        mean, log_std, noise = torch.randn(3, 30, 3, dtype=torch.double)
        x = torch.clamp(mean + torch.exp(log_std) * noise, low, high)
        for tensor in (x, mean, log_std):
            tensor.requires_grad_()
        is_inside = (x > low) & (x < high)
        assert 10 < int(is_inside.sum()) < 80, "some of each kind"

        def likelihood(mean, log_std):
            return clipped_log_likelihood(x, mean, log_std, low, high)

        torch.autograd.gradcheck(likelihood, (mean, log_std))
        (grad,) = torch.autograd.grad(likelihood(mean, log_std).sum(), x)
        assert grad[~is_inside].abs().max() == 0
        density = torch.distributions.Normal(mean, torch.exp(log_std)).log_prob(x)
        (expected,) = torch.autograd.grad(density[is_inside].sum(), x)
        torch.testing.assert_close(grad[is_inside], expected[is_inside])

    def test_likelihoods_of_one_action_by_many(self):
        p = info([[0.0, 1.0]] * 3, [[0.0, 0.0]] * 3)
        action = torch.tensor([1.0, 0.7])
        expected = self.d.log_likelihood(action.expand(3, 2), p)
        torch.testing.assert_close(self.d.log_likelihood(action, p), expected)

    def test_fixed_deviation(self):
        d = BoxGaussian([-1.0, 0.0], [1.0, INF], std=0.5)
        p = info([[0.0, 1.0]], [[9.0, 9.0]])
        free = info([[0.0, 1.0]], [[math.log(0.5)] * 2])
        x = torch.tensor([[1.0, 0.7]])
        torch.testing.assert_close(d.log_likelihood(x, p), self.d.log_likelihood(x, free))

    def test_finite_far_out(self):
        mean = torch.tensor([[-60.0, -60.0], [60.0, 60.0]], requires_grad=True)
        p = DistInfoStd(mean=mean, log_std=torch.full((2, 2), -2.0))
        logli = self.d.log_likelihood(torch.tensor([[1.0, 0.0], [0.5, 3.0]]), p)
        logli.sum().backward()
        assert bool(torch.isfinite(logli).all())
        assert mean.grad is not None
        assert bool(torch.isfinite(mean.grad).all())

    def test_without_it_likelihoods_are_those_of_the_gaussian(self):
        d = BoxGaussian([-1.0], [1.0], clip_to_box=False)
        p = info([[2.0]], [[0.5]])
        x = torch.tensor([[1.0]])
        assert torch.equal(d.log_likelihood(x, p), Gaussian(dim=1).log_likelihood(x, p))
        assert d.mode(p).item() == 2

    def test_sample_and_likelihood_together(self):
        mean = torch.tensor([0.9, 0.5], requires_grad=True)
        p = DistInfoStd(mean=mean, log_std=torch.zeros(2))
        action, logli = self.d.sample_loglikelihood(p)
        assert torch.equal(self.d.log_likelihood(action, p), logli)
        action, _ = self.d.sample_loglikelihood(p, reparameterize=False)
        assert not action.requires_grad

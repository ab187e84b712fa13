"""Gaussian distributions with all their options."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import (
    AffineTransform,
    Independent,
    Normal,
    TanhTransform,
    TransformedDistribution,
    kl_divergence,
)

from rlpyt.distributions.gaussian import DistInfo, DistInfoStd, Gaussian

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def info(mean, log_std):
    return DistInfoStd(mean=torch.tensor(mean), log_std=torch.tensor(log_std))


def random_info(*shape):
    return DistInfoStd(
        mean=torch.randn(*shape, dtype=torch.double),
        log_std=0.5 * torch.randn(*shape, dtype=torch.double),
    )


def twin(dist_info):
    return Independent(Normal(dist_info.mean, dist_info.log_std.exp()), 1)


class TestDensity:
    def test_agrees_with_torch(self):
        d, lead = Gaussian(dim=3), (2, 4)
        old, new = random_info(*lead, 3), random_info(*lead, 3)
        x = torch.randn(*lead, 3, dtype=torch.double)
        tolerance = {"rtol": 1e-5, "atol": 1e-6}
        close = torch.testing.assert_close
        close(d.log_likelihood(x, old), twin(old).log_prob(x), **tolerance)
        close(d.entropy(old), twin(old).entropy(), **tolerance)
        close(d.kl(old, new), kl_divergence(twin(old), twin(new)), **tolerance)
        ratio = (twin(new).log_prob(x) - twin(old).log_prob(x)).exp()
        close(d.likelihood_ratio(x, old, new), ratio, **tolerance)
        close(d.perplexity(old), twin(old).entropy().exp(), **tolerance)

    @pytest.mark.parametrize(
        ("squash", "low", "high"),
        [
            (2, -2, 2),
            ([0.5, 1.0, 3.0], [-0.5, -1.0, -3.0], [0.5, 1.0, 3.0]),
            ([[-1.0, 0.0, -3.0], [1.0, 10.0, -2.5]], [-1.0, 0.0, -3.0], [1.0, 10.0, -2.5]),
        ],
    )
    def test_squashed_agrees_with_torch(self, squash, low, high):
        d = Gaussian(dim=3, squash=squash)
        dist_info, x = random_info(5, 3), torch.randn(5, 3, dtype=torch.double)
        low, high = (torch.as_tensor(b, dtype=torch.double).expand(3) for b in (low, high))
        mid, half_range = (low + high) / 2, (high - low) / 2
        transforms = [TanhTransform(cache_size=1), AffineTransform(mid, half_range)]
        base = Normal(dist_info.mean, dist_info.log_std.exp())
        action = mid + half_range * x.tanh()
        expected = TransformedDistribution(base, transforms).log_prob(action).sum(dim=-1)
        torch.testing.assert_close(d.log_likelihood(x, dist_info), expected, rtol=1e-5, atol=1e-5)

    def test_squash_correction_does_not_saturate(self):
        """log(squash (1 - tanh^2) + 1e-8) stood still, without gradient, beyond |x| of 9."""
        x = torch.tensor([[-20.0], [20.0]], requires_grad=True)
        dist_info = DistInfoStd(mean=x.detach(), log_std=torch.zeros(2, 1))
        correction = Gaussian(dim=1, squash=1.0).log_likelihood(x, dist_info) + HALF_LOG_2PI
        # 1 - tanh^2 x is 4 exp(-2 |x|) there.
        torch.testing.assert_close(correction, torch.full((2,), 40 - 2 * math.log(2)))
        correction.sum().backward()
        torch.testing.assert_close(x.grad, torch.tensor([[-2.0], [2.0]]))

    def test_std_zero_is_infinite_and_no_error(self):
        d = Gaussian(dim=1, std=0.0)
        logli = d.log_likelihood(torch.zeros(1), DistInfo(mean=torch.zeros(1)))
        assert logli.item() == math.inf


class TestFixedStd:
    mean = torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]])

    @pytest.mark.parametrize("std", [0.5, 2, np.float32(0.5), [0.5, 1.0, 2.0], torch.tensor([0.5])])
    def test_agrees_with_torch(self, std):
        d = Gaussian(dim=3, std=std)
        dist_info = DistInfo(mean=self.mean)
        scale = torch.as_tensor(std, dtype=torch.float).expand(3)
        like = Independent(Normal(self.mean, scale), 1)
        x = torch.randn(2, 3)
        close = torch.testing.assert_close
        close(d.log_likelihood(x, dist_info), like.log_prob(x))
        # Summed one element, not three, when the deviation was a scalar.
        close(d.entropy(dist_info), like.entropy())
        other = Independent(Normal(self.mean + 1, scale), 1)
        close(d.kl(dist_info, DistInfo(mean=self.mean + 1)), kl_divergence(like, other))

    def test_does_not_see_later_changes_of_the_array(self):
        std = np.ones(2, dtype=np.float32)
        d = Gaussian(dim=2, std=std)
        std[:] = 9
        assert d.std.tolist() == [1.0, 1.0]


class TestLimitsOfStd:
    @pytest.mark.parametrize(("log_std", "used"), [(-9.0, 0.5), (9.0, 2.0), (0.0, 1.0)])
    def test_apply_everywhere(self, log_std, used):
        d = Gaussian(dim=1, min_std=0.5, max_std=2.0)
        given, clamped = info([[0.0]], [[log_std]]), info([[0.0]], [[math.log(used)]])
        free = Gaussian(dim=1)
        x = torch.ones(1, 1)
        close = torch.testing.assert_close
        close(d.entropy(given), free.entropy(clamped))
        close(d.log_likelihood(x, given), free.log_likelihood(x, clamped))
        close(d.kl(given, given), torch.zeros(1))
        torch.manual_seed(0)
        sample = d.sample(given)
        torch.manual_seed(0)
        close(sample, free.sample(clamped))

    def test_one_limit_alone(self):
        d = Gaussian(dim=1, max_std=1.0)
        assert d.entropy(info([0.0], [5.0])).item() == pytest.approx(0.5 + HALF_LOG_2PI)


class TestSample:
    def test_moments_and_gradients(self):
        torch.manual_seed(0)
        mean = torch.tensor([1.0, -2.0], requires_grad=True)
        log_std = torch.tensor([0.0, math.log(0.5)], requires_grad=True)
        x = Gaussian(dim=2).sample(DistInfoStd(mean.expand(20_000, 2), log_std.expand(20_000, 2)))
        torch.testing.assert_close(x.mean(dim=0), mean, atol=0.03, rtol=0)
        torch.testing.assert_close(x.std(dim=0), log_std.exp(), atol=0.03, rtol=0)
        # d x / d mean = 1 and d x / d log_std = x - mean.
        x.sum().backward()
        assert mean.grad.tolist() == [20_000.0, 20_000.0]
        expected = (x - mean).sum(dim=0).detach()
        torch.testing.assert_close(log_std.grad, expected, rtol=1e-3, atol=1e-2)

    @pytest.mark.parametrize("bound", [0.3, [0.3, 0.6], np.array([0.3, 0.6])])
    def test_bounds(self, bound):
        wide = info([[1.0, -1.0]] * 200, [[2.0, 2.0]] * 200)
        limit = torch.as_tensor(bound, dtype=torch.float).expand(2)
        reached = Gaussian(dim=2, clip=bound).sample(wide).abs().amax(dim=0)
        torch.testing.assert_close(reached, limit)
        reached = (Gaussian(dim=2, noise_clip=bound).sample(wide) - wide.mean).abs().amax(dim=0)
        torch.testing.assert_close(reached, limit)
        squashed = Gaussian(dim=2, squash=bound).sample(wide).abs().amax(dim=0)
        assert (squashed <= limit).all()
        torch.testing.assert_close(squashed, limit, rtol=1e-3, atol=0)

    @pytest.mark.parametrize("name", ["clip", "squash"])
    def test_two_bounds(self, name):
        low, high = np.array([-1.0, 0.1, -3.0]), np.array([1.0, 0.3, -2.5])
        d = Gaussian(dim=3, std=9.0, **{name: np.stack([low, high])})
        mean = torch.zeros(2000, 3) if name == "squash" else torch.tensor((low + high) / 2).float()
        x = d.sample(DistInfo(mean=mean.expand(2000, 3)))
        least, greatest = torch.tensor(low).float(), torch.tensor(high).float()
        # No rounding steps over a bound.
        assert (least <= x).all()
        assert (x <= greatest).all()
        torch.testing.assert_close(x.min(0).values, least)
        torch.testing.assert_close(x.max(0).values, greatest)

    def test_noise_is_clipped_before_the_action(self):
        d = Gaussian(dim=1, std=1e6, noise_clip=0.5, clip=1.0)
        actions = d.sample(DistInfo(mean=torch.full((100, 1), 0.8)))
        torch.testing.assert_close(actions.unique(), torch.tensor([0.3, 1.0]))


class TestSampleLoglikelihood:
    @pytest.mark.parametrize("squash", [None, 2.0])
    def test_is_the_log_likelihood_of_the_raw_sample(self, squash):
        d = Gaussian(dim=2, squash=squash)
        dist_info = random_info(7, 2)
        torch.manual_seed(0)
        action, logli = d.sample_loglikelihood(dist_info)
        torch.manual_seed(0)
        raw = Gaussian(dim=2).sample(dist_info)
        torch.testing.assert_close(logli, d.log_likelihood(raw, dist_info))
        torch.testing.assert_close(action, raw if squash is None else squash * torch.tanh(raw))

    def test_methods_of_a_subclass_apply(self):
        """The squashed Gaussian's own were used instead."""

        class Rounded(Gaussian):
            def sample(self, dist_info):
                return super().sample(dist_info).round()

            def log_likelihood(self, x, dist_info):
                return x.sum(-1)

        d = Rounded(dim=2, squash=2.0)
        action, logli = d.sample_loglikelihood(random_info(7, 2))
        x = torch.atanh(action / 2)
        torch.testing.assert_close(x, x.round(), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(logli, x.sum(-1), rtol=1e-3, atol=1e-3)
        assert d.squash == 2

    @pytest.mark.parametrize("name", ["noise_clip", "clip"])
    def test_clipping_applies(self, name):
        d = Gaussian(dim=1, std=100.0, **{name: 0.5})
        action, _ = d.sample_loglikelihood(DistInfo(mean=torch.zeros(50, 1)))
        assert action.abs().max().item() == 0.5

    @pytest.mark.parametrize("squash", [None, 2.0, [[-1.0, 3.0], [1.0, 4.0]]])
    def test_gradients_are_those_of_the_two_parts(self, squash):
        """The noise itself is what is squared, without the detour over the action."""
        d = Gaussian(dim=2, squash=squash)
        parameters = [torch.randn(6, 2, requires_grad=True) for _ in range(2)]
        torch.manual_seed(5)
        action, logli = d.sample_loglikelihood(DistInfoStd(*parameters))
        found = torch.autograd.grad((logli * 3 + action.sum(-1)).sum(), parameters)
        torch.manual_seed(5)
        x = parameters[0] + parameters[1].exp() * torch.randn(6, 2)
        logli = d.log_likelihood(x, DistInfoStd(*parameters))
        expected = torch.autograd.grad((logli * 3 + d._squashed(x).sum(-1)).sum(), parameters)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)

    def test_without_reparameterization(self):
        d = Gaussian(dim=1, squash=1.0)
        mean = torch.zeros(5, 1, requires_grad=True)
        log_std = torch.zeros(5, 1)
        torch.manual_seed(5)
        action, logli = d.sample_loglikelihood(DistInfoStd(mean, log_std), reparameterize=False)
        assert not action.requires_grad
        torch.manual_seed(5)
        (score,) = torch.autograd.grad(logli.sum(), mean)
        # Of a normal: (x - m) / s^2.
        torch.testing.assert_close(score, torch.randn(5, 1))


class TestSettings:
    def test_clip_and_squash_exclude_each_other(self):
        match = "exclude each other: set one of them to None"
        with pytest.raises(ValueError, match=match):
            Gaussian(dim=1, clip=1.0, squash=1.0)
        d = Gaussian(dim=1, clip=1.0)
        with pytest.raises(ValueError, match=match):
            d.set_squash(1.0)
        d.set_clip(None)
        d.set_squash(2.0)
        with pytest.raises(ValueError, match=match):
            d.set_clip(1.0)
        d.set_noise_clip(0.5)
        assert (d.clip, d.squash, d.noise_clip) == (None, 2.0, 0.5)

    @pytest.mark.parametrize("name", ["entropy", "kl"])
    def test_no_closed_form_with_squash(self, name):
        dist_info = info([0.0], [0.0])
        arguments = (dist_info,) * (2 if name == "kl" else 1)
        with pytest.raises(NotImplementedError, match="squash=1.0"):
            getattr(Gaussian(dim=1, squash=1.0), name)(*arguments)

    def test_read_only_arrays_of_a_space(self):
        bound = np.ones(2, dtype=np.float32)
        bound.flags.writeable = False
        assert Gaussian(dim=2, clip=bound).clip.tolist() == [1.0, 1.0]
        assert Gaussian(dim=2, clip=bound[0]).clip == 1.0

    def test_means_count_valid_data_only(self):
        d = Gaussian(dim=1)
        old, new = info([[0.0], [0.0]], [[0.0], [1.0]]), info([[2.0], [0.0]], [[0.0], [1.0]])
        valid = torch.tensor([1.0, 0.0])
        assert d.mean_kl(old, new, valid).item() == pytest.approx(2.0)
        assert d.mean_kl(old, new).item() == pytest.approx(1.0)
        assert d.mean_entropy(old, valid).item() == pytest.approx(0.5 + HALF_LOG_2PI)

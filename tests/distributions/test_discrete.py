"""Categorical distributions and one-hot conversion."""

import contextlib
import math

import pytest
import torch

from rlpyt.distributions.base import Distribution
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.noise import ActingNoise


def info(*prob):
    return DistInfo(prob=torch.tensor(prob))


class TestOnehot:
    def test_both_ways_and_types(self):
        distribution = Categorical(dim=3)
        onehot = distribution.to_onehot(torch.tensor([2, 0]))
        assert onehot.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        assert onehot.dtype == torch.float
        # Raised TypeError: a keyword was misspelled.
        indexes = distribution.from_onehot(onehot)
        assert indexes.tolist() == [2, 0]
        assert indexes.dtype == torch.long

    def test_types_can_be_chosen(self):
        distribution = Categorical(dim=2, dtype=torch.int32, onehot_dtype=torch.uint8)
        onehot = distribution.to_onehot(torch.tensor(1))
        assert onehot.dtype == torch.uint8
        assert distribution.from_onehot(onehot).dtype == torch.int32
        assert distribution.to_onehot(torch.tensor(1), dtype=torch.double).dtype == torch.double
        assert distribution.from_onehot(onehot, dtype=torch.long).dtype == torch.long
        assert distribution.sample(info(0.0, 1.0)).dtype == torch.int32


class TestCategorical:
    distribution = Categorical(dim=2)

    def test_table(self):
        """Formulas computed by hand for p = (1/4, 3/4) and q = (1/2, 1/2)."""
        p, q = info(0.25, 0.75), info(0.5, 0.5)
        action = torch.tensor(1)
        d = self.distribution
        assert d.entropy(p).item() == pytest.approx(0.5623351)
        assert d.entropy(q).item() == pytest.approx(math.log(2))
        assert d.perplexity(q).item() == pytest.approx(2.0)
        assert d.kl(p, q).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
        assert d.log_likelihood(action, p).item() == pytest.approx(math.log(0.75))
        assert d.likelihood_ratio(action, p, q).item() == pytest.approx(2 / 3)

    def test_zero_probabilities_stay_finite(self):
        p, q = info(1.0, 0.0), info(0.0, 1.0)
        d = self.distribution
        assert d.entropy(p).item() == pytest.approx(0.0, abs=1e-7)
        assert d.kl(p, q).item() == pytest.approx(-math.log(1e-8), rel=1e-5)
        assert d.log_likelihood(torch.tensor(1), p).item() == pytest.approx(math.log(1e-8))
        assert d.likelihood_ratio(torch.tensor(0), p, q).item() == pytest.approx(1e-8)

    def test_agrees_with_torch(self):
        prob, other = torch.rand(2, 2, 3, 4).softmax(dim=-1)
        p, q = DistInfo(prob=prob), DistInfo(prob=other)
        twin_p, twin_q = (torch.distributions.Categorical(x) for x in (prob, other))
        distribution = Categorical(dim=4)
        action = distribution.sample(p)
        assert action.shape == (2, 3)
        close = torch.testing.assert_close
        close(distribution.entropy(p), twin_p.entropy())
        close(distribution.kl(p, q), torch.distributions.kl_divergence(twin_p, twin_q))
        close(distribution.log_likelihood(action, p), twin_p.log_prob(action))
        ratio = (twin_q.log_prob(action) - twin_p.log_prob(action)).exp()
        close(distribution.likelihood_ratio(action, p, q), ratio)

    @pytest.mark.parametrize("acts", [False, True])
    def test_frequencies_of_unnormalised_probabilities(self, acts):
        probs = DistInfo(prob=torch.tensor([1.0, 0.0, 3.0]).expand(4000, 3))
        with ActingNoise(1, range(4000)) if acts else contextlib.nullcontext():
            counts = torch.bincount(Categorical(dim=3).sample(probs), minlength=3) / 4000
        assert counts[1] == 0
        torch.testing.assert_close(counts, torch.tensor([0.25, 0.0, 0.75]), atol=0.03, rtol=0)

    @pytest.mark.parametrize(
        "prob", [[0.5, math.nan], [0.5, math.inf], [1.5, -0.5], [0.0, 0.0]], ids=str
    )
    @pytest.mark.parametrize("acts", [False, True])
    def test_impossible_probabilities(self, prob, acts):
        """Of a network that diverged: an action would hide it."""
        probs = DistInfo(torch.tensor([[0.2, 0.8], prob]))
        noise = ActingNoise(1, range(2)) if acts else contextlib.nullcontext()
        with noise, pytest.raises(ValueError, match="negative, all 0 or not finite"):
            self.distribution.sample(probs)

    def test_means_count_valid_data_only(self):
        p = DistInfo(prob=torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
        q = DistInfo(prob=torch.tensor([[0.25, 0.75], [1.0, 0.0]]))
        d = self.distribution
        valid = torch.tensor([1.0, 0.0])
        assert d.mean_entropy(p, valid).item() == pytest.approx(math.log(2))
        assert d.mean_entropy(p).item() == pytest.approx(math.log(2) / 2, abs=1e-6)
        assert d.mean_perplexity(p, valid).item() == pytest.approx(2.0)
        assert d.mean_perplexity(p).item() == pytest.approx(1.5)
        assert d.mean_kl(p, q, valid).item() == pytest.approx(d.kl(p, q)[0].item())
        assert d.mean_kl(p, q).item() == pytest.approx(d.kl(p, q).mean().item())


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.dim,
        lambda d: d.sample(None),
        lambda d: d.kl(None, None),
        lambda d: d.log_likelihood(None, None),
        lambda d: d.likelihood_ratio(None, None, None),
        lambda d: d.mean_perplexity(None),
    ],
)
def test_interface_is_abstract(call):
    with pytest.raises(NotImplementedError):
        call(Distribution())

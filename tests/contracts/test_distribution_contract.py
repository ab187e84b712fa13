"""What every distribution over actions keeps, whatever its kind."""

import contextlib
import math

import numpy as np
import pytest
import torch

from rlpyt.distributions.box_gaussian import BoxGaussian
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.distributions.noise import ActingNoise
from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.collections import record_class


def choices(*lead, nvec=4):
    sizes = np.asarray(nvec)
    missing = torch.as_tensor(np.arange(sizes.max()) >= sizes[..., None])
    logits = torch.randn(*lead, *missing.shape, dtype=torch.double)
    return DistInfo(prob=logits.masked_fill(missing, -math.inf).softmax(-1))


def normal(*lead):
    mean, log_std = torch.randn(2, *lead, 3, dtype=torch.double)
    return DistInfoStd(mean=mean, log_std=log_std / 4)


def both(*lead):
    return record_class("Both", ("a", "b"))(choices(*lead), normal(*lead))


def multi(*lead):
    return choices(*lead, nvec=[2, 4, 3])


CASES = {
    "categorical": (Categorical(dim=4), choices),
    "gaussian": (Gaussian(dim=3), normal),
    "box": (BoxGaussian([-1.0, 0.0, -math.inf], [1.0, 9.0, math.inf]), normal),
    "multi": (MultiCategorical([2, 4, 3]), multi),
    "composite": (CompositeDistribution(["a", "b"], [Categorical(dim=4), Gaussian(dim=3)]), both),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 5)])
def test_leading_dimensions_are_kept(case, lead):
    d, make = case
    old, new = make(*lead), make(*lead)
    action = d.sample(old)
    quantities = {
        "log_likelihood": d.log_likelihood(action, old),
        "likelihood_ratio": d.likelihood_ratio(action, old_dist_info=old, new_dist_info=new),
        "kl": d.kl(old, new),
        "entropy": d.entropy(old),
        "perplexity": d.perplexity(old),
    }
    for name, value in quantities.items():
        assert value.shape == lead, name
        assert bool(torch.isfinite(value).all()), name
    for value in (d.mean_kl(old, new), d.mean_entropy(old), d.mean_perplexity(old)):
        assert value.shape == ()


def test_a_batch_is_its_parts(case):
    d, make = case
    p = make(4)
    action = d.sample(p)
    alone = torch.stack([d.log_likelihood(action[i], p[i]) for i in range(4)])
    torch.testing.assert_close(d.log_likelihood(action, p), alone)


def test_ratio_is_that_of_likelihoods(case):
    d, make = case
    old, new = make(50), make(50)
    action = d.sample(old)
    difference = d.log_likelihood(action, new) - d.log_likelihood(action, old)
    torch.testing.assert_close(d.likelihood_ratio(action, old, new), difference.exp())


def test_divergence_is_zero_from_itself_and_positive_from_others(case):
    d, make = case
    old, new = make(50), make(50)
    torch.testing.assert_close(d.kl(old, old), torch.zeros(50, dtype=torch.double))
    assert bool((d.kl(old, new) > 0).all())


def test_samples_repeat_with_the_seed(case):
    d, make = case
    p = make(20)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        parts = []
        map_buffer(lambda x, parts=parts: parts.append(x.reshape(-1).double()), d.sample(p))
        draws.append(torch.cat(parts))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("acts", [False, True], ids=["in training", "for a sampler"])
def test_likelihood_is_that_of_the_samples(case, acts):
    """Estimated by importance: the mean of q(a)/p(a) over a from p is 1."""
    torch.manual_seed(0)
    d, make = case
    old, new = make(), make()
    B, n_steps = 400, 100
    old, new = (map_buffer(lambda x: x.expand(B, *x.shape), info) for info in (old, new))
    middle = [(a + b) / 2 for a, b in zip(leaves(old), leaves(new), strict=True)]
    near = rebuilt(old, iter(middle))
    noise = ActingNoise(1, range(B)) if acts else contextlib.nullcontext()
    ratios = []
    for _ in range(n_steps):
        with noise:
            action = d.sample(old)
        ratios.append(d.likelihood_ratio(action, old, near))
    assert torch.stack(ratios).mean().item() == pytest.approx(1, abs=0.05)


def test_actions_for_a_sampler_do_not_depend_on_the_other_environments(case):
    d, make = case
    p = make(5)
    before = torch.get_rng_state()

    def steps(ranks):
        noise, found = ActingNoise(7, ranks), []
        for _ in range(3):
            with noise:
                found.append([x.clone() for x in leaves(d.sample(p[ranks]))])
        return found

    together, apart = steps([0, 1, 2, 3, 4]), [steps([3, 0]), steps([4])]
    for ranks, parts in zip(([3, 0], [4]), apart):
        for part, whole in zip(parts, together):
            assert all(torch.equal(x, y[ranks]) for x, y in zip(part, whole, strict=True))
    assert any(not torch.equal(x, y) for x, y in zip(together[0], together[1], strict=True))
    assert torch.equal(torch.get_rng_state(), before)


def leaves(buffer):
    found = []
    map_buffer(found.append, buffer)
    return found


def rebuilt(buffer, values):
    return map_buffer(lambda _: next(values), buffer)

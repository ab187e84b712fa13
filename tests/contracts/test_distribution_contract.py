"""What every distribution over actions keeps, whatever its kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.distributions.box_gaussian import BoxGaussian
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import Nested


def choices(*lead: int, nvec: Any = 4) -> Nested:
    sizes = np.asarray(nvec)
    missing = torch.as_tensor(np.arange(sizes.max()) >= sizes[..., None])
    logits = torch.randn(*lead, *missing.shape, dtype=torch.double)
    return DistInfo(prob=logits.masked_fill(missing, -math.inf).softmax(-1))


def normal(*lead: int) -> Nested:
    mean, log_std = torch.randn(2, *lead, 3, dtype=torch.double)
    return DistInfoStd(mean=mean, log_std=log_std / 4)


def both(*lead: int) -> Nested:
    return record_class("Both", ("a", "b"))(choices(*lead), normal(*lead))


def multi(*lead: int) -> Nested:
    return choices(*lead, nvec=[2, 4, 3])


CASES = {
    "categorical": (Categorical(dim=4), choices),
    "gaussian": (Gaussian(dim=3), normal),
    "box": (BoxGaussian([-1.0, 0.0, -math.inf], [1.0, 9.0, math.inf]), normal),
    "multi": (MultiCategorical([2, 4, 3]), multi),
    "composite": (CompositeDistribution(["a", "b"], [Categorical(dim=4), Gaussian(dim=3)]), both),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Any:
    return CASES[request.param]


@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 5)])
def test_leading_dimensions_are_kept(case: Any, lead: tuple[int, ...]) -> None:
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


def test_a_batch_is_its_parts(case: Any) -> None:
    d, make = case
    p = make(4)
    action = d.sample(p)
    alone = torch.stack([d.log_likelihood(action[i], p[i]) for i in range(4)])
    torch.testing.assert_close(d.log_likelihood(action, p), alone)


def test_ratio_is_that_of_likelihoods(case: Any) -> None:
    d, make = case
    old, new = make(50), make(50)
    action = d.sample(old)
    difference = d.log_likelihood(action, new) - d.log_likelihood(action, old)
    torch.testing.assert_close(d.likelihood_ratio(action, old, new), difference.exp())


def test_divergence_is_zero_from_itself_and_positive_from_others(case: Any) -> None:
    d, make = case
    old, new = make(50), make(50)
    torch.testing.assert_close(d.kl(old, old), torch.zeros(50, dtype=torch.double))
    assert bool((d.kl(old, new) > 0).all())


def test_samples_repeat_with_the_seed(case: Any) -> None:
    d, make = case
    p = make(20)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        parts: list[torch.Tensor] = []
        map_buffer(lambda x, parts=parts: parts.append(x.reshape(-1).double()), d.sample(p))
        draws.append(torch.cat(parts))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_likelihood_is_that_of_the_samples(case: Any) -> None:
    """Estimated by importance: the mean of q(a)/p(a) over a from p is 1."""
    torch.manual_seed(0)
    d, make = case
    old, new = make(), make()
    n = 40_000
    old, new = (map_buffer(lambda x: x.expand(n, *x.shape), info) for info in (old, new))
    middle = [(a + b) / 2 for a, b in zip(leaves(old), leaves(new), strict=True)]
    near = rebuilt(old, iter(middle))
    ratio = d.likelihood_ratio(d.sample(old), old, near)
    assert ratio.mean().item() == pytest.approx(1, abs=0.05)


def leaves(buffer: Nested) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    map_buffer(found.append, buffer)
    return found


def rebuilt(buffer: Nested, values: Any) -> Nested:
    return map_buffer(lambda _: next(values), buffer)

"""Records of actions of different kinds."""

import pytest
import torch

from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.utils.collections import namedarraytuple

Infos = namedarraytuple("Infos", ["turn", "force"])


def infos(*lead):
    return Infos(
        turn=DistInfo(prob=torch.randn(*lead, 3).softmax(-1)),
        force=DistInfoStd(mean=torch.randn(*lead, 2), log_std=torch.randn(*lead, 2) / 4),
    )


@pytest.fixture
def distribution():
    return CompositeDistribution(["turn", "force"], [Categorical(dim=3), Gaussian(dim=2)])


def test_is_the_sum_of_its_parts(distribution):
    lead = (2, 4)
    old, new = infos(*lead), infos(*lead)
    action = distribution.sample(old)
    assert action._fields == ("turn", "force")
    assert action.turn.shape == lead
    assert action.force.shape == (*lead, 2)
    turn, force = distribution.distributions
    close = torch.testing.assert_close
    logli = turn.log_likelihood(action.turn, old.turn)
    close(
        distribution.log_likelihood(action, old),
        logli + force.log_likelihood(action.force, old.force),
    )
    close(distribution.entropy(old), turn.entropy(old.turn) + force.entropy(old.force))
    close(distribution.kl(old, new), turn.kl(old.turn, new.turn) + force.kl(old.force, new.force))
    ratios = [
        part.likelihood_ratio(x, a, b)
        for part, x, a, b in zip((turn, force), action, old, new, strict=True)
    ]
    close(distribution.likelihood_ratio(action, old, new), ratios[0] * ratios[1])
    assert distribution.dim == 5
    assert distribution.mean_entropy(old).shape == ()


def test_parts_may_be_composite(distribution):
    outer = CompositeDistribution(["inner", "switch"], [distribution, Categorical(dim=2)])
    Outer = namedarraytuple("Outer", ["inner", "switch"])
    info = Outer(inner=infos(3), switch=DistInfo(prob=torch.full((3, 2), 0.5)))
    action = outer.sample(info)
    assert action.inner.force.shape == (3, 2)
    assert outer.log_likelihood(action, info).shape == (3,)

"""Settings that distributions refuse: calls, and what their errors name."""

import pytest
import torch

from rlpyt.distributions.box_gaussian import BoxGaussian
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy, EpsilonGreedy
from rlpyt.distributions.gaussian import Gaussian
from rlpyt.distributions.multi_categorical import MultiCategorical
from tests.refused import assert_refused


@pytest.mark.parametrize(
    ("call", "words"),
    [
        # Exploration drew from the outputs, so that other actions were never taken.
        (lambda: EpsilonGreedy(dim=3).sample(torch.ones(4, 2)), "2 values for 3 actions (4, 2)"),
        (lambda: Categorical(dim=2).sample(DistInfo(torch.ones(3))), "3 values for 2 actions"),
        (lambda: BoxGaussian([1.0], [0.0]), "above"),
        (lambda: CompositeDistribution(["a", "b"], [Categorical(dim=2)]), "1 ('a', 'b')"),
        (lambda: CategoricalEpsilonGreedy(dim=2).sample(torch.ones(2, 3) / 3), "z None set_z"),
        (lambda: Gaussian(dim=3, std=[1.0, 2.0]), "std (2,) scalar"),
        *(
            (lambda squash=squash: Gaussian(dim=2, squash=squash), "low high")
            for squash in (0.0, -1, [1.0, 0.0], [[0.0, 1.0], [1.0, 1.0]])
        ),
        *((lambda nvec=nvec: MultiCategorical(nvec), "at least 1") for nvec in ([], [3, 0])),
    ],
)
def test_refused(call, words):
    assert_refused(call, words)

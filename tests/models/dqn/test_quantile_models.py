"""Networks of quantiles: their fractions, and how these are embedded."""

import math

import pytest
import torch

from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel
from rlpyt.models.dqn.heads import ImplicitQuantileHeadModel
from rlpyt.models.dqn.mlp_quantile_model import MlpIqnModel

A, SMALL, OBS = 6, (2, 24, 20), (3, 2)


SMALL_CONV = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0], "fc_sizes": 8}
IQN_MODELS = [
    (AtariIqnModel(SMALL, A, **SMALL_CONV), SMALL),
    (AtariIqnModel(SMALL, A, n_cosines=3, dueling=True, **SMALL_CONV), SMALL),
    (MlpIqnModel(OBS, A), OBS),
    (MlpIqnModel(OBS, A, hidden_sizes=8, dueling=True), OBS),
]


def observations(lead, shape):
    if shape == SMALL:
        return torch.randint(256, lead + shape, dtype=torch.uint8)
    return torch.randn(lead + shape)


@pytest.mark.parametrize(("model", "shape"), IQN_MODELS)
class TestFractions:
    def test_each_observation_has_its_own(self, model, shape):
        observation, tau = observations((4, 3), shape), torch.rand(4, 3, 5)
        together = model(observation, None, None, tau)
        for t, b in [(0, 0), (3, 2)]:
            alone = model(observation[t, b], None, None, tau[t, b])
            torch.testing.assert_close(together[t, b], alone, rtol=1e-4, atol=1e-5)

    def test_each_quantile_depends_on_its_own(self, model, shape):
        observation, tau = observations((3,), shape), torch.rand(3, 5)
        before = model(observation, None, None, tau)
        moved = tau.clone()
        moved[:, 2] = 1 - moved[:, 2]
        after = model(observation, None, None, moved)
        is_equal = torch.isclose(before, after, atol=1e-6).flatten(0, 1).all(dim=0).tolist()
        assert is_equal == [True, True, False, True, True]


def test_embedding_like_its_naive_twin():
    head = ImplicitQuantileHeadModel(4, [5], 3, n_cosines=6)
    features, tau = torch.randn(2, 4), torch.rand(2, 7)
    found = head(features, tau)
    weight, bias = head.embedding.weight.tolist(), head.embedding.bias.tolist()
    for b in range(2):
        for n in range(7):
            phi = [
                max(
                    0.0,
                    bias[f]
                    + sum(
                        weight[f][i] * math.cos(math.pi * i * tau[b, n].item()) for i in range(6)
                    ),
                )
                for f in range(4)
            ]
            q = head.q(features[b] * torch.tensor(phi))
            torch.testing.assert_close(found[b, :, n], q, rtol=1e-4, atol=1e-5)


def test_only_hidden_layer_is_before_the_fractions():
    model = MlpIqnModel(OBS, A, hidden_sizes=8)
    assert list(model.body.parameters())[0].shape == (8, 6)
    assert {name: p.shape for name, p in model.head.q.named_parameters()} == {
        "model.0.weight": (A, 8),
        "model.0.bias": (A,),
    }

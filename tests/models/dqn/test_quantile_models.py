"""Networks of quantiles: layout, shapes, and the embedding of fractions."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch

from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel
from rlpyt.models.dqn.atari_qrdqn_model import AtariQrDqnModel
from rlpyt.models.dqn.heads import ImplicitQuantileHeadModel
from rlpyt.models.dqn.mlp_quantile_model import MlpIqnModel, MlpQrDqnModel

IMAGE, A = (4, 104, 80), 6
SMALL, OBS = (2, 24, 20), (3, 2)
CONV = {"conv.conv.0": (32, 4, 8, 8), "conv.conv.2": (64, 32, 4, 4), "conv.conv.4": (64, 64, 3, 3)}
STREAMS = {"advantage_hidden.model.0": (512, 6912), "value.model.0": (512, 6912)}
LAYOUTS = [
    (
        lambda: AtariQrDqnModel(IMAGE, A),
        {**CONV, "head.mlp.model.0": (512, 6912), "head.mlp.model.2": (A * 200, 512)},
        {},
    ),
    (
        lambda: AtariQrDqnModel(IMAGE, A, n_quantiles=10, dueling=True),
        {
            **CONV,
            **{f"head.{name}": shape for name, shape in STREAMS.items()},
            "head.value.model.2": (10, 512),
        },
        {"head.advantage_out.weight": (A * 10, 512), "head.advantage_bias": (10,)},
    ),
    (
        lambda: AtariIqnModel(IMAGE, A),
        {
            **CONV,
            "head.embedding": (6912, 64),
            "head.q.model.0": (512, 6912),
            "head.q.model.2": (A, 512),
        },
        {},
    ),
    (
        lambda: AtariIqnModel(IMAGE, A, n_cosines=5, dueling=True),
        {
            **CONV,
            "head.embedding": (6912, 5),
            **{f"head.q.{name}": shape for name, shape in STREAMS.items()},
            "head.q.value.model.2": (1, 512),
        },
        {"head.q.advantage_out.weight": (A, 512), "head.q.advantage_bias": (1,)},
    ),
    (
        lambda: MlpQrDqnModel(OBS, A, [9, 8]),
        {"body.model.0": (9, 6), "head.mlp.model.0": (8, 9), "head.mlp.model.2": (A * 200, 8)},
        {},
    ),
    (
        lambda: MlpIqnModel(OBS, A, [9, 8]),
        {
            "body.model.0": (9, 6),
            "head.embedding": (9, 64),
            "head.q.model.0": (8, 9),
            "head.q.model.2": (A, 8),
        },
        {},
    ),
]


@pytest.mark.parametrize(("make", "layers", "others"), LAYOUTS)
def test_state_dict_layout(make: Any, layers: dict[str, Any], others: dict[str, Any]) -> None:
    """Keys and shapes are part of the format of snapshots."""
    expected = dict(others)
    for name, shape in layers.items():
        expected[f"{name}.weight"], expected[f"{name}.bias"] = shape, shape[:1]
    assert {name: tuple(value.shape) for name, value in make().state_dict().items()} == expected


SMALL_CONV = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0], "fc_sizes": 8}
QR_MODELS = [
    (AtariQrDqnModel(SMALL, A, 5, **SMALL_CONV), SMALL),
    (AtariQrDqnModel(SMALL, A, 5, dueling=True, use_maxpool=True, **SMALL_CONV), SMALL),
    (MlpQrDqnModel(OBS, A, n_quantiles=5), OBS),
    (MlpQrDqnModel(OBS, A, hidden_sizes=None, dueling=True, n_quantiles=5), OBS),
]
IQN_MODELS = [
    (AtariIqnModel(SMALL, A, **SMALL_CONV), SMALL),
    (AtariIqnModel(SMALL, A, n_cosines=3, dueling=True, **SMALL_CONV), SMALL),
    (MlpIqnModel(OBS, A), OBS),
    (MlpIqnModel(OBS, A, hidden_sizes=8, dueling=True), OBS),
]
LEADING_DIMS = [(), (1,), (3,), (1, 1), (4, 3)]


def observations(lead: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
    if shape == SMALL:
        return torch.randint(256, lead + shape, dtype=torch.uint8)
    return torch.randn(lead + shape)


@pytest.mark.parametrize(("model", "shape"), QR_MODELS + IQN_MODELS)
@pytest.mark.parametrize("lead", LEADING_DIMS)
def test_leading_dims_are_restored(model: Any, shape: Any, lead: tuple[int, ...]) -> None:
    tau = [torch.rand(*lead, 5)] if hasattr(model.head, "embedding") else []
    quantiles = model(observations(lead, shape), None, None, *tau)
    assert quantiles.shape == (*lead, A, 5)
    quantiles.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    twin = pickle.loads(pickle.dumps(model))
    observation = observations(lead, shape)
    assert torch.equal(twin(observation, None, None, *tau), model(observation, None, None, *tau))


@pytest.mark.parametrize(("model", "shape"), IQN_MODELS)
class TestFractions:
    def test_each_observation_has_its_own(self, model: Any, shape: Any) -> None:
        observation, tau = observations((4, 3), shape), torch.rand(4, 3, 5)
        together = model(observation, None, None, tau)
        for t, b in [(0, 0), (3, 2)]:
            alone = model(observation[t, b], None, None, tau[t, b])
            torch.testing.assert_close(together[t, b], alone, rtol=1e-4, atol=1e-5)

    def test_each_quantile_depends_on_its_own(self, model: Any, shape: Any) -> None:
        observation, tau = observations((3,), shape), torch.rand(3, 5)
        before = model(observation, None, None, tau)
        moved = tau.clone()
        moved[:, 2] = 1 - moved[:, 2]
        after = model(observation, None, None, moved)
        is_equal = torch.isclose(before, after, atol=1e-6).flatten(0, 1).all(dim=0).tolist()
        assert is_equal == [True, True, False, True, True]


def test_embedding_like_its_naive_twin() -> None:
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


def test_only_hidden_layer_is_before_the_fractions() -> None:
    model = MlpIqnModel(OBS, A, hidden_sizes=8)
    assert list(model.body.parameters())[0].shape == (8, 6)
    assert {name: p.shape for name, p in model.head.q.named_parameters()} == {
        "model.0.weight": (A, 8),
        "model.0.bias": (A,),
    }

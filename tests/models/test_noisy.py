"""Noisy layers: noise, modes, state; and the networks that have them."""

import copy
import io
import math

import numpy as np
import pytest
import torch

from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel
from rlpyt.models.dqn.atari_qrdqn_model import AtariQrDqnModel
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel
from rlpyt.models.dqn.mlp_quantile_model import MlpIqnModel, MlpQrDqnModel
from rlpyt.models.mlp import MlpModel
from rlpyt.models.noisy import NoisyLinear, draw_noise, is_noisy, noisy_layers, remove_noise


def naive(layer, input):
    """One number after the other."""
    assert layer._noise is not None
    noise_out, noise_in = (noise.tolist() for noise in layer._noise)
    w, w_sigma = layer.weight.tolist(), layer.weight_sigma.tolist()
    b = [0.0] * len(w) if layer.bias is None else layer.bias.tolist()
    b_sigma = [0.0] * len(w) if layer.bias_sigma is None else layer.bias_sigma.tolist()
    outputs = []
    for x in input.tolist():
        outputs.append([])
        for j in range(len(w)):
            y = b[j] + b_sigma[j] * noise_out[j]
            for i in range(len(x)):
                y += (w[j][i] + w_sigma[j][i] * noise_out[j] * noise_in[i]) * x[i]
            outputs[-1].append(y)
    return outputs


@pytest.mark.parametrize("bias", [True, False])
def test_like_its_naive_twin(bias):
    layer = NoisyLinear(5, 4, bias=bias)
    torch.nn.init.normal_(layer.weight_sigma)
    x = torch.randn(3, 5)
    layer.eval().draw_noise()
    assert torch.allclose(layer(x), torch.tensor(naive(layer, x)), atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_training_and_frozen_noise_compute_the_same(bias):
    layer = NoisyLinear(5, 4, bias=bias)
    x, weights = torch.randn(3, 5), torch.randn(3, 4)
    outputs, gradients = [], []
    for training in (True, False):
        torch.manual_seed(0)
        layer.train(training).draw_noise()
        torch.manual_seed(0)
        outputs.append(layer(x))
        layer.zero_grad()
        (outputs[-1] * weights).sum().backward()
        gradients.append([p.grad.clone() for p in layer.parameters() if p.grad is not None])
    assert torch.allclose(*outputs, atol=1e-6)
    assert len(gradients[0]) == (4 if bias else 2)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


class TestModes:
    x = torch.ones(2, 3)

    def test_noise_is_frozen_until_it_is_drawn_again(self):
        layer, plain = NoisyLinear(3, 4).eval(), torch.nn.Linear(3, 4)
        plain.load_state_dict({"weight": layer.weight, "bias": layer.bias})
        mean = layer(self.x)
        assert torch.equal(mean, plain(self.x)), "a new layer has none"
        layer.draw_noise()
        before = torch.get_rng_state()
        first = layer(self.x)
        assert torch.equal(layer(self.x), first)
        assert torch.equal(torch.get_rng_state(), before)
        assert not torch.allclose(first, mean)
        layer.train()(self.x)
        assert torch.equal(layer.eval()(self.x), first), "training leaves it"
        layer.draw_noise()
        assert not torch.allclose(layer(self.x), first)
        layer.remove_noise()
        assert torch.equal(layer(self.x), mean)

    def test_every_call_in_training_has_its_own_noise_shared_by_the_batch(self):
        layer = NoisyLinear(3, 4)
        first, second = layer(self.x), layer(self.x)
        assert not torch.allclose(first, second)
        assert torch.allclose(first[0], first[1])

    def test_the_gradient_is_that_of_the_noise_of_its_call(self):
        """Between forward and backward pass the same layer chooses actions, as in double DQN."""
        gradients = []
        for is_called_between in (False, True):
            torch.manual_seed(3)
            layer = NoisyLinear(2, 1)
            y = layer(torch.ones(2, 2)).sum()
            if is_called_between:
                layer(torch.ones(2, 2))
                layer.draw_noise()
            y.backward()
            gradients.append(layer.weight_sigma.grad)
        assert torch.equal(*gradients)


def test_statistics_of_the_noise():
    """f(e) has mean 0 and variance E|e| = sqrt(2 / pi), and so has each factor of the weights."""
    layer = NoisyLinear(300, 200).eval()
    layer.draw_noise()
    assert layer._noise is not None
    out, in_ = layer._noise
    assert out.shape == (200,)
    assert in_.shape == (300,)
    f = torch.cat([torch.cat(layer._new_noise()) for _ in range(200)])
    assert f.mean().item() == pytest.approx(0, abs=0.01)
    assert f.var().item() == pytest.approx(math.sqrt(2 / math.pi), rel=0.02)
    assert (f**4).mean().item() == pytest.approx(1, rel=0.05), "f(e)^4 = e^2"


def test_initial_parameters():
    layer = NoisyLinear(16, 1000)
    for mean in (layer.weight, layer.bias):
        assert 0.2 < mean.abs().max().item() <= 1 / 4
    for sigma in (layer.weight_sigma, layer.bias_sigma):
        assert sigma is not None
        assert torch.equal(sigma, torch.full_like(sigma, 0.5 / 4))
    assert NoisyLinear(16, 2, sigma_init=0.1).weight_sigma[0, 0].item() == pytest.approx(0.1 / 4)


def test_state_is_means_and_deviations():
    layer = NoisyLinear(2, 3)
    layer.draw_noise()
    assert list(layer.state_dict()) == ["weight", "bias", "weight_sigma", "bias_sigma"]
    assert list(NoisyLinear(2, 3, bias=False).state_dict()) == ["weight", "weight_sigma"]
    assert list(layer.buffers()) == []


def test_copies_have_the_noise_of_the_original():
    layer, x = NoisyLinear(2, 3).eval(), torch.ones(2)
    layer.draw_noise()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for twin in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        assert torch.equal(twin(x), layer(x))
        twin.draw_noise()
        assert not torch.equal(twin(x), layer(x))


def test_noise_moves_with_the_parameters():
    layer, x = NoisyLinear(2, 3).eval(), torch.ones(2)
    layer.draw_noise()
    before = layer(x)
    layer.double()
    assert torch.allclose(layer(x.double()), before.double())
    layer.share_memory()
    assert layer.weight_sigma.is_shared()
    assert torch.allclose(layer(x.double()), before.double())


def test_functions_reach_all_layers():
    model = MlpModel(2, [3, 3], 1, LinearCls=NoisyLinear).eval()
    x = torch.ones(2)
    mean = model(x)
    assert is_noisy(model)
    assert not is_noisy(MlpModel(2, [3], 1))
    draw_noise(model)
    assert all(layer._noise is not None for layer in noisy_layers(model))
    assert len(list(noisy_layers(model))) == 3
    assert model(x).item() != mean.item()
    remove_noise(model)
    assert model(x).item() == mean.item()


def test_numbers_of_a_generator_are_dealt_to_the_layers_in_order():
    """Those of its outputs first, then those of its inputs."""
    model = MlpModel(2, [3, 4], 1, LinearCls=NoisyLinear)
    draw_noise(model, np.random.default_rng(3))
    rest = np.random.default_rng(3).standard_normal(5 + 7 + 5, np.float32).tolist()
    for layer in noisy_layers(model):
        for part, n in zip(layer._noise, (layer.out_features, layer.in_features), strict=True):
            e, rest = rest[:n], rest[n:]
            expected = [math.copysign(math.sqrt(abs(x)), x) for x in e]
            assert part.tolist() == pytest.approx(expected)
    assert rest == []


IMAGE = (2, 24, 20)
CONV = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0], "fc_sizes": 8}
NOISY_MODELS = [
    lambda **kwargs: AtariDqnModel(IMAGE, 3, **CONV, **kwargs),
    lambda **kwargs: AtariCatDqnModel(IMAGE, 3, **CONV, **kwargs),
    lambda **kwargs: AtariQrDqnModel(IMAGE, 3, **CONV, **kwargs),
    lambda **kwargs: AtariIqnModel(IMAGE, 3, **CONV, **kwargs),
    lambda **kwargs: MlpDqnModel((2,), 3, **kwargs),
    lambda **kwargs: MlpCatDqnModel((2,), 3, **kwargs),
    lambda **kwargs: MlpQrDqnModel((2,), 3, **kwargs),
    lambda **kwargs: MlpIqnModel((2,), 3, **kwargs),
]


@pytest.mark.parametrize("make", NOISY_MODELS)
@pytest.mark.parametrize("dueling", [False, True])
class TestNetworks:
    def test_keys_are_those_without_noise_and_sigmas(self, make, dueling):
        """So that a network can start from means that were trained without noise."""
        plain = make(dueling=dueling).state_dict()
        noisy = make(dueling=dueling, noisy=True).state_dict()
        assert plain.keys() <= noisy.keys()
        added = noisy.keys() - plain.keys()
        linear = {name for name in plain if name.startswith("head.") and "embedding" not in name}
        linear.discard("head.advantage_bias")
        linear.discard("head.q.advantage_bias")
        assert added == {f"{name}_sigma" for name in linear}

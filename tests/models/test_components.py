"""Perceptron, convolutions, dueling heads."""

import pickle

import numpy as np
import pytest
import torch

from rlpyt.models.conv2d import Conv2dHeadModel, Conv2dModel
from rlpyt.models.dqn.atari_catdqn_model import DistributionalHeadModel
from rlpyt.models.dqn.dueling import DistributionalDuelingHeadModel, DuelingHeadModel
from rlpyt.models.mlp import FastSequential, MlpModel


class TestMlp:
    @pytest.mark.parametrize("hidden_sizes", [[8, 6], (8, 6), np.array([8, 6])])
    def test_sequences_of_any_kind(self, hidden_sizes):
        """A tuple raised TypeError."""
        model = MlpModel(4, hidden_sizes, 3)
        shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        assert shapes == {
            "model.0.weight": (8, 4),
            "model.0.bias": (8,),
            "model.2.weight": (6, 8),
            "model.2.bias": (6,),
            "model.4.weight": (3, 6),
            "model.4.bias": (3,),
        }
        assert model.output_size == 3

    @pytest.mark.parametrize(
        ("hidden_sizes", "output_size", "expected"),
        [
            (8, None, 8),
            (np.int64(8), 2, 2),
            (None, 2, 2),
            ([], 2, 2),
            (None, None, 4),
            ([], None, 4),
        ],
    )
    def test_output_size(self, hidden_sizes, output_size, expected):
        """Empty hidden_sizes without output raised IndexError."""
        model = MlpModel(4, hidden_sizes, output_size)
        assert model.output_size == expected
        assert model(torch.rand(5, 4)).shape == (5, expected)

    def test_nonlinearity_is_behind_hidden_layers_only(self):
        model = MlpModel(1, 1, 1, nonlinearity=torch.nn.Tanh)
        for parameter in model.parameters():
            torch.nn.init.constant_(parameter, 2.0)
        expected = 2 * torch.tanh(torch.tensor([2 * 3.0 + 2])) + 2
        torch.testing.assert_close(model(torch.tensor([3.0])), expected)
        assert isinstance(MlpModel(1, 1, nonlinearity=torch.nn.Tanh).model[-1], torch.nn.Tanh)


class TestFastSequential:
    """Layers that are computed by hand."""

    def layers(self):
        torch.manual_seed(0)
        relu, tanh = torch.nn.ReLU, torch.nn.Tanh
        first, second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 5, bias=False)
        return [relu(), first, relu(), relu(), second, tanh(), torch.nn.Linear(5, 2)]

    @pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 5, 4)])
    def test_bits_are_those_of_sequential(self, shape):
        layers, x = self.layers(), torch.randn(shape, requires_grad=True)
        results = []
        for cls in (torch.nn.Sequential, FastSequential):
            output = cls(*layers)(x)
            parameters = [p for layer in layers for p in layer.parameters()]
            gradients = torch.autograd.grad(output.square().sum(), [x, *parameters])
            results.append([output, *gradients])
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))

    def test_input_and_outputs_that_a_hook_keeps_are_not_overwritten(self):
        layers, seen = FastSequential(*self.layers()), {}
        for i, layer in enumerate(layers):
            layer.register_forward_hook(lambda module, x, y, i=i: seen.update({i: y}))
        x = torch.randn(3, 4)
        before = x.clone()
        output = layers(x)
        assert torch.equal(x, before)
        for i, layer in enumerate(layers):
            x = layer.forward(x)
            assert torch.equal(seen[i], x)
        assert torch.equal(output, x)

    @pytest.mark.parametrize("kind", ["forward_pre", "full_backward", "full_backward_pre"])
    def test_other_hooks_are_called(self, kind):
        layers, called = FastSequential(*self.layers()), []
        for i, layer in enumerate(layers):
            getattr(layer, f"register_{kind}_hook")(lambda *args, i=i: called.append(i))
        layers(torch.randn(4, 4, requires_grad=True)).sum().backward()
        assert sorted(called) == list(range(7))


class TestConv2d:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
    def test_images_of_any_type(self, dtype):
        model = Conv2dModel(3, [4], [2], [1])
        images = torch.randint(256, (2, 3, 5, 5)).to(dtype)
        torch.testing.assert_close(model(images), model(images.float()))
        assert model.double()(images).dtype == torch.float64

    def test_layers_and_size(self):
        model = Conv2dModel(4, (32, 64, 64), (8, 4, 3), (4, 2, 1), (0, 1, 1))
        assert [type(layer).__name__ for layer in model.conv] == ["Conv2d", "ReLU"] * 3
        assert model(torch.rand(2, 4, 104, 80)).shape == (2, 64, 12, 9)
        assert model.conv_out_size(104, 80) == 64 * 12 * 9

    def test_maxpool_instead_of_strides(self):
        model = Conv2dModel(1, [2, 3], [3, 3], [2, 1], use_maxpool=True)
        names = [type(layer).__name__ for layer in model.conv]
        assert names == ["Conv2d", "ReLU", "MaxPool2d", "Conv2d", "ReLU"]
        assert model.conv[0].stride == (1, 1)
        # 10 -> 8 (convolution) -> 4 (pooling) -> 2 (convolution).
        assert model(torch.rand(2, 1, 10, 10)).shape == (2, 3, 2, 2)
        assert model.conv_out_size(10, 10) == 12

    @pytest.mark.parametrize("use_maxpool", [False, True])
    def test_one_layer_rectangular(self, use_maxpool):
        model = Conv2dModel(1, 2, [(3, 5)], [(2, 1)], 1, use_maxpool=use_maxpool)
        assert model(torch.rand(1, 1, 12, 12)).numel() == model.conv_out_size(12, 12)

    def test_no_layers(self):
        model = Conv2dModel(3, [], [], [])
        assert model.conv_out_size(4, 5, c=3) == 60


class TestConv2dHead:
    @pytest.mark.parametrize("hidden_sizes", [None, []])
    def test_without_head(self, hidden_sizes):
        """Stored a lambda, which does not pickle."""
        model = Conv2dHeadModel((1, 10, 10), [2], [3], [1], hidden_sizes)
        images = torch.rand(3, 1, 10, 10)
        assert model.output_size == 2 * 8 * 8
        assert list(model.state_dict()) == ["conv.conv.0.weight", "conv.conv.0.bias"]
        copy = pickle.loads(pickle.dumps(model))
        assert torch.equal(copy(images), model(images))
        assert torch.equal(model(images), model.conv(images).flatten(1))

    def test_memory_format_does_not_change_the_order_of_features(self):
        model = Conv2dHeadModel((3, 10, 10), [4], [3], [2], hidden_sizes=None)
        images = torch.rand(2, 3, 10, 10)
        channels_last = images.contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(model(channels_last), model(images))


class TestDueling:
    def test_is_value_plus_centred_advantage(self):
        model = DuelingHeadModel(4, [5], 3)
        torch.nn.init.constant_(model.advantage_bias, 7.0)
        x = torch.rand(6, 4)
        q = model(x)
        torch.testing.assert_close(q.mean(dim=-1), model.value(x).squeeze(-1))
        torch.testing.assert_close(q - q[:, :1], model.advantage(x) - model.advantage(x)[:, :1])
        # The shared bias is part of the advantage but cancels in the action values.
        assert model.advantage(torch.zeros(1, 4)).mean() > 5

    def test_distributional_centres_each_atom(self):
        model = DistributionalDuelingHeadModel(4, [5], output_size=3, n_atoms=2)
        x = torch.rand(6, 4)
        logits = model(x)
        assert logits.shape == model.advantage(x).shape == (6, 3, 2)
        torch.testing.assert_close(logits.mean(dim=1), model.value(x))
        # Output i is action i // n_atoms, atom i % n_atoms; biases begin at 0.
        outputs = model.advantage_out(model.advantage_hidden(x))
        assert torch.equal(model.advantage(x)[:, 1, 0], outputs[:, 2])

    def test_both_streams_are_normalized(self):
        model = DuelingHeadModel(4, [5], 3, layer_norm=True)
        for stream in (model.advantage_hidden, model.value):
            assert sum(isinstance(layer, torch.nn.LayerNorm) for layer in stream.modules()) == 1

    @pytest.mark.parametrize("kwargs", [{}, {"grad_scale": 0.25}])
    @pytest.mark.parametrize("distributional", [False, True])
    def test_gradient_into_the_input_is_scaled(self, distributional, kwargs):
        head: torch.nn.Module
        if distributional:
            head = DistributionalDuelingHeadModel(4, [5], 3, 2, **kwargs)
        else:
            head = DuelingHeadModel(4, [5], 3, **kwargs)
        x = torch.rand(2, 4, requires_grad=True)
        head(x)[0, 0].sum().backward()
        scaled, x.grad = x.grad, None
        head._grad_scale = 1.0
        head(x)[0, 0].sum().backward()
        torch.testing.assert_close(scaled, x.grad * kwargs.get("grad_scale", 2**-0.5))


def test_distributional_head():
    model = DistributionalHeadModel(4, [5], output_size=3, n_atoms=2)
    x = torch.rand(6, 4)
    # Output i of the perceptron is action i // n_atoms, atom i % n_atoms.
    assert torch.equal(model(x)[:, 1, 0], model.mlp(x)[:, 2])
    assert model(x).shape == (6, 3, 2)

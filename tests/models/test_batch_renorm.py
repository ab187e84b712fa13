"""Batch renormalization: by hand, its gradients, its modes, and in two processes."""

import pytest
import torch

from rlpyt.models.batch_renorm import BatchRenorm, renorm_layers, running_statistics
from rlpyt.models.mlp import MlpModel
from tests.forked import in_two_ranks


def column(*values):
    return torch.tensor(values).unsqueeze(-1)


def state_of(layer):
    return tuple(x.item() for x in layer.buffers())


def test_table():
    layer = BatchRenorm(1, eps=1e-12, momentum=0.75, warm_up=1)
    with torch.no_grad():
        layer.weight.fill_(2)
        layer.bias.fill_(-1)
    mean, var = 0.0, 1.0
    for i, (x, y, m, v) in enumerate(
        [
            ((0, 2), (-1, 1), 1, 1),  # The first batch is not corrected.
            ((2, 6), (1.75, 5.75), 4, 4),  # r = 2 and d = 3.75: as by the averages, 0.25 and 1.
            ((10, 50), (-3 + 5, 3 + 5), 30, 400),  # r = 15 and d = 22 become 3 and 5.
            ((-90.1, -89.9), (-1 / 3 - 5, 1 / 3 - 5), -90, 0.01),  # Become 1 / 3 and -5.
        ]
    ):
        expected = [2 * y[0] - 1, 2 * y[1] - 1]
        assert layer(column(*x)).flatten().tolist() == pytest.approx(expected, rel=1e-3)
        mean, var = 0.75 * mean + 0.25 * m, 0.75 * var + 0.25 * v
        assert state_of(layer) == pytest.approx((mean, var, i + 1))
    layer.eval()
    torch.testing.assert_close(layer(column(1, 5)), 2 * (column(1, 5) - mean) / var**0.5 - 1)
    assert state_of(layer) == pytest.approx((mean, var, 4))


@pytest.mark.parametrize("warm_up", [0, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_are_those_of_the_formula(warm_up, seed):
    torch.manual_seed(seed)
    layer = BatchRenorm(3, warm_up=warm_up).double()
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    torch.nn.init.normal_(layer.running_mean)
    layer.running_var.uniform_(0.5, 2)
    x = (torch.tensor([0.1, 2.0, 20.0]) * torch.randn(6, 3)).double().requires_grad_()
    m, s = x.mean(0), (x.var(0, correction=0) + 1e-3).sqrt()
    M, S = layer.running_mean.clone(), (layer.running_var + 1e-3).sqrt()
    r = (s / S).clamp(1 / 3, 3).detach() if warm_up == 0 else 1.0
    d = ((m - M) / S).clamp(-5, 5).detach() if warm_up == 0 else 0.0
    expected = layer.weight * ((x - m) / s * r + d) + layer.bias
    y = layer(x)
    torch.testing.assert_close(y, expected)
    noise = torch.randn_like(y)
    inputs = (x, layer.weight, layer.bias)
    found, wanted = (torch.autograd.grad((out * noise).sum(), inputs) for out in (y, expected))
    torch.testing.assert_close(found, wanted)


def test_statistics_move_in_training_with_gradients_only():
    network = torch.nn.Sequential(MlpModel(2, [3], 1, batch_renorm=True), torch.nn.Dropout())

    def counts():
        return [x.item() for x in network.buffers() if not x.is_floating_point()]

    network(torch.randn(4, 2))
    assert counts() == [1, 1]
    with torch.no_grad():
        network(torch.randn(1, 2))
    with running_statistics(renorm_layers(network, torch.nn.Linear(1, 1))):
        assert network[1].training
        network(torch.randn(4, 2)).sum().backward()
    assert all(module.training for module in network.modules())
    network.eval()
    with running_statistics(renorm_layers(network)):
        network(torch.randn(4, 2))
    assert not any(module.training for module in network.modules())
    assert counts() == [1, 1]


def test_leading_dimensions_are_one_batch():
    x = torch.randn(4, 5, 3)
    folded, whole = BatchRenorm(3), BatchRenorm(3)
    assert torch.equal(folded(x.reshape(20, 3)).reshape(4, 5, 3), whole(x))
    assert torch.equal(whole.eval()(x[0, 0]), whole(x)[0, 0])


def test_layers_of_a_perceptron():
    model = MlpModel(4, [8, 6], 3, layer_norm=True, batch_renorm=True).model
    hidden = ["BatchRenorm", "Linear", "LayerNorm", "ReLU"]
    assert [type(layer).__name__ for layer in model] == [*hidden, *hidden, "BatchRenorm", "Linear"]
    sizes = [len(layer.bias) for layer in model if isinstance(layer, BatchRenorm)]
    assert sizes == [4, 8, 6]


def normalize_in_one_of_two(rank):
    layer = BatchRenorm(1, momentum=0.5)
    y = layer(column(0, 2) if rank == 0 else column(4, 10))
    return y.flatten().tolist(), state_of(layer)


def test_processes_keep_the_same_statistics(tmp_path):
    for y, state in in_two_ranks(normalize_in_one_of_two, tmp_path / "store"):
        assert y == pytest.approx([-1, 1], rel=1e-3)  # By the own batch.
        assert state == (0.5 * (1 + 7) / 2, 0.5 + 0.5 * (1 + 9) / 2, 1)

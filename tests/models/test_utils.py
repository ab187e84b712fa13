"""Convolution sizes, gradient scaling, modes, copying of parameters."""

from collections import OrderedDict

import pytest
import torch

from rlpyt.models.utils import (
    conv2d_output_shape,
    scale_grad,
    strip_ddp_state_dict,
    update_state_dict,
)


@pytest.mark.parametrize("kernel_size", [3, (2, 4)])
@pytest.mark.parametrize("stride", [1, (3, 2)])
@pytest.mark.parametrize("padding", [0, (1, 2)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_conv2d_output_shape_is_that_of_torch(kernel_size, stride, padding, dilation):
    conv = torch.nn.Conv2d(1, 1, kernel_size, stride, padding, dilation)
    shape = conv2d_output_shape(13, 17, kernel_size, stride, padding, dilation)
    assert shape == conv(torch.zeros(1, 1, 13, 17)).shape[2:]


def test_scale_grad():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = scale_grad(x, 0.5)
    assert torch.equal(y, x)
    (3 * y).sum().backward()
    assert x.grad.tolist() == [1.5, 1.5]


def models():
    """Two networks with parameters, float buffers, and an integer buffer."""
    old, new = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    torch.nn.init.constant_(new.weight, 5.0)
    new.running_mean.fill_(4.0)
    new.num_batches_tracked.fill_(7)
    return old, new


def same(a, b):
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


class TestUpdateStateDict:
    @pytest.mark.parametrize(
        ("tau", "weight", "running_mean", "n_batches"),
        [(1, 5.0, 4.0, 7), (0.25, 2.0, 1.0, 7), (0, 1.0, 0.0, 0)],
    )
    def test_table(self, tau, weight, running_mean, n_batches):
        """A soft update raised an error at integer buffers."""
        old, new = models()
        parameter = old.weight
        update_state_dict(old, new.state_dict(), tau)
        assert old.weight is parameter
        assert old.weight.requires_grad
        assert old.weight.tolist() == [weight] * 2
        assert old.running_mean.tolist() == [running_mean] * 2
        assert old.num_batches_tracked.item() == n_batches
        assert new.weight.tolist() == [5.0] * 2

    @pytest.mark.parametrize("tau", [1, 0.25])
    def test_ddp_prefix(self, tau):
        old, new = models()
        wrapped = {f"module.{name}": value for name, value in new.state_dict().items()}
        update_state_dict(old, wrapped, tau)
        assert old.weight[0].item() == 4 * tau + 1
        with pytest.raises((RuntimeError, ValueError), match=r"module\.weight"):
            update_state_dict(old, wrapped, tau, strip_ddp=False)

    @pytest.mark.parametrize("tau", [1, 0.25])
    def test_part_called_module(self, tau):
        """Its names lost their first word, and did not fit any more."""
        old, new = (torch.nn.Sequential(OrderedDict(module=model)) for model in models())
        update_state_dict(old, new.state_dict(), tau)
        assert old.module.weight[0].item() == 4 * tau + 1

    def test_modules_of_two_names_move_once(self):
        """They moved once for each name."""
        old, new = (torch.nn.Linear(1, 1) for _ in range(2))
        torch.nn.init.constant_(old.weight, 0.0)
        torch.nn.init.constant_(new.weight, 1.0)
        target, model = (torch.nn.ModuleDict({"a": layer, "b": layer}) for layer in (old, new))
        update_state_dict(target, model.state_dict(), 0.25)
        assert old.weight.item() == 0.25

    @pytest.mark.parametrize("prefix", ["", "module."])
    def test_further_entries_are_ignored(self, prefix):
        """A momentum encoder follows a network with more parts; this raised an error."""
        old, new = models()
        state = {**new.state_dict(), "head.weight": torch.ones(1)}
        update_state_dict(old, {prefix + name: value for name, value in state.items()}, 0.25)
        assert old.weight.tolist() == [2.0] * 2


def test_strip_ddp_state_dict():
    stripped = strip_ddp_state_dict({"module.a.module.b": 1, "c": 2})
    assert stripped == OrderedDict([("a.module.b", 1), ("c", 2)])
    assert isinstance(stripped, OrderedDict)

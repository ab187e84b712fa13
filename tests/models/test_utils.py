"""Convolution sizes, gradient scaling, modes, copying of parameters."""

from collections import OrderedDict

import pytest
import torch

from rlpyt.models.utils import (
    TargetNetwork,
    conv2d_output_shape,
    scale_grad,
    set_training,
    strip_ddp_state_dict,
    update_state_dict,
)


@pytest.mark.parametrize("kernel_size", [3, (2, 4)])
@pytest.mark.parametrize("stride", [1, (3, 2)])
@pytest.mark.parametrize("padding", [0, (1, 2)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_conv2d_output_shape_is_that_of_torch(kernel_size, stride, padding, dilation) -> None:
    conv = torch.nn.Conv2d(1, 1, kernel_size, stride, padding, dilation)
    shape = conv2d_output_shape(13, 17, kernel_size, stride, padding, dilation)
    assert shape == conv(torch.zeros(1, 1, 13, 17)).shape[2:]


def test_scale_grad() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = scale_grad(x, 0.5)
    assert torch.equal(y, x)
    (3 * y).sum().backward()
    assert x.grad.tolist() == [1.5, 1.5]


class Frozen(torch.nn.BatchNorm1d):
    """Statistics that training leaves alone."""

    def train(self, mode: bool = True) -> "Frozen":
        return super().train(False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of torch.jit.
def test_set_training_is_that_of_torch() -> None:
    def network() -> torch.nn.Module:
        scripted = torch.jit.script(torch.nn.Dropout())
        return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(Frozen(2), scripted))

    one, other = network(), network()
    for mode in (True, False, False, True):
        set_training(one, mode)
        other.train(mode)
        modes = [module.training for module in one.modules()]
        assert modes == [module.training for module in other.modules()]
        assert modes == [mode, mode, mode, False, mode]
        assert (one[1][1](torch.ones(9, 9)) == 1).all() != mode  # Code in C++ knows too.


def models() -> tuple[torch.nn.BatchNorm1d, torch.nn.BatchNorm1d]:
    """Two networks with parameters, float buffers, and an integer buffer."""
    old, new = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    torch.nn.init.constant_(new.weight, 5.0)
    new.running_mean.fill_(4.0)
    new.num_batches_tracked.fill_(7)
    return old, new


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


class TestUpdateStateDict:
    @pytest.mark.parametrize(
        ("tau", "weight", "running_mean", "n_batches"),
        [(1, 5.0, 4.0, 7), (0.25, 2.0, 1.0, 7), (0, 1.0, 0.0, 0)],
    )
    def test_table(self, tau: float, weight: float, running_mean: float, n_batches: int) -> None:
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
    def test_ddp_prefix(self, tau: float) -> None:
        old, new = models()
        wrapped = {f"module.{name}": value for name, value in new.state_dict().items()}
        update_state_dict(old, wrapped, tau)
        assert old.weight[0].item() == 4 * tau + 1
        with pytest.raises((RuntimeError, ValueError), match=r"module\.weight"):
            update_state_dict(old, wrapped, tau, strip_ddp=False)

    @pytest.mark.parametrize("tau", [1, 0.25])
    def test_part_called_module(self, tau: float) -> None:
        """Its names lost their first word, and did not fit any more."""
        old, new = (torch.nn.Sequential(OrderedDict(module=model)) for model in models())
        update_state_dict(old, new.state_dict(), tau)
        assert old.module.weight[0].item() == 4 * tau + 1

    @pytest.mark.parametrize("tau", [-0.1, 1.1])
    def test_tau_out_of_range(self, tau: float) -> None:
        old, new = models()
        with pytest.raises(ValueError, match=f"tau={tau}"):
            update_state_dict(old, new.state_dict(), tau)

    def test_other_layout(self) -> None:
        old, _ = models()
        with pytest.raises(ValueError, match=r"state_dict lacks.*running_mean"):
            update_state_dict(old, torch.nn.Linear(2, 2).state_dict(), 0.5)

    @pytest.mark.parametrize("prefix", ["", "module."])
    def test_further_entries_are_ignored(self, prefix: str) -> None:
        """A momentum encoder follows a network with more parts; this raised an error."""
        old, new = models()
        state = {**new.state_dict(), "head.weight": torch.ones(1)}
        update_state_dict(old, {prefix + name: value for name, value in state.items()}, 0.25)
        assert old.weight.tolist() == [2.0] * 2


class TestTargetNetwork:
    @pytest.mark.parametrize("tau", [0, 0.25, 1])
    def test_moves_as_update_state_dict(self, tau: float) -> None:
        old, new = models()
        target = TargetNetwork(old, new)
        expected, _ = models()
        for _ in range(3):
            target.move(tau)
            update_state_dict(expected, new.state_dict(), tau)
            assert same(old, expected)
        assert old.weight.requires_grad
        assert old.weight.grad_fn is None

    def test_follows_what_is_replaced(self) -> None:
        """Moving a network to another type or device replaces its buffers."""
        old, new = models()
        target = TargetNetwork(old, new)
        for model in (old, new):
            model.double()
            model.weight = torch.nn.Parameter(model.weight.detach().clone())
        target.move(0.25)
        assert old.weight.tolist() == [2.0] * 2
        assert old.running_mean.tolist() == [1.0] * 2
        assert old.running_mean.dtype == torch.float64

    def test_follows_replaced_modules(self) -> None:
        """The old ones were followed."""
        old, new = (torch.nn.Sequential(torch.nn.Sequential(model)) for model in models())
        target = TargetNetwork(old, new)
        for network, value in ((old, 4.0), (new, 8.0)):
            network[0][0] = torch.nn.Linear(1, 1)
            torch.nn.init.constant_(network[0][0].weight, value)
        target.move(0.25)
        new[0] = torch.nn.Sequential(torch.nn.Linear(1, 1))
        torch.nn.init.constant_(new[0][0].weight, 9.0)
        target.move(0.25)
        assert old[0][0].weight.item() == 0.75 * 5.0 + 0.25 * 9.0

    def test_replaced_module_of_another_layout(self) -> None:
        old, new = (torch.nn.Sequential(model) for model in models())
        target = TargetNetwork(old, new)
        new[0] = torch.nn.Linear(2, 2)
        with pytest.raises(ValueError, match=r"state_dict lacks.*running_mean"):
            target.move(0.25)

    def test_nested_parts_and_loaded_states(self) -> None:
        old, new = (torch.nn.Sequential(model, torch.nn.Linear(2, 1)) for model in models())
        target = TargetNetwork(old, new)
        old.load_state_dict({name: torch.zeros_like(p) for name, p in old.state_dict().items()})
        target.move(0.25)
        for name, value in old.state_dict().items():
            share = 0.25 if value.is_floating_point() else 1
            torch.testing.assert_close(value, share * new.state_dict()[name])

    def test_modules_of_two_names_move_once(self) -> None:
        """They moved once for each name."""
        networks = []
        for value in (0.0, 1.0, 0.0):
            layer = torch.nn.Linear(1, 1)
            networks.append(torch.nn.ModuleDict({"a": layer, "b": layer, "c": models()[0]}))
            for parameter in layer.parameters():
                torch.nn.init.constant_(parameter, value)
        target, model, other = networks
        TargetNetwork(target, model).move(0.25)
        update_state_dict(other, model.state_dict(), 0.25)
        assert target["a"].weight.item() == other["b"].bias.item() == 0.25

    def test_no_entries(self) -> None:
        TargetNetwork(torch.nn.ReLU(), torch.nn.ReLU()).move(0.5)

    def test_other_layout(self) -> None:
        with pytest.raises(ValueError, match=r"state_dict lacks.*running_mean"):
            TargetNetwork(models()[0], torch.nn.Linear(2, 2))

    @pytest.mark.parametrize("tau", [-0.1, 1.1])
    def test_tau_out_of_range(self, tau: float) -> None:
        with pytest.raises(ValueError, match=f"tau={tau}"):
            TargetNetwork(*models()).move(tau)


def test_strip_ddp_state_dict() -> None:
    stripped = strip_ddp_state_dict({"module.a.module.b": 1, "c": 2})
    assert stripped == OrderedDict([("a.module.b", 1), ("c", 2)])
    assert isinstance(stripped, OrderedDict)

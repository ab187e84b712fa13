"""Steps of optimizers: taken where loss and gradient are finite, and resumed from a snapshot."""

import copy

import pytest
import torch

from rlpyt.algos._optim import load_optimizer_state, make_optimizer
from rlpyt.algos.base import RlAlgorithm


class Algo(RlAlgorithm):
    """As small as an algorithm can be: its loss is a factor times the sum of squares."""

    opt_info_fields = ("loss", "gradNorm")

    def __init__(self, OptimCls, clip_grad_norm=None, **kwargs):
        self.OptimCls, self.optim_kwargs, self.learning_rate = OptimCls, kwargs, 0.1
        self.clip_grad_norm = clip_grad_norm
        self.parameters = [
            torch.nn.Parameter(torch.arange(1.0, 4)),
            torch.nn.Parameter(torch.ones(2, 2)),
        ]
        self.optimizer = self.make_optimizer(self.parameters)

    def update(self, *factors):
        opt_info = self._get_empty_optim_info()
        for factor in factors:
            loss = factor * sum((p**2).sum() for p in self.parameters)
            loss, norm = self.minimize(loss, self.optimizer)
            self.record_opt_info(opt_info, {"loss": loss, "gradNorm": norm})
            self.update_counter += 1
        return self.fetch_opt_info(opt_info)

    def values(self):
        state = self.optimizer.state_dict()["state"]
        return [*(p.tolist() for p in self.parameters), str(state)]


OPTIMIZERS = {
    "adam": (torch.optim.Adam, {}),
    "adam without fused kernel": (torch.optim.Adam, {"foreach": True}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.3}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
    "rmsprop": (torch.optim.RMSprop, {}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_steps_that_are_not_finite_are_skipped(name, factor):
    OptimCls, kwargs = OPTIMIZERS[name]
    algo, twin = Algo(OptimCls, **kwargs), Algo(OptimCls, **kwargs)
    algo.update(1.0, 0.5)
    twin.update(1.0, 0.5)
    with pytest.raises(
        FloatingPointError, match=r"loss of Algo is (nan|inf) in iteration 0, by update"
    ):
        algo.update(2.0, factor)
    twin.update(2.0)
    assert algo.values() == twin.values()
    assert algo.update(1.0) == twin.update(1.0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch(name):
    OptimCls, kwargs = OPTIMIZERS[name]
    algo, twin = Algo(OptimCls, **kwargs), Algo(OptimCls, **kwargs)
    for factor in (1.0, 0.5, 2.0):
        algo.update(factor)
        twin.optimizer.zero_grad()
        (factor * sum((p**2).sum() for p in twin.parameters)).backward()
        twin.optimizer.step()
    assert algo.values() == twin.values()


@pytest.mark.parametrize("when", ["pre", "post"])
def test_hooks_of_adam_run_in_every_step(when):
    algo = Algo(torch.optim.Adam)
    algo.update(1.0)
    calls = []
    hook = getattr(algo.optimizer, f"register_step_{when}_hook")
    hook(lambda optimizer, *_: calls.append(optimizer))
    algo.update(1.0, 1.0)
    assert calls == [algo.optimizer] * 2


def test_a_schedule_counts_the_steps_of_a_resumed_optimizer():
    first, resumed = Algo(torch.optim.Adam), Algo(torch.optim.Adam)
    first.update(1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(resumed.optimizer, lambda i: 1 / (i + 1))
    load_optimizer_state(resumed.optimizer, first.optimizer.state_dict())
    resumed.update(1.0)
    schedule.step()  # Without a step before, torch warns, which is an error in tests.


def test_parameters_without_gradient_keep_their_values():
    algo = Algo(torch.optim.Adam)
    unused = torch.nn.Parameter(torch.ones(1))
    algo.optimizer.add_param_group({"params": [unused], "lr": 0.5})
    algo.update(1.0, 1.0)
    assert unused.item() == 1
    assert algo.optimizer.state_dict()["state"].keys() == {0, 1}


def test_clipping_by_hand():
    algo = Algo(torch.optim.SGD, clip_grad_norm=0.5)
    before = [p.detach().clone() for p in algo.parameters]
    info = algo.update(1.0)
    norm = (4 * (1 + 4 + 9) + 4 * 4) ** 0.5
    assert info.gradNorm == [pytest.approx(norm)]
    for parameter, old in zip(algo.parameters, before, strict=True):
        torch.testing.assert_close(parameter.detach(), old - 0.1 * 2 * old * 0.5 / norm)


def test_numbers_are_fetched_once():
    info = Algo(torch.optim.SGD).update(1.0, 1.0)
    assert info.loss[0] == 18.0
    assert [type(x) for x in info.loss + info.gradNorm] == [float] * 4


@pytest.mark.parametrize("is_fused", [True, False])
def test_continues_from_a_loaded_state(is_fused):
    first = Algo(torch.optim.Adam, fused=is_fused)
    first.update(1.0, 2.0)
    resumed = Algo(torch.optim.Adam)
    state = copy.deepcopy(first.optimizer.state_dict())
    load_optimizer_state(resumed.optimizer, state)
    assert resumed.optimizer.param_groups[0]["fused"] is True
    with torch.no_grad():
        for mine, other in zip(resumed.parameters, first.parameters, strict=True):
            mine.copy_(other)
    resumed.update(0.5)
    first.update(0.5)
    for mine, other in zip(resumed.parameters, first.parameters, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_loaded_state_is_a_copy():
    # Two learners of one process shared their moments after one had taken the other's state.
    first, second = Algo(torch.optim.Adam), Algo(torch.optim.Adam)
    first.update(1.0)
    before = copy.deepcopy(first.optim_state_dict())
    second.load_optim_state_dict(first.optim_state_dict())
    second.update(2.0)
    assert str(first.optim_state_dict()) == str(before)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_gradients_of_each_loss_alone(is_reversed):
    # What a later loss added to the gradients of an earlier one was stepped along too.
    algo = Algo(torch.optim.SGD)
    first, second = algo.parameters
    pairs = [
        ((first**2).sum(), algo.make_optimizer([first])),
        ((second**2).sum() + 100 * (first**2).sum(), algo.make_optimizer([second])),
    ]
    losses, optimizers = zip(*(pairs[::-1] if is_reversed else pairs))
    algo.minimize_all(losses, optimizers)
    assert first.tolist() == pytest.approx([0.8, 1.6, 2.4])
    assert second.flatten().tolist() == pytest.approx([0.8] * 4)


# --- Choice of the fused optimizers ---------------------------------------------------------------


class OwnStep(torch.optim.Adam):
    """A subclass, which may have its own step."""


def parameters(dtype=torch.float32, device="cpu"):
    return [torch.nn.Parameter(torch.ones(3, dtype=dtype, device=device)) for _ in range(2)]


def kernel(OptimCls, parameters, **kwargs):
    return make_optimizer(OptimCls, parameters, 0.1, kwargs).defaults.get("fused")


@pytest.mark.parametrize("OptimCls", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_is_fused_unless_the_user_chose(OptimCls):
    assert kernel(OptimCls, parameters()) is True
    assert kernel(OptimCls, parameters(), fused=False) is False
    assert not kernel(OptimCls, parameters(), foreach=True)
    assert not kernel(OptimCls, parameters(torch.complex64))


def test_other_optimizers_are_left_as_they_are():
    for OptimCls in (torch.optim.SGD, torch.optim.Adagrad, OwnStep):
        assert not kernel(OptimCls, parameters())


@pytest.mark.gpu
def test_fused_on_a_gpu():
    assert kernel(torch.optim.Adam, parameters(device="cuda")) is True

"""Steps of optimizers: the short way to the fused kernel takes the same ones as torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from rlpyt.algos._optim import load_optimizer_state, take_step
from rlpyt.utils.torch_compat import torch_version

cpu_fused = pytest.mark.skipif(torch_version() < (2, 4), reason="fused on CPU came with torch 2.4")


def parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (4,), (1,)]
    return [torch.nn.Parameter(torch.randn(*shape, generator=generator)) for shape in shapes]


def give_gradients(of: list[torch.nn.Parameter], i: int) -> None:
    """Those of update ``i``; at first, the last parameter has none."""
    for p in of:
        p.grad = torch.sin(i + p.detach())
    if i < 3:
        of[-1].grad = None


def trained(optimizer: Any, step: Any, n_steps: int = 8, first: int = 0) -> Any:
    """Parameters after some steps, and the state of ``optimizer``."""
    of = [p for group in optimizer.param_groups for p in group["params"]]
    for i in range(first, first + n_steps):
        give_gradients(of, i)
        if i == 5:
            optimizer.param_groups[0]["lr"] *= 0.5
        step(optimizer)
    return of, optimizer.state_dict()


def is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(is_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(is_equal, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def torch_step(optimizer: Any) -> None:
    optimizer.step()


def two_groups(**kwargs: Any) -> Any:
    first, *others = parameters()
    groups = [{"params": [first], "lr": 0.1}, {"params": others, "betas": (0.5, 0.9)}]
    return torch.optim.Adam(groups, **kwargs)


OPTIMIZERS: dict[str, Any] = {
    "adam": lambda: torch.optim.Adam(parameters(), lr=0.1),
    "fused": lambda: torch.optim.Adam(parameters(), lr=0.1, fused=True),
    "settings": lambda: torch.optim.Adam(
        parameters(), lr=0.1, betas=(0.5, 0.7), eps=0.1, weight_decay=0.2, fused=True
    ),
    "groups": lambda: two_groups(fused=True),
    "amsgrad": lambda: torch.optim.Adam(parameters(), amsgrad=True, fused=True),
    "maximize": lambda: torch.optim.Adam(parameters(), maximize=True, fused=True),
    "adamw": lambda: torch.optim.AdamW(parameters(), weight_decay=0.3, fused=True),
    "foreach": lambda: torch.optim.Adam(parameters(), foreach=True),
    "sgd": lambda: torch.optim.SGD(parameters(), lr=0.1, momentum=0.9),
    "fused sgd": lambda: torch.optim.SGD(parameters(), lr=0.1, fused=True),
    "rmsprop": lambda: torch.optim.RMSprop(parameters()),
}


@cpu_fused
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bits_are_those_of_torch(name: str) -> None:
    expected = trained(OPTIMIZERS[name](), torch_step)
    assert is_equal(trained(OPTIMIZERS[name](), take_step), expected)


@cpu_fused
def test_lr_which_is_a_tensor() -> None:
    expected = trained(torch.optim.Adam(parameters(), torch.tensor(0.1), fused=True), torch_step)
    mine = trained(torch.optim.Adam(parameters(), torch.tensor(0.1), fused=True), take_step)
    assert is_equal(mine, expected)


@cpu_fused
def test_parameters_of_two_kinds() -> None:
    def make() -> Any:
        more = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        return torch.optim.Adam([*parameters()[:2], more], lr=0.1, fused=True)

    assert is_equal(trained(make(), take_step), trained(make(), torch_step))


@cpu_fused
@pytest.mark.parametrize("is_fused", [True, False])
def test_goes_on_from_a_loaded_state(is_fused: bool) -> None:
    first, state = trained(torch.optim.Adam(parameters(), lr=0.1, fused=is_fused), torch_step)

    def resumed() -> Any:
        optimizer = torch.optim.Adam(copy.deepcopy(first), lr=0.1, fused=True)
        load_optimizer_state(optimizer, copy.deepcopy(state))
        return optimizer

    expected = trained(resumed(), torch_step, first=8)
    assert is_equal(trained(resumed(), take_step, first=8), expected)


@cpu_fused
def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = OPTIMIZERS["fused"]()
    trained(optimizer, take_step)
    monkeypatch.setattr(torch.optim.Adam, "step", None)
    trained(optimizer, take_step)
    with pytest.raises(TypeError):
        take_step(OPTIMIZERS["fused"]())  # Its first step makes the state.


class TestStepsOfOthers:
    """What somebody did to the step of an optimizer is not passed over."""

    def test_wrapped(self) -> None:
        optimizer = torch.optim.Adam(parameters(), fused=torch_version() >= (2, 4))
        trained(optimizer, take_step)
        calls: list[str] = []
        optimizer.step = lambda: calls.append("step")
        take_step(optimizer)
        assert calls == ["step"]

    def test_scheduler(self) -> None:
        optimizer = OPTIMIZERS["adam"]()
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
        trained(optimizer, take_step)
        scheduler.step()  # Warns if it was not told of the steps.
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)

    def test_subclass(self) -> None:
        class Mine(torch.optim.Adam):
            n_steps = 0

            def step(self, closure: Any = None) -> Any:
                self.n_steps += 1
                return super().step(closure)

        optimizer = Mine(parameters())
        trained(optimizer, take_step)
        assert optimizer.n_steps == 8

    @pytest.mark.skipif(torch_version() < (2, 0), reason="hooks came with torch 2.0")
    @pytest.mark.parametrize("when", ["pre", "post"])
    def test_hooks(self, when: str) -> None:
        optimizer = torch.optim.Adam(parameters(), fused=torch_version() >= (2, 4))
        calls: list[str] = []
        getattr(optimizer, f"register_step_{when}_hook")(lambda *args: calls.append(when))
        trained(optimizer, take_step)
        assert calls == [when] * 8

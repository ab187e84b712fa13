"""Making optimizers, and moving their state from one run to another."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from rlpyt.utils import torch_compat

# How an optimizer computes, as opposed to what: belongs to the machine, not to a snapshot.
KERNEL_CHOICES = ("fused", "foreach", "capturable", "differentiable")
VARIANTS_OF_ADAM = (
    "amsgrad",
    "maximize",
    "capturable",
    "differentiable",
    "decoupled_weight_decay",
)


def accepts(function: Any, name: str) -> bool:
    """Whether ``function`` has a parameter of this name."""
    return name in inspect.signature(function).parameters


def make_optimizer(
    OptimCls: Any,
    parameters: Iterable[torch.nn.Parameter],
    learning_rate: float,
    optim_kwargs: Mapping[str, Any] | None,
) -> Any:
    """Make an optimizer, with its fastest kernel unless the user chose one.

    Args:
        OptimCls: class or factory, called with parameters, ``lr`` and ``optim_kwargs``.
        parameters: to adapt.
        learning_rate: ``lr``.
        optim_kwargs: of ``OptimCls``; not changed.
    """
    parameters = list(parameters)
    kwargs = torch_compat.adam_kwargs(OptimCls, parameters, optim_kwargs)
    return OptimCls(parameters, lr=learning_rate, **kwargs)


def optimized_parameters(optimizer: Any) -> list[torch.nn.Parameter]:
    """All parameters which ``optimizer`` adapts."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def take_step(optimizer: Any) -> None:
    """``optimizer.step()``, at less cost where that is the fused kernel of Adam and nothing else.

    What torch prepares anew for each step takes as long as the step itself, if networks are small.
    The numbers are the same, and the state stays in ``optimizer``. Hooks which were registered for
    all optimizers at once, not for this one, are passed over.
    """
    calls: list[Any] = [None]
    if _is_plain_adam(optimizer):
        calls = [_fused_call(optimizer, group) for group in optimizer.param_groups]
    if not all(calls):
        optimizer.step()
        return
    with torch.no_grad():
        for tensors, settings in calls:
            torch._foreach_add_(tensors[-1], 1)
            torch._fused_adam_(*tensors, **settings)


def _is_plain_adam(optimizer: Any) -> bool:
    """Whether it is Adam itself, and nobody wrapped its step or listens to it."""
    return type(optimizer) is torch.optim.Adam and not (
        "step" in vars(optimizer)
        or getattr(optimizer, "_optimizer_step_pre_hooks", None)  # Since torch 2.0.
        or getattr(optimizer, "_optimizer_step_post_hooks", None)
    )


def _fused_call(optimizer: Any, group: Mapping[str, Any]) -> Any:
    """Tensors and settings for the kernel; None if torch takes another one, or makes state."""
    if not group.get("fused") or any(group.get(name) for name in VARIANTS_OF_ADAM):
        return None
    parameters = [p for p in group["params"] if p.grad is not None]
    states = [optimizer.state.get(p) for p in parameters]
    kinds = {(p.device, p.dtype) for p in parameters}
    lr, (beta1, beta2) = group["lr"], group["betas"]
    is_numeric = not any(isinstance(setting, torch.Tensor) for setting in (lr, beta1, beta2))
    if not (all(states) and len(kinds) == 1 and is_numeric):
        return None
    tensors: tuple[list[torch.Tensor], ...] = (
        [*parameters],
        [p.grad for p in parameters],
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        [state["step"] for state in states],
    )
    settings = {
        "lr": lr,
        "beta1": beta1,
        "beta2": beta2,
        "weight_decay": group["weight_decay"],
        "eps": group["eps"],
        "amsgrad": False,
        "maximize": False,
    }
    return tensors, settings


def load_optimizer_state(optimizer: Any, state_dict: Mapping[str, Any]) -> None:
    """Load ``state_dict`` into ``optimizer``, which keeps its own kernels.

    Args:
        optimizer: with the same parameter groups.
        state_dict: of an optimizer on any device; not changed.
    """
    own_groups = optimizer.param_groups
    loaded_groups = state_dict["param_groups"]
    if len(own_groups) == len(loaded_groups):
        loaded_groups = [
            {**loaded, **{name: own[name] for name in KERNEL_CHOICES if name in own}}
            for loaded, own in zip(loaded_groups, own_groups, strict=True)
        ]
    optimizer.load_state_dict({**state_dict, "param_groups": loaded_groups})

"""Construction of optimizers, and transfer of their state between runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

# Options that choose a kernel, not a result: they depend on the machine, so snapshots skip them.
KERNEL_CHOICES = ("fused", "foreach", "capturable", "differentiable")


# A user who sets one of these has chosen an implementation.
IMPLEMENTATIONS = {"fused", "foreach", "differentiable"}


def with_defaults(
    OptimCls: Any, optim_kwargs: Mapping[str, Any] | None, **defaults: Any
) -> dict[str, Any]:
    """Return ``optim_kwargs`` with the ``defaults`` that ``OptimCls`` takes."""
    taken = inspect.signature(OptimCls).parameters
    return {**{k: v for k, v in defaults.items() if k in taken}, **(optim_kwargs or {})}


def make_optimizer(
    OptimCls: Any,
    parameters: Iterable[torch.nn.Parameter],
    learning_rate: float,
    optim_kwargs: Mapping[str, Any] | None,
) -> Any:
    """Make an optimizer, with its fastest kernel unless the user chose one.

    Args:
        OptimCls: class or factory, called with parameters, ``lr`` and ``optim_kwargs``.
        parameters: parameters to adapt.
        learning_rate: argument ``lr``.
        optim_kwargs: further arguments; not changed.
    """
    parameters = list(parameters)
    kwargs = dict(optim_kwargs or {})
    # Other fused optimizers refuse sparse gradients, and a subclass may have its own step.
    if OptimCls in (torch.optim.Adam, torch.optim.AdamW) and not IMPLEMENTATIONS & kwargs.keys():
        kwargs["fused"] = all(p.is_floating_point() for p in parameters)
    return OptimCls(parameters, lr=learning_rate, **kwargs)


def load_optimizer_state(optimizer: Any, state_dict: Mapping[str, Any]) -> None:
    """Load ``state_dict`` into ``optimizer``, which keeps its own kernels.

    Args:
        optimizer: optimizer with the same parameter groups.
        state_dict: state of an optimizer on any device; not changed.
    """
    own_groups = optimizer.param_groups
    loaded_groups = state_dict["param_groups"]
    if len(own_groups) == len(loaded_groups):
        loaded_groups = [
            {**loaded, **{name: own[name] for name in KERNEL_CHOICES if name in own}}
            for loaded, own in zip(loaded_groups, own_groups, strict=True)
        ]
    optimizer.load_state_dict({**state_dict, "param_groups": loaded_groups})

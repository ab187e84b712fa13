"""Optimizers: their construction, clipping, transfer of their state between runs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.adam import adam

# Options that choose a kernel, not a result: they depend on the machine, so snapshots skip them.
KERNEL_CHOICES = ("fused", "foreach", "capturable", "differentiable")


# A user who sets one of these has chosen an implementation.
IMPLEMENTATIONS = {"fused", "foreach", "differentiable"}


class FusedAdam(torch.optim.Adam):
    """Adam with a shorter way to its fused kernel.

    For small networks, the step of torch spends half of its time around the kernel. Numbers and
    state are the same; the first step, and all steps of an optimizer with hooks, are torch's own.
    """

    _has_hooks = False
    _has_stepped = False  # Schedules wait for a step of torch's own.

    def register_step_pre_hook(self, hook: Any) -> Any:
        self._has_hooks = True
        return super().register_step_pre_hook(hook)

    def register_step_post_hook(self, hook: Any) -> Any:
        self._has_hooks = True
        return super().register_step_post_hook(hook)

    def short_step(self) -> None:
        """Take a step, like ``step``."""
        is_short, calls = self._has_stepped and not self._has_hooks, []
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            states = [self.state[p] for p in parameters]  # Empty before a parameter's first step.
            is_rare = group["amsgrad"] or group.get("decoupled_weight_decay", False)
            is_short &= group["fused"] and not is_rare and all(states)
            calls.append((group, parameters, states))
        if not is_short:
            self._has_stepped = True
            self.step()
            return
        with torch.no_grad():
            for group, parameters, states in calls:
                beta1, beta2 = group["betas"]
                adam(
                    parameters,
                    [p.grad for p in parameters],
                    [state["exp_avg"] for state in states],
                    [state["exp_avg_sq"] for state in states],
                    [],
                    [state["step"] for state in states],
                    fused=True,
                    found_inf=getattr(self, "found_inf", None),
                    amsgrad=False,
                    beta1=beta1,
                    beta2=beta2,
                    lr=group["lr"],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    maximize=group["maximize"],
                )


def scale_down(gradients: list[torch.Tensor], norm: torch.Tensor, limit: float) -> None:
    """Multiply ``gradients`` by ``limit / norm``, by 1 at most."""
    # A number divided by a tensor would be multiplied by the rounded reciprocal.
    scale = (torch.full_like(norm, limit) / norm).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(scale)


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
        if OptimCls is torch.optim.Adam and kwargs["fused"]:
            OptimCls = FusedAdam
    return OptimCls(parameters, lr=learning_rate, **kwargs)


@contextmanager
def keeping_options(optimizers: Sequence[Any]) -> Iterator[None]:
    """Keep the options of ``optimizers``, such as rates, while states are loaded into them."""
    kept = [[dict(group) for group in optimizer.param_groups] for optimizer in optimizers]
    yield
    for optimizer, groups in zip(optimizers, kept):
        for group, own in zip(optimizer.param_groups, groups):
            group.pop("initial_lr", None)  # Of the schedule of an earlier run.
            group.update(own)


def load_optimizer_state(optimizer: Any, state_dict: Mapping[str, Any]) -> None:
    """Load a copy of ``state_dict`` into ``optimizer``, which keeps its own kernels.

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
    state = copy.deepcopy({**state_dict, "param_groups": loaded_groups})  # torch would share it.
    optimizer.load_state_dict(state)

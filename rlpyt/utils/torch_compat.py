"""Where versions of torch differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

# A user who sets one of these has chosen an implementation.
_IMPLEMENTATIONS = {"fused", "foreach", "differentiable"}


_HAS_BACKWARD_PRE_HOOKS = hasattr(torch.nn.Module(), "_backward_pre_hooks")  # Since 2.0.


def torch_version() -> tuple[int, int]:
    """Major and minor version of torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def adam_kwargs(
    OptimCls: Callable[..., torch.optim.Optimizer],
    parameters: Iterable[torch.Tensor],
    optim_kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``optim_kwargs``, with ``fused=True`` where torch can update all parameters in one pass.

    Args:
        OptimCls: The optimizer. Only Adam and AdamW themselves are fused: the other fused ones
            refuse sparse gradients, and a subclass may have a step of its own.
        parameters: What will be optimized, as a list: an iterator would be used up.
        optim_kwargs: Further arguments; the user's own choice of an implementation prevails.
    """
    kwargs = dict(optim_kwargs or {})
    if not _IMPLEMENTATIONS & kwargs.keys() and _can_fuse(OptimCls, parameters):
        kwargs["fused"] = True
    return kwargs


def _can_fuse(
    OptimCls: Callable[..., torch.optim.Optimizer], parameters: Iterable[torch.Tensor]
) -> bool:
    since = {"cuda": (2, 0), "cpu": (2, 4)}
    return OptimCls in (torch.optim.Adam, torch.optim.AdamW) and all(
        p.is_floating_point() and torch_version() >= since.get(p.device.type, (9999, 0))
        for p in parameters
    )


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether a call of ``module`` does more than its ``forward``; hooks of all modules aside."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or (_HAS_BACKWARD_PRE_HOOKS and module._backward_pre_hooks)
    )


def lerp_(tensors: Sequence[torch.Tensor], ends: Sequence[torch.Tensor], weight: float) -> None:
    """``tensor <- tensor + weight (end - tensor)`` of every pair of tensors, in place."""
    if not tensors:
        return
    if hasattr(torch, "_foreach_lerp_"):  # Since 2.0.
        torch._foreach_lerp_(list(tensors), list(ends), weight)
        return
    for tensor, end in zip(tensors, ends, strict=True):
        tensor.lerp_(end, weight)


def total_norm(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Euclidean norm of all numbers in all ``tensors``, on the device of the first; 0 of none."""
    if not tensors:
        return torch.zeros(())
    if hasattr(torch, "_foreach_norm"):  # Since 1.13.
        norms = list(torch._foreach_norm(list(tensors)))
    else:
        norms = [torch.linalg.vector_norm(tensor) for tensor in tensors]
    total: torch.Tensor = torch.linalg.vector_norm(
        torch.stack([norm.to(norms[0].device) for norm in norms])
    )
    return total


def load(file: Any, map_location: Any = None, trusted: bool = False) -> Any:
    """``torch.load`` of a snapshot of tensors and plain values; code is refused where torch can.

    Args:
        file: Path or open file.
        map_location: Device for the tensors, as in ``torch.load``.
        trusted: Load objects of any kind; a file which holds such can run code.
    """
    # Versions before read no float with weights_only.
    kwargs = {"weights_only": not trusted} if torch_version() >= (2, 1) else {}
    return torch.load(file, map_location=map_location, **kwargs)

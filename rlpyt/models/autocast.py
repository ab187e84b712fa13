"""Models that compute in lower precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.types import Nested


@dataclass(frozen=True)
class Autocast:
    """A model class that computes in lower precision in training mode.

    Matrix products and convolutions of the forward and backward pass take and return ``dtype``;
    parameters, their gradients, the outputs and the optimizer's steps stay float32. Acting, in
    evaluation mode, stays float32 too: converting the parameters costs more than a small batch
    saves. Autocast is optional because it changes results: bfloat16 has 8 significant bits.
    Training is up to twice as fast on processors with units for ``dtype``, and slower on others.
    Use it in place of the class of the model::

        agent = AtariDqnAgent(ModelCls=Autocast(AtariDqnModel))

    Args:
        ModelCls: class of the model.
        dtype: type to compute in; bfloat16 needs no scaling of the loss.

    Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.
    """

    ModelCls: Callable[..., torch.nn.Module]
    dtype: torch.dtype = torch.bfloat16

    def __call__(self, *args: Any, **kwargs: Any) -> torch.nn.Module:
        """Build the model; it is also an instance of ``ModelCls``, with the same state dict."""
        return _autocast_class(self.ModelCls, self.dtype)(*args, **kwargs)


def model_class(ModelCls: Any) -> Any:
    """Return the class of model that ``ModelCls`` makes: itself, or the class in an Autocast."""
    return ModelCls.ModelCls if isinstance(ModelCls, Autocast) else ModelCls


class _AutocastForward(torch.nn.Module):
    """Base class before the class of the model: its forward pass under autocast."""

    ModelCls: Any
    autocast_dtype: torch.dtype

    def forward(self, *args: Any, **kwargs: Any) -> Nested:
        if not self.training:
            return super().forward(*args, **kwargs)
        device = next(self.parameters()).device.type
        with torch.autocast(device, dtype=self.autocast_dtype):
            output = super().forward(*args, **kwargs)
        return buffer_func(output, _full_precision)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Pickle cannot find the class by name, since it is made at run time.
        return _empty_model, (self.ModelCls, self.autocast_dtype), self.__dict__


def _full_precision(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.is_floating_point() else x


@cache
def _autocast_class(ModelCls: Any, dtype: torch.dtype) -> type[torch.nn.Module]:
    attributes = {"ModelCls": ModelCls, "autocast_dtype": dtype, "__doc__": ModelCls.__doc__}
    return type(f"Autocast{ModelCls.__name__}", (_AutocastForward, ModelCls), attributes)


def _empty_model(ModelCls: Any, dtype: torch.dtype) -> torch.nn.Module:
    cls = _autocast_class(ModelCls, dtype)
    return cls.__new__(cls)

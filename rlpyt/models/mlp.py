"""The multi-layer perceptron, and functions for layers and their sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import numpy as np
import torch
import torch.nn.functional as F

from rlpyt.models.batch_renorm import BatchRenorm

Sizes = Union[int, Sequence[int], None]


def as_list(sizes: int | Sequence[Any] | None) -> list[Any]:
    """Return a new list of ``sizes``: one number, any sequence, or None for an empty list."""
    if sizes is None:
        return []
    return [int(sizes)] if isinstance(sizes, (int, np.integer)) else list(sizes)


# On a CPU, the product of many weights and few inputs is 1.5 to 2 times as fast with the weights on
# the left, not transposed.
WIDE, FEW = 2**20, range(8, 129)

# Their gradients follow from their outputs, so the inputs may be overwritten.
IN_PLACE: dict[type, Callable[[torch.Tensor], torch.Tensor]] = {
    torch.nn.ReLU: torch.relu_,
    torch.nn.Tanh: torch.tanh_,
}


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return ``x weight^T + bias`` [...,H] for x [...,F], weight [H,F], and bias [H] or None."""
    is_wide = weight.numel() >= WIDE and x.dim() == 2
    # The size of a batch is not an int where torch.export leaves it open.
    is_wide = is_wide and type(x.shape[0]) is int and x.shape[0] in FEW
    if is_wide and bias is not None and x.device.type == "cpu":
        return torch.addmm(bias.unsqueeze(1), weight, x.t()).t().contiguous()
    return F.linear(x, weight, bias)


def has_hooks(module: torch.nn.Module) -> bool:
    """Return whether ``module`` has hooks, so that a call does more than ``forward``."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def is_plain_stack(module: torch.nn.Module) -> bool:
    """Return whether a call of ``module`` only calls its modules, in order."""
    return type(module) is torch.nn.Sequential and not has_hooks(module)


def run_stack(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Return ``module(x)``, by :func:`run_layers` unless a program has replaced or hooked it."""
    return run_layers(module if is_plain_stack(module) else [module], x)


def run_layers(layers: Iterable[Any], x: torch.Tensor, is_own: bool = False) -> torch.Tensor:
    """Return the output of ``torch.nn.Sequential(*layers)`` for ``x``, at less cost.

    For small batches, calling modules costs as much as their computation. Plain linear layers and
    nonlinearities are computed here. Nonlinearities overwrite the output of a linear layer or
    convolution, which needs no output for its gradient.

    Args:
        layers: modules, in order.
        x: input of the first layer.
        is_own: whether ``x`` may be overwritten.
    """
    for layer in layers:
        kind = type(layer)
        is_plain = not has_hooks(layer)
        if kind is torch.nn.Linear and is_plain:
            parameters = layer._parameters  # Attributes of modules take longer.
            x = linear(x, parameters["weight"], parameters["bias"])
            is_own = True
            continue
        if is_own and kind in IN_PLACE and is_plain:
            x = IN_PLACE[kind](x)
        else:
            x = layer(x)
        is_own = kind is torch.nn.Conv2d and is_plain
    return x


class MlpModel(torch.nn.Module):
    """Linear layers, each hidden one followed by a nonlinearity.

    Without ``output_size`` the output is the last hidden layer, after its nonlinearity; without
    hidden layers either, it is the input.

    Args:
        input_size: number of input features.
        hidden_sizes: width of each hidden layer; a number stands for one layer, None for no hidden
            layers.
        output_size: width of a last linear layer, without nonlinearity; None leaves it out.
        nonlinearity: class of the modules between the layers.
        LinearCls: class of the layers, such as :class:`~rlpyt.models.noisy.NoisyLinear`.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.
        dropout: probability that a hidden unit is left out in training, before normalization.
        batch_renorm: whether to normalize the inputs of each linear layer over the batch, by
            :class:`~rlpyt.models.batch_renorm.BatchRenorm`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: Sizes,
        output_size: int | None = None,
        nonlinearity: Callable[[], torch.nn.Module] = torch.nn.ReLU,
        LinearCls: Callable[[int, int], torch.nn.Module] = torch.nn.Linear,
        layer_norm: bool = False,
        dropout: float = 0.0,
        batch_renorm: bool = False,
    ) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        size, widths = input_size, as_list(hidden_sizes)
        if min(widths, default=1) < 1:
            raise ValueError(f"hidden_sizes is {hidden_sizes}: make each at least 1")
        for hidden_size in widths:
            drops = [torch.nn.Dropout(dropout)] if dropout else []
            norms = [torch.nn.LayerNorm(hidden_size)] if layer_norm else []
            layers += [BatchRenorm(size)] if batch_renorm else []
            layers += [LinearCls(size, hidden_size), *drops, *norms, nonlinearity()]
            size = hidden_size
        if output_size is not None:
            layers += [BatchRenorm(size)] if batch_renorm else []
            layers.append(LinearCls(size, output_size))
            size = output_size
        self.model = torch.nn.Sequential(*layers)
        self._output_size = size

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map features [B,input_size] to [B,output_size]; any leading dimensions are kept."""
        return run_stack(self.model, input)

    @property
    def output_size(self) -> int:
        """Number of output features."""
        return self._output_size

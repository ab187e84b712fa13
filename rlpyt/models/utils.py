"""Functions that models share: initialization, convolution sizes, modes, target networks."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Union

import torch

StateDict = Mapping[str, Any]
Gain = Union[float, torch.Tensor]  # one number, or one for each row of a weight [rows,1]
Size = Union[int, "tuple[int, ...]"]  # one number for both dimensions of an image, or (h, w)


def conv2d_output_shape(
    h: int,
    w: int,
    kernel_size: Size = 1,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
) -> tuple[int, int]:
    """Return the height and width after a convolution or pooling of an image ``h`` x ``w``.

    ::

        h' = floor((h + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1

    The result is not positive where the image is smaller than the kernel.
    """
    sizes = (_pair(size) for size in (kernel_size, stride, padding, dilation))
    h_out, w_out = (
        (size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in zip((h, w), *sizes)
    )
    return h_out, w_out


def _pair(size: Size) -> tuple[int, ...]:
    return (size, size) if isinstance(size, int) else size


@torch.no_grad()
def initialize_orthogonally(
    model: torch.nn.Module, output_gains: Mapping[torch.nn.Module, Gain]
) -> None:
    """Initialize linear layers, convolutions and LSTMs with orthogonal weights and zero biases.

    Gains are sqrt 2, and 1 for each weight matrix of an LSTM. All other parameters are kept.

    Args:
        model: network to change.
        output_gains: gain of each output layer of ``model``, in place of sqrt 2.

    Source: Saxe et al. 2014, arXiv:1312.6120; gains: Huang et al. 2022, "The 37 Implementation
    Details of Proximal Policy Optimization".
    """
    for module in model.modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
            gain = output_gains.get(module, math.sqrt(2))
        elif isinstance(module, torch.nn.LSTM):
            gain = 1.0
        else:
            continue
        for parameter in module.parameters():
            if parameter.dim() > 1:
                torch.nn.init.orthogonal_(parameter).mul_(gain)
            else:
                parameter.zero_()


class ScaleGrad(torch.autograd.Function):
    """Identity with its gradient multiplied by a constant."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, scale: float) -> torch.Tensor:
        """Return ``tensor`` and remember ``scale``."""
        ctx.scale = scale
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Multiply the gradient; ``scale`` gets no gradient."""
        return grad_output * ctx.scale, None


#: ``scale_grad(tensor, scale)`` is ``tensor`` itself, with its gradient multiplied by ``scale``.
scale_grad: Callable[[torch.Tensor, float], torch.Tensor] = ScaleGrad.apply


def precise_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Return the softmax over the last dimension, computed in float32 at least.

    Under autocast, logits may have half precision, in which small probabilities vanish.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return torch.softmax(logits, dim=-1, dtype=dtype)


@torch.no_grad()
def update_state_dict(
    model: torch.nn.Module, state_dict: StateDict, tau: float = 1, strip_ddp: bool = True
) -> None:
    """Move the parameters and buffers of ``model`` towards ``state_dict``, in place.

    ::

        theta <- tau theta_new + (1 - tau) theta

    Floating point entries move; integer entries (such as counts) cannot be averaged and are copied.

    Args:
        model: network to change, such as a target network.
        state_dict: state of a network of the same layout.
        tau: weight of the new state in [0, 1]; 1 copies everything, 0 changes nothing.
        strip_ddp: whether ``state_dict`` may come from a network in DistributedDataParallel;
            False saves a comparison of the names.

    Raises:
        ValueError: if ``tau`` is out of range, or ``state_dict`` lacks entries of the model; with
            ``tau`` below 1, further entries are ignored.

    Source: Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1.
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau={tau} is not a weight: give a number from 0 (keep) to 1 (copy).")
    new = fitting_state_dict(model, state_dict) if strip_ddp else state_dict
    if tau == 1:
        model.load_state_dict(new)
    elif tau > 0:
        own = model.state_dict(keep_vars=True)
        if not own.keys() <= new.keys():
            raise ValueError(
                f"state_dict lacks {sorted(own.keys() - new.keys())} of the model (and has "
                f"{sorted(new.keys() - own.keys())} beside it): give one of the same model."
            )
        # Each once, even if it has several names.
        for name, value in {id(value): (name, value) for name, value in own.items()}.values():
            if value.is_floating_point():
                value.lerp_(new[name].to(value), tau)
            else:
                value.copy_(new[name])


def fitting_state_dict(model: torch.nn.Module, state_dict: StateDict) -> StateDict:
    """Return ``state_dict`` with names that fit ``model``, if necessary without "module." in front.

    Names that fit already are kept, since a network may have a part called "module".
    """
    if model.state_dict().keys() <= state_dict.keys():
        return state_dict
    return strip_ddp_state_dict(state_dict)


def strip_ddp_state_dict(state_dict: StateDict) -> OrderedDict[str, Any]:
    """Return the state dict without the prefix "module." of DistributedDataParallel.

    The wrapper puts it in front of every name.
    """
    return OrderedDict((name.removeprefix("module."), value) for name, value in state_dict.items())

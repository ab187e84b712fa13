"""Recurrent networks over sequences in which episodes end."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.types import Nested


def takes(instance: Any, method: str, name: str) -> bool:
    """Return whether ``method`` of ``instance`` takes an argument ``name``.

    A method with ``**kwargs`` is assumed to pass them on to the next base class.
    """
    return _class_takes(instance.__class__, method, name)


@cache
def _class_takes(cls: Any, method: str, name: str) -> bool:
    for base in cls.__mro__:
        if method not in vars(base):
            continue
        parameters = inspect.signature(vars(base)[method]).parameters
        if name in parameters:
            return True
        if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            return False
    return False


def unroll(
    network: Callable[..., tuple[torch.Tensor, Nested]],
    inputs: tuple[Nested, ...],
    init_rnn_state: Nested,
    reset: torch.Tensor | None,
    instance: Any,
    method: str = "forward",
) -> tuple[torch.Tensor, Nested]:
    """Run a recurrent network whose state is zero before some of the steps.

    A network that does not take ``reset`` runs in pieces, from one step with a zeroed state to the
    next.

    Args:
        network: function of ``inputs``, the state, and ``reset=`` if it takes that; it returns
            outputs [T,B,...] and the state [N,B,H] after the last step.
        inputs: arrays [T,B,...].
        init_rnn_state: state [N,B,H] before the first step, or None for zeros.
        reset: mask [T,B] of steps before which the state is zeroed, or None.
        instance: object that ``network`` calls.
        method: name of its method that may take ``reset``.

    Returns:
        Outputs [T,B,...], and the state [N,B,H] after the last step.
    """
    if reset is None or not reset.any():
        return network(*inputs, init_rnn_state)
    if takes(instance, method, "reset"):
        return network(*inputs, init_rnn_state, reset=reset)
    T = len(reset)
    starts = sorted({0, *reset.any(1).nonzero().squeeze(1).tolist()})
    rnn_state, outputs = init_rnn_state, []
    for start, stop in zip(starts, [*starts[1:], T]):
        rnn_state = _zeroed(rnn_state, reset[start])
        piece = (_rows(part, start, stop) for part in inputs)
        output, rnn_state = network(*piece, rnn_state)
        outputs.append(output)
    return torch.cat(outputs), rnn_state


def _rows(part: Any, start: int, stop: int) -> Any:
    return part[start:stop]


def masked_rows(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` [N,M,...] with zeros where ``mask`` [N,M] or [1,M] is true."""
    return tensor.masked_fill(mask[(...,) + (None,) * (tensor.dim() - mask.dim())], 0)


def _zeroed(rnn_state: Nested, mask: torch.Tensor) -> Nested:
    """Return the state [N,B,H] with zeros where ``mask`` [B] is true."""
    return buffer_func(rnn_state, lambda part: masked_rows(part, mask.to(part.device)[None]))

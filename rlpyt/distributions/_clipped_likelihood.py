"""The log-likelihood of clipped Gaussian actions, with its gradient written out.

Automatic differentiation would go through a dozen small operations, which take longer than the
backward pass of a small network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class ClippedLogLikelihood(torch.autograd.Function):
    """Sum over the last dimension of the log-density inside bounds, log-probability at them.

    With z = (x - m)/s, and u = -z at the upper and u = z at the lower bound::

        inside:    log p = -z^2/2 - log s - log(2 pi)/2,    d/dm = z/s,     d/dlog s = z^2 - 1
        upper:     log p = log Phi(u),                      d/dm = h/s,     d/dlog s = z h
        lower:     log p = log Phi(u),                      d/dm = -h/s,    d/dlog s = -z h

    where ``h = phi(u)/Phi(u)``. With g for z, h and -h, these are g/s and z g, less 1 inside.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        mean: torch.Tensor,
        log_std: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
    ) -> torch.Tensor:
        """Compute [...] of x, mean and log_std [...,dim] and the bounds [dim]."""
        inverse_std = torch.exp(-log_std)
        z = (x - mean) * inverse_std
        is_low = x <= low
        is_inside = (x > low).logical_and_(x < high)
        log_phi = z.square().mul_(-0.5).sub_(HALF_LOG_2PI)
        log_tail = torch.special.log_ndtr(torch.where(is_low, z, -z))
        ctx.save_for_backward(inverse_std, z, is_low, is_inside, log_phi, log_tail)
        return torch.where(is_inside, log_phi - log_std, log_tail).sum(dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of x (inside the bounds), mean and log_std."""
        inverse_std, z, is_low, is_inside, log_phi, log_tail = ctx.saved_tensors
        h = (log_phi - log_tail).exp_()
        g = torch.where(is_inside, z, torch.where(is_low, -h, h))
        grad_output = grad_output.unsqueeze(-1)
        grad_mean = (grad_output * g).mul_(inverse_std)
        grad_log_std = (z * g).sub_(is_inside.to(z.dtype)).mul_(grad_output)
        grad_x = -grad_mean * is_inside if ctx.needs_input_grad[0] else None
        return grad_x, grad_mean, grad_log_std, None, None


#: ``clipped_log_likelihood(x, mean, log_std, low, high)``: the sum [...] over the last dimension.
clipped_log_likelihood: Callable[..., torch.Tensor] = ClippedLogLikelihood.apply

"""The Gaussian distribution over a box: scaled to the bounds, and clipped there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.function import once_differentiable

from rlpyt.core.bounds import policy_bounds
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.utils.types import Nested

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class ClippedLogLikelihood(torch.autograd.Function):
    """Log density inside the bounds, log probability at them, summed over the last dimension.

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
        """Return the sum [...] for x, mean and log_std [...,dim] and the bounds [dim]."""
        inverse_std = torch.exp(-log_std)
        z = (x - mean) * inverse_std
        is_low = x <= low
        is_inside = (x > low).logical_and_(x < high)
        log_phi = z.square().mul_(-0.5).sub_(HALF_LOG_2PI)
        log_tail = torch.special.log_ndtr(torch.where(is_low, z, -z))
        h = (log_phi - log_tail).exp_()
        g = torch.where(is_inside, z, torch.where(is_low, -h, h))
        ctx.save_for_backward(x, low, high, g * inverse_std, (z * g).sub_(is_inside.to(z.dtype)))
        return torch.where(is_inside, log_phi - log_std, log_tail).sum(dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of x (inside the bounds), mean and log_std."""
        x, low, high, slope_mean, slope_log_std = ctx.saved_tensors
        grad_output = grad_output.unsqueeze(-1)
        grad_mean, grad_log_std = grad_output * slope_mean, grad_output * slope_log_std
        grad_x = -grad_mean * ((x > low) & (x < high)) if ctx.needs_input_grad[0] else None
        return grad_x, grad_mean, grad_log_std, None, None


#: ``clipped_log_likelihood(x, mean, log_std, low, high)``: the sum [...] over the last dimension.
clipped_log_likelihood: Callable[..., torch.Tensor] = ClippedLogLikelihood.apply


class BoxGaussian(Gaussian):
    """Diagonal Gaussian over arrays of any shape, with separate bounds for each entry.

    Parameters are flat, ``[...,dim]`` with dim the number of entries, and in the units of the
    action; :meth:`scaled` makes them from a network's outputs, for which every box is [-1, 1].

    With ``clip_to_box`` an action is ``clamp(x, low, high)`` of the normal x, and likelihoods
    belong to the clipped action: at a bound they are the probability of everything beyond it (mass,
    not density)::

        log pi(a) = sum_i log N(a_i; m_i, s_i)        where low_i < a_i < high_i
                          log Phi((low_i - m_i)/s_i)  where a_i = low_i
                          log Phi((m_i - high_i)/s_i) where a_i = high_i

    Policy gradients are then unbiased, since the environment receives the clipped action, and vary
    less than with the density of x. Entropy and KL divergence ignore clipping.

    Args:
        low: lower bounds, in the shape of an action; -inf for none. Numbers that float32 lacks are
            rounded inward, so that actions lie inside.
        high: upper bounds, in the same shape; inf for none.
        scale_to_box: whether :meth:`scaled` and :meth:`unscaled` follow the bounds; False makes
            both the identity.
        clip_to_box: whether actions are clipped to the bounds.
        std: fixed standard deviation, a scalar or [dim]; overrides ``dist_info.log_std``.
        noise_clip: bound of the noise, a scalar or [dim].
        min_std: lower limit of the policy's standard deviation.
        max_std: upper limit of the policy's standard deviation.

    Raises:
        ValueError: if a lower bound is above the upper one.

    Source: likelihood: Fujita and Maeda 2018, arXiv:1802.07564.
    """

    def __init__(
        self,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        scale_to_box: bool = True,
        clip_to_box: bool = True,
        *,
        std: Any = None,
        noise_clip: Any = None,
        min_std: float | None = None,
        max_std: float | None = None,
    ) -> None:
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        if low.shape != high.shape or not np.all(low <= high):
            raise ValueError(f"low={low} must have the shape of high={high}, and not be above it")
        super().__init__(low.size, std, noise_clip=noise_clip, min_std=min_std, max_std=max_std)
        self.shape = low.shape
        inside = policy_bounds(low.reshape(-1), high.reshape(-1))
        self.low, self.high = map(torch.as_tensor, inside)
        low, high = (bound.astype(np.float64) for bound in inside)
        self._is_clipped = clip_to_box and bool(np.isfinite(low).any() or np.isfinite(high).any())
        # Where the bounds are equal, the action is certain: its logarithm is 0.
        free = np.flatnonzero(low < high)
        self._free = None if len(free) == low.size else free.tolist()
        # Neither a bound on one side only nor a single point gives a unit of length.
        has_length = np.isfinite(low) & np.isfinite(high) & (low < high)
        with np.errstate(invalid="ignore"):
            center = np.where(has_length, (low + high) / 2, np.clip(0, low, high))
            half = np.where(has_length, (high - low) / 2, 1)
        self._is_scaled = scale_to_box and not (np.all(center == 0) and np.all(half == 1))
        self._center, self._half = (torch.as_tensor(x).float() for x in (center, half))
        self._log_half = torch.as_tensor(np.log(half)).float()

    def scaled(self, mean: torch.Tensor, log_std: torch.Tensor) -> DistInfoStd:
        """Convert parameters from units of half a box to the units of the action.

            mean' = (low + high)/2 + mean (high - low)/2
            log_std' = log_std + log((high - low)/2)

        Args:
            mean: means [...,dim] from a network.
            log_std: logarithms of standard deviations [...,dim].
        """
        if not self._is_scaled:
            return DistInfoStd(mean=mean, log_std=log_std)
        center, half, log_half = (
            self._like(mean, name) for name in ("_center", "_half", "_log_half")
        )
        return DistInfoStd(mean=center + half * mean, log_std=log_std + log_half)

    def unscaled(self, action: torch.Tensor) -> torch.Tensor:
        """Convert actions [...,*shape] to units of half a box [...,dim]; undoes :meth:`scaled`."""
        action = self._flat(action).float()
        if not self._is_scaled:
            return action
        return (action - self._like(action, "_center")) / self._like(action, "_half")

    def sample(self, dist_info: Nested) -> torch.Tensor:
        """Draw an action [...,*shape], clipped if configured."""
        return self._to_action(super().sample(dist_info))

    def mode(self, dist_info: Nested) -> torch.Tensor:
        """Return the most likely x as an action [...,*shape], clipped if configured."""
        return self._to_action(dist_info.mean)

    def log_likelihood(self, x: torch.Tensor, dist_info: Nested) -> torch.Tensor:
        """Return the log density of each datum, or its log probability at a bound.

        Args:
            x: actions [...,*shape].
            dist_info: parameters [...,dim].

        Returns:
            Log-likelihoods [...].
        """
        x = self._flat(x)
        if not self._is_clipped:
            return super().log_likelihood(x, dist_info)
        mean, log_std = dist_info.mean, self._log_std(dist_info)
        if log_std.shape != mean.shape:  # A fixed deviation.
            log_std = log_std.expand_as(mean)
        terms = [x, mean, log_std, self._like(mean, "low"), self._like(mean, "high")]
        if self._free is not None:
            terms = [term[..., self._free] for term in terms]
        return clipped_log_likelihood(*terms)

    def _to_action(self, x: torch.Tensor) -> torch.Tensor:
        if self._is_clipped:
            x = torch.clamp(x, self._like(x, "low"), self._like(x, "high"))
        return x if len(self.shape) == 1 else x.reshape(x.shape[:-1] + self.shape)

    def _flat(self, action: torch.Tensor) -> torch.Tensor:
        if len(self.shape) == 1:
            return action
        n_lead = action.dim() - len(self.shape)
        return action.reshape(action.shape[:n_lead] + (self.dim,))

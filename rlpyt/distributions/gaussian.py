"""The distribution over continuous actions with independent Gaussian dimensions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Union

import numpy as np
import torch

from rlpyt.distributions.base import Distribution
from rlpyt.distributions.noise import normal_like
from rlpyt.utils.collections import record
from rlpyt.utils.types import Nested

EPS = 1e-8  # Keeps quotients finite where a standard deviation is 0.

Bound = Union[float, torch.Tensor]


@record
class DistInfo(NamedTuple):
    """Parameters of a :class:`Gaussian` whose standard deviation is fixed."""

    mean: torch.Tensor  # [...,dim]


@record
class DistInfoStd(NamedTuple):
    """Parameters of a :class:`Gaussian` whose standard deviation is an output of the policy."""

    mean: torch.Tensor  # [...,dim]
    log_std: torch.Tensor  # [...,dim] natural logarithm of the standard deviation


class Gaussian(Distribution):
    """Multivariate normal with a diagonal covariance, optionally clipped or squashed.

    With mean m and standard deviation s, all of them per dimension::

        noise = s * N(0, 1), clamped to +-noise_clip;      x = m + noise
        action = x, or clamp(x, -clip, clip), or squash * tanh(x)

    With bounds that are not symmetric, ``[low, high]``, the last two are ``clamp(x, low, high)``
    and ``mid + half_range * tanh(x)``. Samples are reparameterised: gradients flow to the mean and
    the standard deviation. The density ignores clipping: it is the density of x.

    Args:
        dim: number of dimensions of an action.
        std: fixed standard deviation, a scalar or [dim]; overrides ``dist_info.log_std``.
        clip: bound of the action, a scalar or [dim], or [2,dim] for low and high; excludes
            ``squash``.
        noise_clip: bound of the noise, a scalar or [dim].
        min_std: lower limit of the policy's standard deviation.
        max_std: upper limit of the policy's standard deviation.
        squash: bound of an action squashed by tanh, given like ``clip``; excludes ``clip``. Then
            :meth:`log_likelihood` takes x, the action *before* squashing, and
            :meth:`entropy` and :meth:`kl` are not implemented.

    Raises:
        ValueError: if both ``clip`` and ``squash`` are given, an array has none of these shapes, or
            a low bound of ``squash`` is not below the high one.

    Source: squashing with the change of variables: Haarnoja et al. 2018, arXiv:1812.05905,
    appendix C; clipped noise: Fujimoto et al. 2018, arXiv:1802.09477, eq. 14.
    """

    _is_exact = False  # Whether the standard deviation is fixed to 0.

    def __init__(
        self,
        dim: int,
        std: Any = None,
        clip: Any = None,
        noise_clip: Any = None,
        min_std: float | None = None,
        max_std: float | None = None,
        squash: Any = None,
    ) -> None:
        self._dim = dim
        self.clip: Bound | None = None
        self.squash: Bound | None = None
        self.set_std(std)
        self.set_clip(clip)
        self.set_squash(squash)
        self.set_noise_clip(noise_clip)
        self.min_std = min_std
        self.max_std = max_std
        # A lower limit of 0 does not limit the logarithm.
        self.min_log_std = math.log(min_std) if min_std else None
        self.max_log_std = math.log(max_std) if max_std else None

    @property
    def dim(self) -> int:
        """Number of dimensions of an action."""
        return self._dim

    def set_clip(self, clip: Any) -> None:
        """Set the bound of the action, a scalar, [dim] or [2,dim]; None removes it."""
        self._require_one_bound(clip, self.squash)
        self.clip = self._bound("clip", clip, may_be_rows=True)

    def set_squash(self, squash: Any) -> None:
        """Set the bound of squashed actions, a scalar, [dim] or [2,dim]; None removes it."""
        self._require_one_bound(self.clip, squash)
        self.squash = self._bound("squash", squash, may_be_rows=True)
        self._log_volume = self._log_half_ranges()

    def set_noise_clip(self, noise_clip: Any) -> None:
        """Set the bound of the noise, a scalar or [dim]; None removes it."""
        self.noise_clip = self._bound("noise_clip", noise_clip)

    def set_std(self, std: Any) -> None:
        """Fix the standard deviation, a scalar or [dim]; None returns to the policy's.

        With 0, actions are means, and no random numbers are drawn.
        """
        self._is_exact = isinstance(std, (int, float)) and std == 0
        self.std = None if std is None else self._tensor("std", std)

    def sample(self, dist_info: Nested) -> torch.Tensor:
        """Draw an action [...,dim], squashed or clipped as configured."""
        return self._squashed(self._draw(dist_info))

    def sample_loglikelihood(
        self, dist_info: Nested, reparameterize: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw an action and return it with its log-likelihood.

        Args:
            dist_info: parameters [...,dim].
            reparameterize: whether gradients, including those of the likelihood, flow through the
                action. False makes the action a constant, as in the score function
                ``grad log pi(a)``.

        Returns:
            Actions [...,dim], squashed if configured, and their log-likelihoods [...], which are
            exact even where the tanh is saturated.
        """
        cls, is_clipped = type(self), not (self.noise_clip is None and self.clip is None)
        is_own = cls.sample is Gaussian.sample and cls.log_likelihood is Gaussian.log_likelihood
        if reparameterize and is_own and not is_clipped:
            mean, log_std = dist_info.mean, self._log_std(dist_info)
            z = normal_like(mean)
            x = torch.addcmul(mean, torch.exp(log_std), z)
            return self._squashed(x), self._log_density(x, z, log_std)
        squash, self.squash = self.squash, None
        x = self.sample(dist_info)
        self.squash = squash
        if not reparameterize:
            x = x.detach()
        return self._squashed(x), self.log_likelihood(x, dist_info)

    def log_likelihood(self, x: torch.Tensor, dist_info: Nested) -> torch.Tensor:
        """Return the logarithm of the density of each datum.

        ::

            z = (x - m) / (s + EPS),     log pi = -sum_i (log s_i + z_i^2 / 2) - dim/2 log(2 pi)

        With squash, the result is the density of ``squash * tanh(x)``, which subtracts
        ``sum_i log(squash (1 - tanh^2 x_i))``. The derivative's logarithm is computed in the form
        ``2 (log 2 - x - softplus(-2 x))``: equal for small x, and still exact where ``1 - tanh^2``
        underflows (with EPS inside the logarithm, as is usual, gradients vanish beyond +-9).

        Args:
            x: actions [...,dim], *before* squashing.
            dist_info: parameters [...,dim].

        Returns:
            Log-likelihoods [...]; infinite where s is 0.
        """
        log_std = self._log_std(dist_info)
        z = (x - dist_info.mean) / (torch.exp(log_std) + EPS)
        return self._log_density(x, z, log_std)

    def _log_density(self, x: torch.Tensor, z: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
        terms = log_std + 0.5 * z**2
        constant = 0.5 * self.dim * math.log(2 * math.pi)
        if self.squash is not None:
            # The logarithm of the slope of tanh, where softplus(-2 x) = -2 softplus(x, beta=-2).
            half_slope = torch.add(x, torch.nn.functional.softplus(x, beta=-2), alpha=-2)
            terms = torch.sub(terms, half_slope, alpha=2)
            constant += self._log_volume + self.dim * 2 * math.log(2)
        return -constant - torch.sum(terms, dim=-1)

    def entropy(self, dist_info: Nested) -> torch.Tensor:
        """Return ``H = sum_i (log s_i + log sqrt(2 pi e))``, [...]; clipping is not considered.

        Raises:
            NotImplementedError: with squash, for which there is no closed form.
        """
        self._require_no_squash("entropy")
        log_std = self._log_std(dist_info)
        if log_std.shape != dist_info.mean.shape:  # A fixed deviation.
            log_std = log_std.expand_as(dist_info.mean)
        return torch.sum(log_std + 0.5 * math.log(2 * math.pi * math.e), dim=-1)

    def kl(self, old_dist_info: Nested, new_dist_info: Nested) -> torch.Tensor:
        """Return the divergence ``KL(old || new)`` of each datum.

        ::

            KL = sum_i ((m_o - m_n)^2 + s_o^2 - s_n^2) / (2 s_n^2 + EPS) + log s_n - log s_o

        and with a fixed standard deviation ``sum_i (m_o - m_n)^2 / (2 s^2 + EPS)``.

        Returns:
            Divergences [...].

        Raises:
            NotImplementedError: with squash.
        """
        self._require_no_squash("kl")
        distance = (old_dist_info.mean - new_dist_info.mean) ** 2
        if self.std is not None:
            return torch.sum(distance / (2 * self._like(distance, "std") ** 2 + EPS), dim=-1)
        log_std_old, log_std_new = self._log_std(old_dist_info), self._log_std(new_dist_info)
        var_old, var_new = torch.exp(2 * log_std_old), torch.exp(2 * log_std_new)
        quotient = (distance + var_old - var_new) / (2 * var_new + EPS)
        return torch.sum(quotient + log_std_new - log_std_old, dim=-1)

    def _draw(self, dist_info: Nested) -> torch.Tensor:
        mean = dist_info.mean
        if self._is_exact:
            return self._clamp(mean, "clip")
        if self.std is None:
            std = torch.exp(self._log_std(dist_info))
        else:
            std = self._like(mean, "std")
        z = normal_like(mean)
        if self.noise_clip is None:
            return self._clamp(torch.addcmul(mean, std, z), "clip")
        return self._clamp(mean + self._clamp(std * z, "noise_clip"), "clip")

    def _squashed(self, x: torch.Tensor) -> torch.Tensor:
        if self.squash is None:
            return x
        y = torch.tanh(x)
        if not isinstance(self.squash, torch.Tensor):
            return y if self.squash == 1 else self.squash * y
        squash = self._like(x, "squash")
        if squash.dim() < 2:
            return squash * y
        low, high = squash
        half_range = (high - low) / 2
        return torch.clamp(torch.addcmul(low + half_range, half_range, y), low, high)

    def _clamp(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Clamp ``x`` to the bound ``name``, if it has a value."""
        bound = getattr(self, name)
        if bound is None:
            return x
        if not isinstance(bound, torch.Tensor):
            return torch.clamp(x, -bound, bound)
        bound = self._like(x, name)
        low, high = bound if bound.dim() == 2 else (-bound, bound)
        return torch.clamp(x, low, high)

    def _log_half_ranges(self) -> float:
        """Return ``sum_i log((high_i - low_i) / 2)`` for the bounds of ``squash``; 0 without."""
        if self.squash is None:
            return 0.0
        bound = torch.as_tensor(self.squash, dtype=torch.float64)
        half_range = (bound[1] - bound[0]) / 2 if bound.dim() == 2 else bound
        if not bool((half_range > 0).all()):
            raise ValueError(f"squash={self.squash}: give positive bounds, or low below high.")
        return float(torch.log(half_range).expand(self.dim).sum())

    def _log_std(self, dist_info: Nested) -> torch.Tensor:
        if self.std is not None:
            return torch.log(self._like(dist_info.mean, "std"))
        log_std: torch.Tensor = dist_info.log_std
        if self.min_log_std is None and self.max_log_std is None:
            return log_std
        return torch.clamp(log_std, min=self.min_log_std, max=self.max_log_std)

    def _bound(self, name: str, value: Any, may_be_rows: bool = False) -> Bound | None:
        if value is None or isinstance(value, (int, float)):
            return value
        bound = self._tensor(name, value, may_be_rows)
        return bound.item() if bound.dim() == 0 else bound

    def _tensor(self, name: str, value: Any, may_be_rows: bool = False) -> torch.Tensor:
        if not isinstance(value, torch.Tensor):
            value = torch.tensor(value if isinstance(value, float) else np.asarray(value))
        tensor: torch.Tensor = value.float()
        if may_be_rows and tensor.shape == (2, self.dim):
            return tensor
        if tensor.numel() not in (1, self.dim):
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}: give a scalar, or one element for each "
                f"of the {self.dim} dimensions of the action."
            )
        return tensor

    @staticmethod
    def _require_one_bound(clip: Any, squash: Any) -> None:
        if clip is not None and squash is not None:
            raise ValueError(
                f"clip={clip} and squash={squash} exclude each other: set one of them to None."
            )

    def _require_no_squash(self, quantity: str) -> None:
        if self.squash is not None:
            raise NotImplementedError(
                f"{quantity} has no closed form for a squashed Gaussian (squash={self.squash}): "
                "estimate it from sample_loglikelihood."
            )

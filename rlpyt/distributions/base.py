"""The interface of all action distributions."""

from __future__ import annotations

from functools import lru_cache

import torch

from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested

DistInfo = None


def constant_like(constant: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return ``constant`` in the type and on the device of ``x``; it is copied only once.

    A compiled graph keeps the copy: ``constant`` may not be replaced while the graph is in use.
    """
    if constant.dtype is x.dtype and constant.device == x.device:
        return constant
    return copy_of_constant(constant, x.dtype, x.device)


def copy_of_constant(
    constant: torch.Tensor, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return the one copy of ``constant``; compiled updates mark this function as constant."""
    return _copy_of(constant, dtype, device)


@lru_cache(maxsize=256)
def _copy_of(constant: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return constant.to(device, dtype)


class Distribution:
    """Base class of probability distributions over actions.

    The parameters, one set per datum, are passed as ``dist_info``, a record of tensors
    ``[..., dim]`` from a policy network. Methods keep the leading dimensions and reduce the
    last one; the ``mean_`` methods reduce to a scalar.
    """

    @property
    def dim(self) -> int:
        """Number of discrete actions, or of dimensions of a continuous action."""
        raise NotImplementedError

    def sample(self, dist_info: Nested) -> torch.Tensor:
        """Draw one action per datum.

        Args:
            dist_info: parameters [...,dim].

        Returns:
            Actions: [...] int64 if discrete, [...,dim] if continuous.
        """
        raise NotImplementedError

    def kl(self, old_dist_info: Nested, new_dist_info: Nested) -> torch.Tensor:
        """Return the Kullback-Leibler divergence ``KL(old || new)`` of each datum, [...]."""
        raise NotImplementedError

    def mean_kl(
        self,
        old_dist_info: Nested,
        new_dist_info: Nested,
        valid: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the mean of :meth:`kl` where ``valid`` is 1 (everywhere, if None)."""
        return valid_mean(self.kl(old_dist_info, new_dist_info), valid)

    def log_likelihood(self, x: torch.Tensor, dist_info: Nested) -> torch.Tensor:
        """Return the logarithm of the probability (density) of the actions ``x``, [...]."""
        raise NotImplementedError

    def likelihood_ratio(
        self,
        x: torch.Tensor,
        old_dist_info: Nested,
        new_dist_info: Nested,
        old_logli: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the ratio of the new to the old probability (density) of the actions ``x``.

            exp(log pi_new(x) - log pi_old(x))

        Args:
            x: actions [...].
            old_dist_info: parameters of the old distribution [...,dim].
            new_dist_info: parameters of the new distribution [...,dim].
            old_logli: log pi_old(x) [...]; None to compute it.

        Returns:
            Ratios [...].
        """
        if old_logli is None:
            old_logli = self.log_likelihood(x, old_dist_info)
        return torch.exp(self.log_likelihood(x, new_dist_info) - old_logli)

    def entropy(self, dist_info: Nested) -> torch.Tensor:
        """Return the entropy of each datum in nats, [...]."""
        raise NotImplementedError

    def perplexity(self, dist_info: Nested) -> torch.Tensor:
        """Return ``exp(entropy)``, [...]: the number of equally likely actions of that entropy."""
        return torch.exp(self.entropy(dist_info))

    def mean_entropy(self, dist_info: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean of :meth:`entropy` where ``valid`` is 1 (everywhere, if None)."""
        return valid_mean(self.entropy(dist_info), valid)

    def mean_perplexity(self, dist_info: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean of :meth:`perplexity` where ``valid`` is 1 (everywhere, if None)."""
        return valid_mean(self.perplexity(dist_info), valid)

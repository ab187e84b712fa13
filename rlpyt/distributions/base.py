"""The interface of all action distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested

DistInfo = None


class Distribution:
    """Base class of probability distributions over actions.

    The parameters, one set per datum, are passed as ``dist_info``, a record of tensors
    ``[..., dim]`` from a policy network. Methods keep the leading dimensions and reduce the
    last one; the ``mean_`` methods reduce to a scalar.
    """

    # Copies of attributes, by device and name.
    _copies: Mapping[torch.device, dict[str, torch.Tensor]] = {}

    def copy_to(self, device: torch.device) -> None:
        """Keep copies of tensors, such as bounds, on a device, so that no method moves them there.

        Agents act and train with one distribution, on two devices. A tensor that replaces another
        has no copy.
        """
        tensors = {name: x for name, x in vars(self).items() if isinstance(x, torch.Tensor)}
        copies = {name: x.to(device) for name, x in tensors.items()}
        self._copies = {**self._copies, device: copies}

    def _like(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return the tensor ``name`` in the type and on the device of ``x``."""
        own: torch.Tensor = getattr(self, name)
        return self._copies.get(x.device, {}).get(name, own).to(x)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        for copies in self._copies.values():
            copies.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_copies": {}}  # Other processes have other devices.

    @property
    def dim(self) -> int:
        """Number of discrete actions, or of dimensions of a continuous action."""
        raise NotImplementedError(f"{type(self).__name__} does not define dim")

    def sample(self, dist_info: Nested) -> torch.Tensor:
        """Draw one action per datum.

        Args:
            dist_info: parameters [...,dim].

        Returns:
            Actions: [...] int64 if discrete, [...,dim] if continuous.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define sample()")

    def kl(self, old_dist_info: Nested, new_dist_info: Nested) -> torch.Tensor:
        """Return the Kullback-Leibler divergence ``KL(old || new)`` of each datum, [...]."""
        raise NotImplementedError(f"{type(self).__name__} does not define kl()")

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
        raise NotImplementedError(f"{type(self).__name__} does not define log_likelihood()")

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
        raise NotImplementedError(f"{type(self).__name__} does not define entropy()")

    def perplexity(self, dist_info: Nested) -> torch.Tensor:
        """Return ``exp(entropy)``, [...]: the number of equally likely actions of that entropy."""
        return torch.exp(self.entropy(dist_info))

    def mean_entropy(self, dist_info: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean of :meth:`entropy` where ``valid`` is 1 (everywhere, if None)."""
        return valid_mean(self.entropy(dist_info), valid)

    def mean_perplexity(self, dist_info: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean of :meth:`perplexity` where ``valid`` is 1 (everywhere, if None)."""
        return valid_mean(self.perplexity(dist_info), valid)

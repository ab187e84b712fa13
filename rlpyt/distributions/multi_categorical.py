"""The distribution over arrays of discrete actions with different numbers of choices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from rlpyt.distributions.base import Distribution
from rlpyt.distributions.categorical import Categorical, DistInfo


class MultiCategorical(Distribution):
    """Independent :class:`~rlpyt.distributions.categorical.Categorical` parts, in an array.

    An action ``a`` has the shape of ``nvec``, and ``0 <= a_k < nvec_k`` for each entry k. With N
    the largest of ``nvec``, probabilities are ``[...,*shape,N]``, zero for missing choices, so that
    one operation handles all entries at once. ``log pi``, entropy and KL divergence are sums over
    the entries.

    Args:
        nvec: numbers of choices, an array of any shape.

    Raises:
        ValueError: if an entry has no choices.
    """

    def __init__(self, nvec: npt.ArrayLike) -> None:
        self.nvec = np.asarray(nvec, dtype=np.int64)
        if self.nvec.size == 0 or self.nvec.min() < 1:
            raise ValueError(
                f"nvec is {self.nvec}: give at least one entry, each of them at least 1"
            )
        self._each = Categorical(dim=int(self.nvec.max()))
        # Dimensions of one action, over which to sum.
        self._dims = tuple(range(-self.nvec.ndim, 0))

    @property
    def dim(self) -> int:
        """Number of entries of an action."""
        return int(self.nvec.size)

    def to_onehot(self, indexes: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return one-hot vectors [...,*shape,N] of the actions ``indexes`` [...,*shape]."""
        return self._each.to_onehot(indexes, dtype)

    def from_onehot(self, onehot: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the actions [...,*shape] of the one-hot vectors ``onehot`` [...,*shape,N]."""
        return self._each.from_onehot(onehot, dtype)

    def sample(self, dist_info: DistInfo) -> torch.Tensor:
        """Draw an action [...,*shape] with the probabilities [...,*shape,N]."""
        return self._each.sample(dist_info)

    def kl(self, old_dist_info: DistInfo, new_dist_info: DistInfo) -> torch.Tensor:
        """Return the divergences [...], summed over the entries."""
        return self._sum(self._each.kl(old_dist_info, new_dist_info))

    def entropy(self, dist_info: DistInfo) -> torch.Tensor:
        """Return the entropies [...], summed over the entries."""
        return self._sum(self._each.entropy(dist_info))

    def log_likelihood(self, indexes: torch.Tensor, dist_info: DistInfo) -> torch.Tensor:
        """Return the log-likelihoods [...] of the actions ``indexes`` [...,*shape]."""
        return self._sum(self._each.log_likelihood(indexes, dist_info))

    def _sum(self, parts: torch.Tensor) -> torch.Tensor:
        # Torch takes an empty list of dimensions for all of them.
        return parts.sum(dim=self._dims) if self._dims else parts

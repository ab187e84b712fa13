"""The distribution over records of actions of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rlpyt.distributions.base import Distribution
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import Nested


class CompositeDistribution(Distribution):
    """Independent distributions, one for each field of a record.

    Actions and parameters are records with a field for each part. ``log pi``, entropy and KL
    divergence are sums over the parts: of logarithms of densities for continuous parts, of
    probabilities for discrete ones.

    Args:
        names: names of the fields.
        distributions: distributions of the fields, in the order of ``names``; may be composite.

    Raises:
        ValueError: if there are not as many names as distributions.
    """

    def __init__(self, names: Sequence[str], distributions: Sequence[Distribution]) -> None:
        if len(names) != len(distributions) or not names:
            raise ValueError(
                f"{len(distributions)} distributions for the fields {tuple(names)}: give one for "
                "each field"
            )
        self.names = tuple(names)
        self.distributions = list(distributions)

    def copy_to(self, device: torch.device) -> None:
        for part in self.distributions:
            part.copy_to(device)

    @property
    def dim(self) -> int:
        """Sum of the ``dim`` of the parts."""
        return sum(distribution.dim for distribution in self.distributions)

    def sample(self, dist_info: Nested) -> Nested:
        """Draw a record of actions, [...] in each field."""
        draws = [part.sample(info) for part, info in zip(self.distributions, dist_info)]
        # The class is not kept, since classes made at run time cannot be pickled.
        return record_class("Action", self.names)(*draws)

    def kl(self, old_dist_info: Nested, new_dist_info: Nested) -> torch.Tensor:
        """Return the divergences [...], summed over the parts."""
        return self._sum(lambda part, *infos: part.kl(*infos), old_dist_info, new_dist_info)

    def entropy(self, dist_info: Nested) -> torch.Tensor:
        """Return the entropies [...], summed over the parts."""
        return self._sum(lambda part, info: part.entropy(info), dist_info)

    def log_likelihood(self, x: Nested, dist_info: Nested) -> torch.Tensor:
        """Return the log-likelihoods [...], summed over the parts."""
        return self._sum(lambda part, x, info: part.log_likelihood(x, info), x, dist_info)

    def _sum(self, term: Callable[..., torch.Tensor], *records: Nested) -> torch.Tensor:
        terms = [term(*parts) for parts in zip(self.distributions, *records)]
        return torch.stack(terms).sum(dim=0)

"""The distribution over discrete actions with given probabilities."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from rlpyt.core.records import NotFiniteError
from rlpyt.distributions.base import Distribution
from rlpyt.distributions.discrete import DiscreteMixin
from rlpyt.distributions.noise import exponential_like
from rlpyt.utils.collections import record
from rlpyt.utils.tensor import select_at_indexes

EPS = 1e-8  # Keeps logarithms and ratios finite where a probability is 0.


@record
class DistInfo(NamedTuple):
    """Parameters of a :class:`Categorical`."""

    prob: torch.Tensor  # [...,A] probability of each action


class Categorical(DiscreteMixin, Distribution):
    """Discrete actions with the probabilities ``p``.

    Sampling normalizes the probabilities; the formulas use them unchanged. Zeros are allowed.
    """

    def sample(self, dist_info: DistInfo) -> torch.Tensor:
        """Draw for each datum the action with the largest ``p_a / e_a``, where e ~ Exp(1).

        Args:
            dist_info: probabilities [...,A], which need not add up to 1.

        Returns:
            Actions [...].

        Raises:
            ValueError: if there is not one probability for each action.
            NotFiniteError: if a probability is negative or not finite, or all of a datum are 0.
                Only on the CPU: the check would wait for another device.
        """
        prob = dist_info.prob.detach()
        self.check_width(prob)
        race = prob / exponential_like(prob)
        best, actions = race.max(dim=-1)
        if prob.is_cpu:
            least, most = torch.aminmax(race)
            if not (least.item() >= 0 and most.item() < math.inf and best.min().item() > 0):
                raise NotFiniteError(
                    "probabilities of actions are negative, all 0 or not finite: "
                    f"{prob.reshape(-1, prob.shape[-1])[:5]}; the network or its inputs diverged"
                )
        return actions.type(self.dtype)

    def kl(self, old_dist_info: DistInfo, new_dist_info: DistInfo) -> torch.Tensor:
        """Return ``KL = sum_a p_a (log(p_a + EPS) - log(q_a + EPS))``, p old and q new, [...]."""
        p, q = old_dist_info.prob, new_dist_info.prob
        return torch.sum(p * (torch.log(p + EPS) - torch.log(q + EPS)), dim=-1)

    def entropy(self, dist_info: DistInfo) -> torch.Tensor:
        """Return ``H = -sum_a p_a log(p_a + EPS)``, [...]."""
        p = dist_info.prob
        return -torch.sum(p * torch.log(p + EPS), dim=-1)

    def log_likelihood(self, indexes: torch.Tensor, dist_info: DistInfo) -> torch.Tensor:
        """Return ``log(p_a + EPS)`` [...] of the actions a in ``indexes`` [...]."""
        return torch.log(select_at_indexes(indexes, dist_info.prob) + EPS)

    def likelihood_ratio(
        self,
        indexes: torch.Tensor,
        old_dist_info: DistInfo,
        new_dist_info: DistInfo,
        old_logli: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return ``(q_a + EPS) / (p_a + EPS)`` of actions a, p the old and q the new, [...]."""
        return super().likelihood_ratio(indexes, old_dist_info, new_dist_info, old_logli)

"""Munchausen Q-learning: the policy's log-probability of an action is added to its reward."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import check_fraction, check_positive
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.losses import munchausen_bonus, soft_quantiles, soft_value
from rlpyt.utils.types import Nested


class MunchausenDQN(DQN):
    """Munchausen DQN: Q-learning of a softmax policy that trusts its own probabilities.

        y = r + munchausen_alpha * clip(entropy_tau * log pi(a|s), munchausen_clip, 0)
              + (1 - done) * discount * entropy_tau * log sum_a exp(Q_target(s', a) / entropy_tau)

        pi(a|s) = exp(Q_target(s, a) / entropy_tau) / sum_b exp(Q_target(s, b) / entropy_tau)

    The value of s' is that of the policy pi, entropy included. All else is as in
    :class:`~rlpyt.algos.dqn.dqn.DQN`.

    Args:
        munchausen_alpha: weight of the log-probability added to the reward, in [0, 1].
        entropy_tau: temperature of the softmax policy.
        munchausen_clip: negative lower bound of ``entropy_tau`` times the log-probability.
        **kwargs: further settings, but not ``double_dqn`` and ``n_step_return``.

    Source: Vieillard et al. 2020, arXiv:2007.14430, eq. 1.
    """

    q_kind = DQN.q_kind

    def __init__(
        self,
        munchausen_alpha: float = 0.9,
        entropy_tau: float = 0.03,
        munchausen_clip: float = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.munchausen_alpha = munchausen_alpha
        self.entropy_tau = entropy_tau
        self.munchausen_clip = munchausen_clip

    def _check_settings(self) -> None:
        super()._check_settings()
        check_fraction(self, "munchausen_alpha")
        check_positive(self, "entropy_tau")
        name = type(self).__name__
        if not self.munchausen_clip < 0:
            raise ValueError(f"munchausen_clip is {self.munchausen_clip}: make it negative")
        if self.double_dqn:
            raise ValueError(
                f"double_dqn is True, but in {name} actions at s' are those of a policy: make it "
                "False"
            )
        if self.n_step_return > 1:
            raise ValueError(
                f"n_step_return is {self.n_step_return}, but {name} adds to the reward of the "
                "first action of a sample, the only one that is stored: make it 1"
            )

    @torch.no_grad()
    def target_return(self, samples: Nested) -> torch.Tensor:
        q = self.target_values(samples.agent_inputs)
        q_taken = self.select_at_indexes(samples.action, q)
        settings = self.munchausen_alpha, self.entropy_tau, self.munchausen_clip
        return super().target_return(samples) + munchausen_bonus(q_taken, q, *settings)

    @torch.no_grad()
    def next_value(self, target_inputs: Nested) -> torch.Tensor:
        return soft_value(self.target_values(target_inputs), self.entropy_tau)

    def target_values(self, inputs: Nested) -> torch.Tensor:
        """Return the values [B,A] of all actions, by the target network."""
        values: torch.Tensor = self.agent.target(*inputs)
        return values


class MunchausenIQN(MunchausenDQN, IQN):
    """Munchausen IQN: the means of target quantiles determine the softmax policy.

        u_ij = r + munchausen_alpha * clip(entropy_tau * log pi(a|s), munchausen_clip, 0)
               + (1 - done) * discount * sum_b pi(b|s') * (Z_target_{tau'_j}(s', b)
               - entropy_tau * log pi(b|s')) - Z_{tau_i}(s, a)

    The loss is that of :class:`~rlpyt.algos.dqn.iqn.IQN`. The policies at s and s' are computed
    from ``agent.n_tau`` fractions each.

    Args:
        **kwargs: settings of :class:`MunchausenDQN` and :class:`~rlpyt.algos.dqn.iqn.IQN`.

    Source: Vieillard et al. 2020, arXiv:2007.14430, section 3.
    """

    q_kind = IQN.q_kind
    agent_example = IQN.agent_example

    @torch.no_grad()
    def next_quantiles(self, target_inputs: Nested) -> torch.Tensor:
        choosing, quantiles = self.next_outputs(target_inputs)
        return soft_quantiles(choosing.mean(dim=-1), quantiles, self.entropy_tau)

    def target_values(self, inputs: Nested) -> torch.Tensor:
        quantiles, _ = self.agent.target(*inputs)
        values: torch.Tensor = quantiles.mean(dim=-1)
        return values

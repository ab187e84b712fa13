"""Soft actor-critic for discrete actions."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch

from rlpyt.algos.checks import check_fraction
from rlpyt.algos.qpg.actor_critic import mean_weights
from rlpyt.algos.qpg.sac import SAC, Losses
from rlpyt.core.masks import is_allowed
from rlpyt.utils.tensor import select_at_indexes
from rlpyt.utils.types import Nested

OptInfo = namedtuple(
    "OptInfo",
    [
        "q1Loss",
        "q2Loss",
        "piLoss",
        "q1GradNorm",
        "q2GradNorm",
        "piGradNorm",
        "q1",
        "q2",
        "entropy",
        "qMeanDiff",
        "alpha",
    ],
)

# Settings of SAC that are fixed here.
FIXED = {
    "action_prior": "uniform",
    "reparameterize": True,
    "policy_update_interval": 1,
}


class DiscreteSAC(SAC):
    """Soft actor-critic for discrete actions: expectations over all actions, instead of samples.

        V(s')    = sum_a pi(a|s') (min_i Q_target_i(s', a) - alpha log pi(a|s'))
        y        = reward_scale * R_n + (1 - done_n) discount^n V(s')
        loss_Qi  = mean of (y - Q_i(s, a))^2 / 2
        loss_pi  = mean of sum_a pi(a|s) (alpha log pi(a|s) - min_i Q_i(s, a))
        loss_a   = mean of log alpha (H(pi(.|s)) - target_entropy)

    with the entropy H(pi) = -sum_a pi(a) log pi(a). All four losses use the networks before the
    update; then the optimizers step in the order alpha, pi, Q_1, Q_2.

    Args:
        target_entropy: policy entropy, in nats, towards which the temperature is learned; "auto"
            for ``target_entropy_fraction`` of the maximum. None for a constant temperature.
        target_entropy_fraction: fraction, in [0, 1], of the maximum entropy log A, where A is the
            number of actions allowed in a sample.
        augmentation: augmentation of images, as in :class:`~rlpyt.algos.dqn.dqn.DQN`.
        **kwargs: settings of :class:`~rlpyt.algos.qpg.sac.SAC`, but not ``action_prior``,
            ``reparameterize`` and ``policy_update_interval``, which need drawn actions.

    Source: Christodoulou 2019, arXiv:1910.07207.
    """

    opt_info_fields = tuple(OptInfo._fields)
    q_kind = "a policy and two critics of discrete actions"
    agent_example = "rlpyt.agents.qpg.sac_discrete_agent.DiscreteSacAgent"

    def __init__(
        self,
        target_entropy: Any = "auto",
        target_entropy_fraction: float = 0.98,
        augmentation: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(target_entropy=target_entropy, **kwargs)
        self.target_entropy_fraction = target_entropy_fraction
        self.augmentation = augmentation

    def _check_settings(self) -> None:
        for name, value in FIXED.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but {type(self).__name__} has a uniform "
                    "prior, and draws no actions in training: leave it out"
                )
        super()._check_settings()
        check_fraction(self, "target_entropy_fraction")

    def default_target_entropy(self) -> Any:
        return "auto"  # Masks change it from sample to sample.

    # --- Losses ------------------------------------------------------------------------------

    def run_critics(self, batch: Nested) -> torch.Tensor:
        q1: torch.Tensor = self.agent.q(*batch.agent_inputs)[0]
        return q1

    def loss(self, samples: Nested) -> tuple[Any, Any]:
        """Compute all losses of one batch.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``timeout_n`` [B] if time limits are
                stored.

        Returns:
            :class:`~rlpyt.algos.qpg.sac.Losses`; and, without gradient, the values of the actions
            taken, by both critics, and the policy's entropy, [B] each.
        """
        weights = mean_weights(self.valid(samples))
        inputs = self.agent.to_model_device(*samples.agent_inputs)
        q1, q2 = self.agent.q(*inputs)
        y = self.q_target(samples)
        log_pi = self.agent.log_pi(*inputs)
        entropy = -expectation(log_pi, log_pi)
        q1_taken, q2_taken = (select_at_indexes(samples.action, q) for q in (q1, q2))
        pi_losses = -self._alpha * entropy - expectation(log_pi, torch.min(q1, q2).detach())
        losses = Losses(
            q1=self.q_loss(q1_taken, y, weights),
            q2=self.q_loss(q2_taken, y, weights),
            pi=torch.dot(pi_losses, weights),
            alpha=self.alpha_loss(-entropy, weights, self.target_entropies(log_pi)),
        )
        return losses, tuple(value.detach() for value in (q1_taken, q2_taken, entropy))

    def target_entropies(self, log_pi: torch.Tensor) -> Any:
        """Return the target entropies [B] of policies [B,A], or the number that is given."""
        if self.target_entropy != "auto":
            return self.target_entropy
        greatest = is_allowed(log_pi).sum(-1).double().log()
        return (self.target_entropy_fraction * greatest).to(log_pi.dtype)

    @torch.no_grad()
    def q_target(self, samples: Nested) -> torch.Tensor:
        inputs = self.agent.to_model_device(*samples.target_inputs)
        log_pi = self.agent.log_pi(*inputs)
        values = torch.min(*self.agent.target_q(*inputs)) - self._alpha * log_pi
        return self.q_target_of(samples, expectation(log_pi, values))

    def named_values(self, losses: Any, grad_norms: Any, values: Any) -> dict[str, Any]:
        q1, q2, _ = values
        logged = (*losses[:3], *grad_norms, *values, (q1 - q2).abs().mean(), self._alpha)
        return OptInfo._make(logged)._asdict()


def expectation(log_pi: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the mean [B] of values [B,A] under a policy, from its log-probabilities [B,A]."""
    return (log_pi.exp() * values).sum(-1)

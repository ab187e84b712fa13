"""Twin delayed DDPG: two critics, a smoothed target and fewer policy updates."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class TD3(DDPG):
    """TD3: trains two critics on the smaller of two target values, at a noisy target action.

        a'      = clamp(mu_target(s') + clamp(noise, +-c)),  the agent's
        y       = clip(R_n + (1 - done_n) discount^n min_i Q_target_i(s', a'), +-q_target_clip)
        loss_Q  = mean of sum_i (y - Q_i(s, a))^2 / 2
        loss_mu = mean of -Q_1(s, mu(s))

    Args:
        batch_size: number B of samples in one update.
        replay_ratio: number of samples drawn for training per environment step.
        target_update_tau: weight of the online parameters in a target-network update; 1 copies
            them.
        target_update_interval: number of updates between target-network updates.
        policy_update_interval: number of critic updates per policy update.
        mu_learning_rate: learning rate of the policy; ``learning_rate`` is another name for it.
        q_learning_rate: learning rate of the critics.
        **kwargs: further arguments of :class:`~rlpyt.algos.qpg.ddpg.DDPG`.

    Raises:
        ValueError: if two learning rates of the policy are given.

    Source: Fujimoto et al. 2018, arXiv:1802.09477, algorithm 1.
    """

    q_kind = "two critics of values"
    agent_example = "Td3Agent"

    mu_learning_rate: float = 1e-3

    def __init__(
        self,
        batch_size: int = 100,
        replay_ratio: float = 100,
        target_update_tau: float = 0.005,
        target_update_interval: int = 2,
        policy_update_interval: int = 2,
        mu_learning_rate: float = 1e-3,
        q_learning_rate: float = 1e-3,
        *,
        learning_rate: float | None = None,
        **kwargs: Any,
    ) -> None:
        if learning_rate is None:
            learning_rate = mu_learning_rate
        if mu_learning_rate not in (1e-3, learning_rate):
            raise ValueError(
                f"mu_learning_rate is {mu_learning_rate} and learning_rate is {learning_rate}: "
                "both set the policy's learning rate, give only one"
            )
        mu_learning_rate = learning_rate
        super().__init__(
            batch_size=batch_size,
            replay_ratio=replay_ratio,
            target_update_tau=target_update_tau,
            target_update_interval=target_update_interval,
            policy_update_interval=policy_update_interval,
            learning_rate=learning_rate,
            q_learning_rate=q_learning_rate,
            **kwargs,
        )
        save__init__args(locals())

    def q_loss(self, samples: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the sum of both critics' losses.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized; the new
                priority is the mean of both absolute TD errors.
            valid: mask [B], 1 for samples to train on; None for all.
        """
        q1, q2 = self.agent.q(*samples.agent_inputs, samples.action)
        y = self.q_target(samples)
        td_errors1, td_errors2 = y - q1, y - q2
        self.remember_priorities(samples, valid, td_errors1, td_errors2)
        return self.weighted_mean(0.5 * (td_errors1**2 + td_errors2**2), samples, valid)

    def next_value(self, target_inputs: Nested) -> torch.Tensor:
        lesser: torch.Tensor = torch.min(*self.agent.target_q_at_mu(*target_inputs))
        return lesser

"""Soft actor-critics with other critics: REDQ, TQC and CrossQ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.algos._optim import make_optimizer, with_defaults
from rlpyt.algos.losses import quantile_huber_loss, quantile_midpoints
from rlpyt.algos.qpg.sac import SAC
from rlpyt.utils.buffer import leaves, map_buffer
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.types import Nested


class REDQ(SAC):
    """REDQ: many updates in each step, with targets by a random subset of many critics.

        y        = reward_scale * R_n
                   + (1 - done_n) discount^n (min_{i in M} Q_target_i(s', a') - alpha log pi(a'|s'))
        loss_pi  = mean of alpha log pi(u|s) - mean_i Q_i(s, u) - log prior(u)

    where M is a set of ``target_subset`` critics, drawn anew in each update. All else is as in
    :class:`~rlpyt.algos.qpg.sac.SAC`. Two critics with dropout and layer normalization make DroQ.

    Args:
        target_subset: number of critics in each target, of the agent's ``n_critics``.
        policy_update_interval: number of critic updates per update of policy and temperature.
        replay_ratio: number of samples drawn for training per environment step.
        **kwargs: further settings of :class:`~rlpyt.algos.qpg.sac.SAC`.

    Source: Chen et al. 2021, arXiv:2101.05982, algorithm 1; DroQ: Hiraoka et al. 2022,
    arXiv:2110.02034, algorithm 2.
    """

    q_kind = SAC.q_kind

    def __init__(
        self,
        target_subset: int = 2,
        policy_update_interval: int = 20,
        replay_ratio: float = 20 * 256,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            policy_update_interval=policy_update_interval, replay_ratio=replay_ratio, **kwargs
        )
        self.target_subset = whole_number("target_subset", target_subset)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.target_subset > self._n_critics:
            raise ValueError(
                f"target_subset is {self.target_subset}, but the agent has {self._n_critics} "
                "critics: choose at most as many"
            )

    def target_qs(self, inputs: Nested, action: torch.Tensor) -> Sequence[torch.Tensor]:
        subset = torch.randperm(self._n_critics)[: self.target_subset]
        if torch.compiler.is_compiling():  # A graph cannot choose its networks.
            all_qs = torch.stack(self.agent.target_q(*inputs, action))
            return all_qs[subset.to(all_qs.device)].unbind()
        qs: Sequence[torch.Tensor] = self.agent.target_q(*inputs, action, subset=subset.tolist())
        return qs

    def q_of_policy(self, inputs: Nested, action: torch.Tensor) -> torch.Tensor:
        """Return what the policy maximizes: the mean value [B] of all critics."""
        return torch.stack(self.qs_of_policy(inputs, action)).mean(0)


class TQC(SAC):
    """TQC: critics of quantiles, whose greatest are left out of the targets.

        z        = quantiles of all target critics at (s', a'), without the N D greatest
        y_j      = reward_scale * R_n + (1 - done_n) discount^n (z_j - alpha log pi(a'|s'))
        loss_Qi  = mean of the quantile Huber losses between quantiles of Q_i and all y_j, kappa = 1
        loss_pi  = mean of alpha log pi(u|s) - mean_ik Q_ik(s, u) - log prior(u)

    with N critics and D = ``dropped_quantiles``; all else is as in
    :class:`~rlpyt.algos.qpg.sac.SAC`. The log has the means of quantiles.

    Args:
        dropped_quantiles: number D of quantiles per critic, the greatest, left out of the targets.
        **kwargs: settings of :class:`~rlpyt.algos.qpg.sac.SAC`.

    Source: Kuznetsov et al. 2020, arXiv:2005.04269, section 4.
    """

    q_kind = "critics of quantiles and a stochastic policy"
    agent_example = "SacAgent with n_quantiles in q_model_kwargs"

    def __init__(self, dropped_quantiles: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropped_quantiles = whole_number("dropped_quantiles", dropped_quantiles, at_least=0)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.dropped_quantiles >= self.agent.n_quantiles:
            raise ValueError(
                f"dropped_quantiles is {self.dropped_quantiles}, but n_quantiles of the critics is "
                f"{self.agent.n_quantiles}: drop fewer"
            )

    def critic_losses(
        self, samples: Nested, inputs: Nested, weights: torch.Tensor
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        losses, quantiles = super().critic_losses(samples, inputs, weights)
        return losses, tuple(q.mean(-1) for q in quantiles)

    def soft_value(self, qs: Sequence[torch.Tensor], log_pi: torch.Tensor) -> torch.Tensor:
        """Return the quantiles [B,M] of s' that are kept, with the entropy of the policy."""
        z = torch.cat(tuple(qs), -1)
        n_kept = z.shape[-1] - self.dropped_quantiles * len(qs)
        least = z.sort(-1).values[:, :n_kept]
        return least - (self._alpha * log_pi).unsqueeze(-1)

    def q_loss(self, q: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Compute the loss of one critic, from its quantiles [B,N] and targets [B,M]."""
        n = q.shape[-1]
        losses, _ = quantile_huber_loss(q, quantile_midpoints(n, q.device), y, kappa=1.0)
        return torch.dot(losses / n, weights)

    def q_of_policy(self, inputs: Nested, action: torch.Tensor) -> torch.Tensor:
        """Return what the policy maximizes: the mean [B] of all quantiles of all critics."""
        means = [q.mean(-1) for q in self.qs_of_policy(inputs, action)]
        return torch.stack(means).mean(0)


class CrossQ(SAC):
    """CrossQ: critics with batch renormalization, without target networks.

        [Q_i(s, a), Q_i(s', a')] = Q_i([(s, a), (s', a')])
        y  = reward_scale * R_n
             + (1 - done_n) discount^n (min_i Q_i(s', a') - alpha log pi(a'|s')), without gradient

    Layers of batch renormalization use the statistics of this joint batch; the policy in loss_pi
    uses the statistics of the batch of s. The policy at s' and the critics in loss_pi use running
    statistics. All else is as in :class:`~rlpyt.algos.qpg.sac.SAC`.

    Args:
        learning_rate: learning rate of all optimizers.
        policy_update_interval: number of critic updates per update of policy and temperature.
        optim_kwargs: keyword arguments of ``OptimCls``; if it takes ``betas``, the default is
            (0.5, 0.999).
        alpha_optim_kwargs: keyword arguments of ``OptimCls`` for the temperature.
        **kwargs: further settings of :class:`~rlpyt.algos.qpg.sac.SAC`.

    Source: Bhatt et al. 2024, arXiv:1902.05605, section 3.
    """

    q_kind = "critics without target networks and a stochastic policy"
    agent_example = "SacAgent with target_networks=False"

    def __init__(
        self,
        learning_rate: float = 1e-3,
        policy_update_interval: int = 3,
        optim_kwargs: dict[str, Any] | None = None,
        alpha_optim_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            policy_update_interval=policy_update_interval,
            optim_kwargs=optim_kwargs,
            **kwargs,
        )
        self.alpha_optim_kwargs = alpha_optim_kwargs
        self.optim_kwargs = with_defaults(self.OptimCls, self.optim_kwargs, betas=(0.5, 0.999))

    def make_alpha_optimizer(self) -> Any:
        kwargs = self.alpha_optim_kwargs or {}
        return make_optimizer(self.OptimCls, [self._log_alpha], self.learning_rate, kwargs)

    def critic_losses(
        self, samples: Nested, inputs: Nested, weights: torch.Tensor
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        next_inputs, next_action, log_pi = self.next_action(samples)
        (action,) = self.agent.to_model_device(samples.action)
        both = self.agent.q(*joined((*inputs, action), (*next_inputs, next_action)))
        qs, next_qs = zip(*(q.chunk(2) for q in both))
        y = self.q_target_of(samples, self.soft_value([q.detach() for q in next_qs], log_pi))
        return [self.q_loss(q, y, weights) for q in qs], qs


def joined(first: Nested, second: Nested) -> Nested:
    """Concatenate two batches of one structure, [B,...] and [B',...], into [B+B',...]."""
    rest = iter(leaves(second))
    return map_buffer(lambda x: torch.cat([x, next(rest)]), first)

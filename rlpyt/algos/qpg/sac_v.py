"""The first soft actor-critic, with a network of state values and its target copy."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import torch

from rlpyt.algos.qpg.actor_critic import (
    SamplesToBufferTl,
    SoftActorCriticAlgorithm,
    half_squared_error,
    mean_weights,
)
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested

SamplesToBuffer = namedarraytuple("SamplesToBuffer", SamplesToBufferTl._fields)
OptInfo = namedtuple(
    "OptInfo",
    [
        "q1Loss",
        "q2Loss",
        "vLoss",
        "piLoss",
        "q1GradNorm",
        "q2GradNorm",
        "vGradNorm",
        "piGradNorm",
        "q1",
        "q2",
        "v",
        "piMu",
        "piLogStd",
        "qMeanDiff",
    ],
)


class Losses(NamedTuple):
    """Loss of each optimizer."""

    q1: torch.Tensor
    q2: torch.Tensor
    v: torch.Tensor
    pi: torch.Tensor


class SAC_V(SoftActorCriticAlgorithm):  # noqa: N801
    """The first soft actor-critic: maximizes return and entropy together, at temperature 1.

        y        = reward_scale * R_n + (1 - done_n) discount^n V_target(s')
        loss_Qi  = mean of (y - Q_i(s, a))^2 / 2
        y_V      = min_i Q_i(s, u) - log pi(u|s) + log prior(u)
        loss_V   = mean of (y_V - V(s))^2 / 2
        loss_pi  = mean of log pi(u|s) - min_i Q_i(s, u) - log prior(u)
                   + policy_output_regularization * (mean_s^2 + log_std_s^2) / 2

    with u drawn from the policy, and the last term averaged over the dimensions of the action.
    Without ``reparameterize`` the first line of loss_pi is log pi(u|s) * (V(s) - y_V), where u is
    constant and only its likelihood has a gradient. All four losses use the networks before the
    update; then the optimizers step in the order V, pi, Q_1, Q_2.

    Args:
        discount: discount factor per step, in [0, 1].
        batch_size: number B of samples in one update.
        min_steps_learn: number of environment steps, over all processes, before training starts.
        replay_size: number of environment steps stored in each process, divided equally among its
            environments.
        replay_ratio: number of samples drawn for training per environment step.
        target_update_tau: weight of the online parameters in a target-network update; 1 copies
            them.
        target_update_interval: number of updates between target-network updates.
        learning_rate: learning rate of all optimizers.
        OptimCls: class of the optimizers.
        optim_kwargs: keyword arguments of ``OptimCls``.
        initial_optim_state_dict: initial state of the optimizers, from :meth:`optim_state_dict`.
        action_prior: prior over actions, "uniform" or "gaussian".
        reward_scale: factor by which rewards are multiplied; the greater, the less the entropy
            counts.
        reparameterize: whether the gradient of Q flows through the action to the policy.
        clip_grad_norm: largest gradient norm of each network; None for no clipping.
        policy_output_regularization: weight of the penalty on squared policy outputs.
        n_step_return: number n of rewards in a return.
        updates_per_sync: number of updates between parameter transfers to the sampler, in
            asynchronous mode.
        bootstrap_timelimit: whether to treat time limits as truncations: returns are bootstrapped
            from the last observation if it is recorded, and left out of the loss if not; see
            :class:`~rlpyt.algos.replay.ReplayAlgorithm`. False treats a time limit as termination.
        ReplayBufferCls: replay buffer class to use instead of the default, called with the same
            keywords.
        replay_device: device that stores the replay buffer: "agent" for the agent's device, None
            for host memory.

    Source: Haarnoja et al. 2018, arXiv:1801.01290, algorithm 1.
    """

    opt_info_fields = tuple(OptInfo._fields)
    q_kind = "two critics, a stochastic policy and a state value"
    agent_example = "rlpyt.agents.qpg.sac_v_agent.SacAgent"

    policy_output_regularization: float = 0.001
    v_optimizer: Any

    def __init__(
        self,
        discount: float = 0.99,
        batch_size: int = 256,
        min_steps_learn: float = int(1e4),
        replay_size: float = int(1e6),
        replay_ratio: float = 256,
        target_update_tau: float = 0.005,
        target_update_interval: int = 1,
        learning_rate: float = 3e-4,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        initial_optim_state_dict: Any = None,
        action_prior: str = "uniform",
        reward_scale: float = 1,
        reparameterize: bool = True,
        clip_grad_norm: float | None = 1e9,
        policy_output_regularization: float = 0.001,
        n_step_return: int = 1,
        updates_per_sync: int = 1,
        bootstrap_timelimit: bool = True,
        ReplayBufferCls: Any = None,
        replay_device: Any = None,
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        self.optim_kwargs = dict(self.optim_kwargs or {})

    # --- Set-up ------------------------------------------------------------------------------

    def make_optimizers(self) -> None:
        super().make_optimizers()
        self.v_optimizer = self.make_optimizer(self.agent.v_parameters())

    def named_optimizers(self) -> dict[str, Any]:
        return {**super().named_optimizers(), "v_optimizer": self.v_optimizer}

    # --- Losses ------------------------------------------------------------------------------

    def loss(self, samples: Nested) -> tuple[Any, Any]:
        """Compute all losses of one batch.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``timeout_n`` [B] if time limits are
                stored.

        Returns:
            :class:`Losses`; and, without gradient, the values [B] of both critics and of the state,
            and the policy's means and log standard deviations [B,A].
        """
        weights = mean_weights(self.valid(samples))
        inputs = self.agent.to_model_device(*samples.agent_inputs)
        q1, q2 = self.agent.q(*inputs, samples.action)
        v = self.agent.v(*inputs)
        with torch.no_grad():  # Agents of programs leave that to the algorithm.
            y = self.q_target_of(samples, self.agent.target_v(*samples.target_inputs))
        # The keyword is passed only if needed, since agents may lack it.
        draw = {} if self.reparameterize else {"reparameterize": False}
        action, log_pi, (pi_mean, pi_log_std) = self.agent.pi(*inputs, **draw)
        q_and_prior = self.q_of_policy(inputs, action) + self.get_action_prior(action)
        y_v = (q_and_prior - log_pi).detach()
        pi_losses = log_pi - q_and_prior if self.reparameterize else log_pi * (v - y_v).detach()
        losses = Losses(
            q1=half_squared_error(q1, y, weights),
            q2=half_squared_error(q2, y, weights),
            v=half_squared_error(v, y_v, weights),
            pi=torch.dot(pi_losses + self.output_penalty(pi_mean, pi_log_std), weights),
        )
        return losses, tuple(value.detach() for value in (q1, q2, v, pi_mean, pi_log_std))

    def output_penalty(self, pi_mean: torch.Tensor, pi_log_std: torch.Tensor) -> torch.Tensor:
        """Return the penalty [B] that regularizes the policy's outputs [B,A]."""
        squares = 0.5 * (pi_mean**2 + pi_log_std**2)
        return self.policy_output_regularization * squares.mean(-1)

    # --- One update --------------------------------------------------------------------------

    def update_networks(self, samples: Nested) -> dict[str, Any]:
        values = self._get_loss_values(samples)
        q1_loss, q2_loss, v_loss, pi_loss = values["losses"]
        v_norm, pi_norm, q1_norm, q2_norm = self.minimize_all(
            [v_loss, pi_loss, q1_loss, q2_loss],
            [self.v_optimizer, self.pi_optimizer, self.q1_optimizer, self.q2_optimizer],
        )
        return {**values, "grad_norms": (q1_norm, q2_norm, v_norm, pi_norm)}

    def named_values(self, losses: Any, grad_norms: Any, values: Any) -> dict[str, Any]:
        q1, q2 = values[:2]
        logged = (*losses, *grad_norms, *values, (q1 - q2).abs().mean())
        return OptInfo._make(logged)._asdict()

"""The first soft actor-critic: a network of state values has the target copy."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from rlpyt.algos.qpg._actor_critic import SamplesToBufferTl
from rlpyt.algos.qpg._soft import (
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
    """What each optimizer minimises."""

    q1: torch.Tensor
    q2: torch.Tensor
    v: torch.Tensor
    pi: torch.Tensor


class SAC_V(SoftActorCriticAlgorithm):  # noqa: N801
    """Maximises the return and the entropy of the policy together, at temperature 1.

        y        = reward_scale * R_n + (1 - done_n) discount^n V_target(s')
        loss_Qi  = mean of (y - Q_i(s, a))^2 / 2
        y_V      = min_i Q_i(s, u) - log pi(u|s) + log prior(u)
        loss_V   = mean of (y_V - V(s))^2 / 2
        loss_pi  = mean of log pi(u|s) - min_i Q_i(s, u) - log prior(u)
                   + policy_output_regularization * (mean_s^2 + log_std_s^2) / 2

    with u drawn from the policy, and the last term averaged over the dimensions of the action.
    Without ``reparameterize`` the first line of loss_pi is log pi(u|s) * (V(s) - y_V), where only
    the likelihood of the constant u has a gradient. All four losses are of the networks before the
    update; the steps are then taken in the order V, pi, Q_1, Q_2.

    Args:
        discount: per step, in [0, 1].
        batch_size: B, samples in one update.
        min_steps_learn: environment steps, over all processes, before training starts.
        replay_size: environment steps stored in each process; each environment has an equal share.
        replay_ratio: trained samples per sampled one.
        target_update_tau: fraction of the way which the target network moves; 1 copies.
        target_update_interval: updates between those.
        learning_rate: of all optimizers.
        OptimCls: class of the optimizers.
        optim_kwargs: of ``OptimCls``.
        initial_optim_state_dict: to start from, of :meth:`optim_state_dict`.
        action_prior: "uniform", or "gaussian".
        reward_scale: factor of rewards; the greater, the less the entropy counts.
        reparameterize: let the gradient of Q flow through the action to the policy.
        clip_grad_norm: largest norm of the gradient of each network; None does not clip.
        policy_output_regularization: weight of the squared outputs of the policy.
        n_step_return: n.
        updates_per_sync: updates between two publications of parameters, in asynchronous mode.
        bootstrap_timelimit: do not train on returns which a time limit cut.
        ReplayBufferCls: replaces the class of replay buffer; called with the same keywords.

    Source: Haarnoja et al. 2018, arXiv:1801.01290, algorithm 1.
    """

    opt_info_fields = tuple(OptInfo._fields)
    needed_agent = "rlpyt.agents.qpg.sac_v_agent.SacAgent"
    needed_of_agent = ("pi", "q", "v", "target_v")

    policy_output_regularization: float
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
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        self._fill_in_defaults()

    # --- Set-up ------------------------------------------------------------------------------

    def make_optimizers(self) -> None:
        super().make_optimizers()
        self.v_optimizer = self.make_optimizer(self.agent.v_parameters())

    def optimizers(self) -> dict[str, Any]:
        return {**super().optimizers(), "v_optimizer": self.v_optimizer}

    # --- Losses ------------------------------------------------------------------------------

    def loss(self, samples: Nested) -> tuple[Any, Any]:
        """Compute all losses of one batch.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``timeout_n`` [B] if known.

        Returns:
            :class:`Losses`, and the values of both critics and of the state [B], mean and log
            standard deviation of the policy [B,A], without gradient.
        """
        weights = mean_weights(self.valid(samples))
        inputs = self.agent.to_model_device(*samples.agent_inputs)
        q1, q2 = self.agent.q(*inputs, samples.action)
        v = self.agent.v(*inputs)
        y = self.q_target_of(samples, self.agent.target_v(*samples.target_inputs))
        # The keyword only where it is needed: agents may be without it.
        draw = {} if self.reparameterize else {"reparameterize": False}
        action, log_pi, (pi_mean, pi_log_std) = self.agent.pi(*inputs, **draw)
        q_and_prior = self.min_q(inputs, action) + self.get_action_prior(action)
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
        """What is added to the losses [B] of the policy for its outputs [B,A]."""
        squares = 0.5 * (pi_mean**2 + pi_log_std**2)
        return self.policy_output_regularization * squares.mean(-1)

    # --- One update --------------------------------------------------------------------------

    def step_optimizers(self, losses: Any) -> Any:
        """Step V, the policy and both critics; returns the gradient norms q1, q2, v, pi."""
        q1_loss, q2_loss, v_loss, pi_loss = losses
        norms = self.minimize_each(v=v_loss, pi=pi_loss, q1=q1_loss, q2=q2_loss)
        return norms["q1"], norms["q2"], norms["v"], norms["pi"]

    def append_opt_info_(
        self, opt_info: Any, losses: Any, grad_norms: Sequence[Any], values: Any
    ) -> None:
        """Add one update to the lists of ``opt_info``.

        Args:
            opt_info: record of lists.
            losses: of :meth:`loss`.
            grad_norms: of :meth:`step_optimizers`.
            values: of :meth:`loss`; every ``opt_info_stride``-th number of them is kept.
        """
        q1, q2 = values[:2]
        record = OptInfo._make([*losses, *grad_norms, *values, (q1 - q2).abs().mean()])
        self.record_opt_info(opt_info, record._asdict())

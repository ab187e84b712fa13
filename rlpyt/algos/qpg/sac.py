"""Soft actor-critic, with a learned or a fixed temperature."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.algos._optim import load_optimizer_state
from rlpyt.algos.checks import check_positive, make_whole
from rlpyt.algos.qpg.actor_critic import (
    SamplesToBufferTl as SamplesToBufferTl,
    SoftActorCriticAlgorithm,
    half_squared_error,
    mean_weights,
    range_of_actions,
)
from rlpyt.core.records import SamplesToBuffer as SamplesToBuffer
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import as_float
from rlpyt.utils.types import Nested

OptInfo = namedtuple(
    "OptInfo",
    "q1Loss q2Loss piLoss q1GradNorm q2GradNorm piGradNorm q1 q2 piMu piLogStd qMeanDiff alpha",
)


class Losses(NamedTuple):
    """Loss of each optimizer with two critics; ``alpha`` is None where it is not learned."""

    q1: torch.Tensor
    q2: torch.Tensor
    pi: torch.Tensor
    alpha: torch.Tensor | None


class SAC(SoftActorCriticAlgorithm):
    """Soft actor-critic: maximizes the return and the entropy of the policy together.

        y        = reward_scale * R_n
                   + (1 - done_n) discount^n (min_i Q_target_i(s', a') - alpha log pi(a'|s'))
        loss_Qi  = mean of (y - Q_i(s, a))^2 / 2
        loss_pi  = mean of alpha log pi(u|s) - min_i Q_i(s, u) - log prior(u)
        loss_a   = mean of -log alpha (log pi(u|s) + target_entropy)

    with a' and u drawn from the policy. All losses use the networks as they were before the update;
    then the optimizers step in the order alpha, pi, Q_1, Q_2, ...

    Ensembles of critics and critics without target networks are subclasses, in
    :mod:`~rlpyt.algos.qpg.sac_ensembles`.

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
        fixed_alpha: fixed temperature; None to learn it, starting from 1.
        OptimCls: class of the optimizers.
        optim_kwargs: keyword arguments of ``OptimCls``.
        initial_optim_state_dict: initial state of the optimizers, from :meth:`optim_state_dict`.
        action_prior: prior over actions, "uniform" or "gaussian".
        reward_scale: factor by which rewards are multiplied.
        target_entropy: policy entropy, in nats, towards which the temperature is learned; "auto"
            for -A with actions in [-1, 1], plus the logs of half the ranges for other bounds. None
            for a constant temperature.
        reparameterize: must be True; only ``SAC_V`` takes False.
        clip_grad_norm: largest gradient norm of each network; None for no clipping.
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
        policy_update_interval: number of critic updates per update of policy and temperature.

    Source: Haarnoja et al. 2018, arXiv:1812.05905, algorithm 1.
    """

    opt_info_fields = tuple(OptInfo._fields)
    q_kind = "critics and a stochastic policy"
    agent_example = "rlpyt.agents.qpg.sac_agent.SacAgent"

    fixed_alpha: float | None = None
    target_entropy: Any = "auto"
    _auto_target_entropy: Any = "auto"
    policy_update_interval: int = 1
    alpha_optimizer: Any
    _log_alpha: torch.nn.Parameter

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
        fixed_alpha: float | None = None,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        initial_optim_state_dict: Any = None,
        action_prior: str = "uniform",
        reward_scale: float = 1,
        target_entropy: Any = "auto",
        reparameterize: bool = True,
        clip_grad_norm: float | None = 1e9,
        n_step_return: int = 1,
        updates_per_sync: int = 1,
        bootstrap_timelimit: bool = True,
        ReplayBufferCls: Any = None,
        replay_device: Any = None,
        policy_update_interval: int = 1,
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        self.optim_kwargs = dict(self.optim_kwargs or {})

    # --- Set-up ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        if not self.reparameterize:
            raise NotImplementedError(
                f"reparameterize is {self.reparameterize}: make it True, or use SAC_V"
            )
        if isinstance(self.target_entropy, str) and self.target_entropy != "auto":
            raise ValueError(
                f"target_entropy is {self.target_entropy!r}: give a number, 'auto', or None to "
                "leave the temperature unchanged"
            )
        check_positive(self, "fixed_alpha", "make it positive, or None to learn it")
        make_whole(self, "policy_update_interval")

    @property
    def _n_critics(self) -> int:
        """Number of critics of the agent; agents other than ``SacAgent`` have two."""
        return len(getattr(self.agent, "critic_names", ("q1_model", "q2_model")))

    def named_optimizers(self) -> dict[str, Any]:
        further = {f"q{k}_optimizer": o for k, o in enumerate(self._further_q_optimizers, 3)}
        return {**super().named_optimizers(), **further}

    def make_optimizers(self) -> None:
        super().make_optimizers()
        self._further_q_optimizers = [
            self.make_optimizer(self.agent.q_parameters(self.agent.critic_names[i]))
            for i in range(2, self._n_critics)
        ]
        # A number that "auto" stood for in an earlier run may not fit this one's actions.
        if self.target_entropy == "auto" or self.target_entropy is self._auto_target_entropy:
            self.target_entropy = self._auto_target_entropy = self.default_target_entropy()
        is_learned = self.fixed_alpha is None
        log_alpha = 0.0 if self.fixed_alpha is None else math.log(self.fixed_alpha)
        log_alphas = torch.full((1,), log_alpha, device=self.training_device)
        self._log_alpha = torch.nn.Parameter(log_alphas, requires_grad=is_learned)
        self.alpha_optimizer = self.make_alpha_optimizer() if is_learned else None

    def make_alpha_optimizer(self) -> Any:
        """Make the optimizer of the temperature."""
        return self.make_optimizer([self._log_alpha])

    @property
    def _alpha(self) -> torch.Tensor:
        """The temperature [1], without gradient."""
        return as_float(self._log_alpha.detach().exp())  # A program may have made it by numpy.

    @_alpha.setter
    def _alpha(self, alpha: torch.Tensor | float) -> None:  # As updates written for 0.1.2 do.
        with torch.no_grad():
            self._log_alpha.copy_(torch.as_tensor(alpha).log())

    def default_target_entropy(self) -> float:
        """Return the target entropy that "auto" stands for, in nats."""
        _, half_range = range_of_actions(self.agent)
        # Rescaling from [-1, 1] to the bounds changes log pi by -sum(log half_range).
        return float(np.log(half_range).sum() - half_range.size)

    # --- Losses ------------------------------------------------------------------------------

    def loss(self, samples: Nested) -> tuple[Any, Any]:
        """Compute all losses of one batch.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``timeout_n`` [B] if time limits are
                stored.

        Returns:
            Losses of each critic, of the policy and of the temperature (:class:`Losses` with two
            critics); and, without gradient, the values [B] of each critic and the policy's means
            and log standard deviations [B,A].
        """
        weights = mean_weights(self.valid(samples))
        inputs = self.model_inputs(samples.agent_inputs)
        q_losses, qs = self.critic_losses(samples, inputs, weights)
        action, log_pi, (pi_mean, pi_log_std) = self.agent.pi(*inputs)
        pi_loss = self.pi_loss(inputs, action, log_pi, weights)
        alpha_loss = self.alpha_loss(log_pi, weights)
        losses = (*q_losses, pi_loss, alpha_loss)
        values = tuple(x.detach() for x in (*qs, pi_mean, pi_log_std))
        return Losses._make(losses) if len(qs) == 2 else losses, values

    def critic_losses(
        self, samples: Nested, inputs: Nested, weights: torch.Tensor
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        """Compute the losses of the critics on the actions in a batch.

        Args:
            samples: ``SamplesFromReplay`` [B,...].
            inputs: model inputs [B,...] of the agent, on its device.
            weights: weights [B] of the mean.

        Returns:
            The loss of each critic, and its values [B].
        """
        qs = self.agent.q(*inputs, samples.action)
        y = self.q_target(samples)
        return [self.q_loss(q, y, weights) for q in qs], qs

    @torch.no_grad()
    def q_target(self, samples: Nested) -> torch.Tensor:
        """Return the targets y [B] of all critics."""
        inputs, action, log_pi = self.next_action(samples)
        next_value = self.soft_value(self.target_qs(inputs, action), log_pi)
        return self.q_target_of(samples, next_value)

    @torch.no_grad()
    def next_action(self, samples: Nested) -> tuple[Nested, torch.Tensor, torch.Tensor]:
        """Return the model inputs of s', actions a' [B,A], and their ``log pi(a'|s')`` [B]."""
        inputs = self.model_inputs(samples.target_inputs)
        action, log_pi, _ = self.agent.pi(*inputs)
        return inputs, action, log_pi

    def target_qs(self, inputs: Nested, action: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return the values [B] of actions [B,A] by the target critics."""
        qs: Sequence[torch.Tensor] = self.agent.target_q(*inputs, action)
        return qs

    def soft_value(self, qs: Sequence[torch.Tensor], log_pi: torch.Tensor) -> torch.Tensor:
        """Return the values [B] of s', with the entropy of the policy.

        Args:
            qs: values [B] of the next actions, by each critic.
            log_pi: log-likelihoods [B] of the next actions.
        """
        return reduce(torch.min, qs) - self._alpha * log_pi

    def model_inputs(self, inputs: Nested) -> Nested:
        """Return the inputs of the networks, on their device."""
        return self.agent.to_model_device(*inputs)

    def q_loss(self, q: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Compute the loss of one critic, from its values, targets and weights of the mean [B]."""
        return half_squared_error(q, y, weights)

    def pi_loss(
        self,
        inputs: Nested,
        action: torch.Tensor,
        log_pi: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """Compute the policy's loss, without gradients for the critics' parameters.

        Args:
            inputs: model inputs [B,...] of the agent.
            action: actions [B,A] from the policy, with gradient.
            log_pi: log-likelihoods [B] of the actions, with gradient.
            weights: weights [B] of the mean.
        """
        prior, q = self.get_action_prior(action), self.q_of_policy(inputs, action)
        return torch.dot(self._alpha * log_pi - q - prior, weights)

    def alpha_loss(
        self, log_pi: torch.Tensor, weights: torch.Tensor, target_entropy: Any = None
    ) -> torch.Tensor | None:
        """Compute the loss of the temperature; None where it is not learned.

        Args:
            log_pi: log-likelihoods [B] of actions, or their means.
            weights: weights [B] of the mean.
            target_entropy: target entropies [B] instead of the setting.
        """
        if self.fixed_alpha is not None or self.target_entropy is None:
            return None
        target = self.target_entropy if target_entropy is None else target_entropy
        return -self._log_alpha * torch.dot(log_pi.detach() + target, weights)

    # --- One update --------------------------------------------------------------------------

    def next_update(self) -> Callable[..., Any]:
        is_for_all = (self.update_counter + 1) % self.policy_update_interval == 0
        return self.update_networks if is_for_all else self.update_critics

    def update_networks(self, samples: Nested) -> dict[str, Any]:
        values = self._get_loss_values(samples)
        *q_losses, pi_loss, alpha_loss = values["losses"]
        if alpha_loss is not None:
            self._step_alpha(alpha_loss)
        optimizers = [self.pi_optimizer, *self._q_optimizers]
        pi_norm, *q_norms = self.minimize_all([pi_loss, *q_losses], optimizers)
        return {**values, "grad_norms": (*q_norms, pi_norm)}

    def update_critics(self, samples: Nested) -> dict[str, Any]:
        """Take one step of the critics alone; return values to log, without the policy's."""
        weights = mean_weights(self.valid(samples))
        inputs = self.model_inputs(samples.agent_inputs)
        q_losses, qs = self.critic_losses(samples, inputs, weights)
        return {
            "losses": (*q_losses, None, None),
            "values": (*(q.detach() for q in qs), None, None),
            "grad_norms": (*self.minimize_all(q_losses, self._q_optimizers), None),
        }

    def _step_alpha(self, alpha_loss: torch.Tensor) -> None:
        (gradient,) = torch.autograd.grad(alpha_loss, self._log_alpha)
        if self.world_size > 1:  # All processes keep one temperature.
            total = gradient.to(self.agent.device)  # NCCL sums on GPUs only.
            torch.distributed.all_reduce(total)
            gradient.copy_(total / self.world_size)
        self._log_alpha.grad = gradient
        self.step_if_finite(self.alpha_optimizer, gradient.sum())

    def named_values(self, losses: Any, grad_norms: Any, values: Any) -> dict[str, Any]:
        (q1, q2), (pi_mean, pi_log_std) = values[:2], values[-2:]
        return {
            "q1Loss": losses[0],
            "q2Loss": losses[1],
            "piLoss": losses[-2],
            "q1GradNorm": grad_norms[0],
            "q2GradNorm": grad_norms[1],
            "piGradNorm": grad_norms[-1],
            "q1": q1,
            "q2": q2,
            "piMu": pi_mean,
            "piLogStd": pi_log_std,
            "qMeanDiff": (q1 - q2).abs().mean(),
            "alpha": self._alpha,
        }

    # --- State -------------------------------------------------------------------------------

    def optim_state_dict(self) -> dict[str, Any]:
        """Return the optimizers' states (None for a fixed temperature), and log alpha."""
        alpha_state = self.alpha_optimizer and self.alpha_optimizer.state_dict()
        return {
            **super().optim_state_dict(),
            "alpha_optimizer": alpha_state,
            "log_alpha": self._log_alpha.item(),
        }

    def load_optim_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_optim_state_dict(state_dict)
        if self.fixed_alpha is not None:
            return  # The fixed temperature overrides a loaded one.
        if state_dict["alpha_optimizer"] is not None:
            load_optimizer_state(self.alpha_optimizer, state_dict["alpha_optimizer"])
        with torch.no_grad():
            self._log_alpha.fill_(state_dict["log_alpha"])

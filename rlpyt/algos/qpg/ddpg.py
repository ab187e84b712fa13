"""Deep deterministic policy gradient: the policy climbs the critic's gradient in the action."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.algos._optim import optimized_parameters
from rlpyt.algos._settings import check_positive
from rlpyt.algos.losses import n_step_target
from rlpyt.algos.qpg._actor_critic import (
    ActorCriticAlgorithm,
    SamplesToBufferTl,
    frozen,
    masked_mean,
)
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["muLoss", "qLoss", "muGradNorm", "qGradNorm"])
SamplesToBuffer = namedarraytuple("SamplesToBuffer", SamplesToBufferTl._fields)


class DDPG(ActorCriticAlgorithm):
    """Trains a critic by temporal differences, and a deterministic policy by the critic.

        y       = clip(R_n + (1 - done_n) discount^n Q_target(s', mu_target(s')), +-q_target_clip)
        loss_Q  = mean of (y - Q(s, a))^2 / 2
        loss_mu = mean of -Q(s, mu(s))

    One update is a step of the critic; then, every ``policy_update_interval`` updates, a step of
    the policy on the same batch, by the new critic; then the target networks follow.

    If the replay buffer draws by priority (``ReplayBufferCls``), the losses of the critic are
    weighted, and the absolute temporal difference y - Q(s, a) is the new priority.

    Args:
        discount: per step, in [0, 1].
        batch_size: B, samples in one update.
        min_steps_learn: environment steps, over all processes, before training starts.
        replay_size: environment steps stored in each process; each environment has an equal share.
        replay_ratio: trained samples per sampled one.
        target_update_tau: fraction of the way which target networks move; 1 copies.
        target_update_interval: updates between those.
        policy_update_interval: updates of the critic for one of the policy.
        learning_rate: of the policy's optimizer.
        q_learning_rate: of the critic's optimizer.
        OptimCls: class of both optimizers.
        optim_kwargs: of ``OptimCls``.
        initial_optim_state_dict: to start from, of :meth:`optim_state_dict`.
        clip_grad_norm: largest norm of the gradient of each network; None does not clip.
        q_target_clip: largest absolute target; None does not clip.
        n_step_return: n.
        updates_per_sync: updates between two publications of parameters, in asynchronous mode.
        bootstrap_timelimit: do not train on returns which a time limit cut.
        ReplayBufferCls: replaces the class of replay buffer; called with the same keywords.

    Source: Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1; without weight decay and batch
    normalisation.
    """

    opt_info_fields = tuple(OptInfo._fields)

    policy_update_interval: int
    q_learning_rate: float
    q_target_clip: float | None
    mu_optimizer: Any
    q_optimizer: Any
    _priorities: torch.Tensor | None = None

    def __init__(
        self,
        discount: float = 0.99,
        batch_size: int = 64,
        min_steps_learn: float = int(1e4),
        replay_size: float = int(1e6),
        replay_ratio: float = 64,
        target_update_tau: float = 0.01,
        target_update_interval: int = 1,
        policy_update_interval: int = 1,
        learning_rate: float = 1e-4,
        q_learning_rate: float = 1e-3,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        initial_optim_state_dict: Any = None,
        clip_grad_norm: float | None = 1e8,
        q_target_clip: float | None = 1e6,
        n_step_return: int = 1,
        updates_per_sync: int = 1,
        bootstrap_timelimit: bool = True,
        ReplayBufferCls: Any = None,
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        self._fill_in_defaults()

    # --- Set-up ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        check_positive(self, "q_target_clip", "make it positive, or None")
        self._check_agent()

    def _check_agent(self) -> None:
        """Raise ``ValueError`` for an agent whose critics are of another kind than the loss."""
        for ability, algorithm in (("q2_model", "TD3"), ("give_V_min_max", "D4PG")):
            if hasattr(self.agent, ability) and type(self).q_loss is DDPG.q_loss:
                raise ValueError(
                    f"the critics of the agent {type(self.agent).__name__} are not those which "
                    f"{type(self).__name__} trains: use {algorithm}, or an agent such as DdpgAgent"
                )

    def make_optimizers(self) -> None:
        self.mu_optimizer = self.make_optimizer(self.agent.mu_parameters(), self.learning_rate)
        self.q_optimizer = self.make_optimizer(self.agent.q_parameters(), self.q_learning_rate)

    def optimizers(self) -> dict[str, Any]:
        return {"q": self.q_optimizer, "mu": self.mu_optimizer}

    # --- Losses ------------------------------------------------------------------------------

    def q_loss(self, samples: Nested, valid: torch.Tensor) -> torch.Tensor:
        """The critic's loss.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.
            valid: [B] 1 for samples to train on, 0 for others.
        """
        q = self.agent.q(*samples.agent_inputs, samples.action)
        td_errors = self.q_target(samples) - q
        self.remember_priorities(samples, valid, td_errors)
        return self.weighted_mean(0.5 * td_errors**2, samples, valid)

    @torch.no_grad()
    def q_target(self, samples: Nested) -> torch.Tensor:
        """The targets y [B]."""
        y = n_step_target(
            samples.return_,
            samples.done_n,
            self.next_value(samples.target_inputs),
            self.discount,
            self.n_step_return,
        )
        return y if self.q_target_clip is None else y.clamp(-self.q_target_clip, self.q_target_clip)

    def next_value(self, target_inputs: Nested) -> torch.Tensor:
        """Values [B] of the observations after n steps, by the target networks."""
        value: torch.Tensor = self.agent.target_q_at_mu(*target_inputs)
        return value

    def weighted_mean(
        self, losses: torch.Tensor, samples: Nested, valid: torch.Tensor
    ) -> torch.Tensor:
        """Mean of the losses [B] where ``valid``, by importance if samples have priorities."""
        if hasattr(samples, "is_weights"):
            losses = losses * samples.is_weights
        return masked_mean(losses, valid)

    def remember_priorities(
        self, samples: Nested, valid: torch.Tensor, *td_errors: torch.Tensor
    ) -> None:
        """If samples have priorities, keep the new ones for :meth:`update_priorities`.

        Those are the mean of the absolute ``td_errors`` [B] of each critic, and 0 for samples
        which are of no use, so that they are hardly drawn again.
        """
        if hasattr(samples, "is_weights"):
            self._priorities = torch.stack(td_errors).detach().abs().mean(0) * valid

    def mu_loss(self, samples: Nested, valid: torch.Tensor) -> torch.Tensor:
        """The policy's loss, whose gradients go through the critics but not to them.

        Args:
            samples: ``SamplesFromReplay`` [B,...].
            valid: [B] 1 for samples to train on, 0 for others.
        """
        with frozen(self.agent.q_parameters(), but=self.agent.mu_parameters()):
            return -masked_mean(self.agent.q_at_mu(*samples.agent_inputs), valid)

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        """``qLoss``, which is minimised first; further entries are logged by their names."""
        return {"qLoss": self.q_loss(samples, self.valid(samples))}

    def _apply_optimization(self, samples_from_replay: Nested, opt_info: Any) -> None:
        values = self._get_loss_values(samples_from_replay)
        values.update(self.step_optimizer("q", values["qLoss"]))
        self.update_priorities(values)
        self.update_counter += 1
        if self.update_counter % self.policy_update_interval == 0:
            mu_loss = self.mu_loss(samples_from_replay, self.valid(samples_from_replay))
            values.update(self.step_optimizer("mu", mu_loss))
        self.record_opt_info(opt_info, values)
        self.update_target()

    def step_optimizer(self, name: str, loss: torch.Tensor) -> dict[str, float]:
        """Step the optimizer ``<name>_optimizer``; returns what is logged of it."""
        optimizer = getattr(self, f"{name}_optimizer")
        loss_value, grad_norm = self.minimize(loss, optimizer, optimized_parameters(optimizer))
        return {f"{name}Loss": loss_value, f"{name}GradNorm": grad_norm}

    def update_priorities(self, values: Mapping[str, Any]) -> None:
        if self._priorities is not None:
            self.replay_buffer.update_batch_priorities(self._priorities)
            self._priorities = None

"""Deep deterministic policy gradient: the policy follows the critic's action gradient."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.algos.checks import check_positive, make_whole
from rlpyt.algos.losses import masked_mean, n_step_target
from rlpyt.algos.qpg.actor_critic import ActorCriticAlgorithm, SamplesToBufferTl, frozen
from rlpyt.utils.collections import fields_of, namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["muLoss", "qLoss", "muGradNorm", "qGradNorm"])
SamplesToBuffer = namedarraytuple("SamplesToBuffer", SamplesToBufferTl._fields)


class DDPG(ActorCriticAlgorithm):
    """DDPG: trains a critic by TD errors, and a deterministic policy by the critic.

        y       = clip(R_n + (1 - done_n) discount^n Q_target(s', mu_target(s')), +-q_target_clip)
        loss_Q  = mean of (y - Q(s, a))^2 / 2
        loss_mu = mean of -Q(s, mu(s))

    One update is a step of the critic. Every ``policy_update_interval`` updates, a step of the
    policy follows, on the same batch and the new critic. Then the target networks move.

    With a prioritized ``ReplayBufferCls`` the critic's losses have importance weights, and the
    absolute TD error ``|y - Q(s, a)|`` is the new priority.

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
        policy_update_interval: number of critic updates per policy update.
        learning_rate: learning rate of the policy.
        q_learning_rate: learning rate of the critic.
        OptimCls: class of both optimizers.
        optim_kwargs: keyword arguments of ``OptimCls``.
        initial_optim_state_dict: initial state of the optimizers, from :meth:`optim_state_dict`.
        clip_grad_norm: largest gradient norm of each network; None for no clipping.
        q_target_clip: largest absolute target; None for no clipping.
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

    Source: Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1; without weight decay and batch
    normalization.
    """

    opt_info_fields = tuple(OptInfo._fields)
    q_kind = "a critic of values"
    agent_example = "DdpgAgent"

    policy_update_interval: int = 1
    q_learning_rate: float = 1e-3
    q_target_clip: float | None = 1e6
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
        replay_device: Any = None,
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        self.optim_kwargs = dict(self.optim_kwargs or {})

    # --- Set-up ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        make_whole(self, "policy_update_interval")
        check_positive(self, "q_target_clip", "make it positive, or None")

    def make_optimizers(self) -> None:
        self._check_agent_has("mu_parameters", "DdpgAgent")
        self.mu_optimizer = self.make_optimizer(self.agent.mu_parameters(), self.learning_rate)
        self.q_optimizer = self.make_optimizer(self.agent.q_parameters(), self.q_learning_rate)

    def named_optimizers(self) -> dict[str, Any]:
        return {"q": self.q_optimizer, "mu": self.mu_optimizer}

    # --- Losses ------------------------------------------------------------------------------

    def q_loss(self, samples: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the critic's loss.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.
            valid: mask [B], 1 for samples to train on; None for all.
        """
        q = self.agent.q(*samples.agent_inputs, samples.action)
        td_errors = self.q_target(samples) - q
        self.remember_priorities(samples, valid, td_errors)
        return self.weighted_mean(0.5 * td_errors**2, samples, valid)

    @torch.no_grad()
    def q_target(self, samples: Nested) -> torch.Tensor:
        """Return the targets y [B]."""
        y = n_step_target(
            samples.return_,
            samples.done_n,
            self.next_value(samples.target_inputs),
            self.discount,
            self.bootstrap_steps(samples),
        )
        return y if self.q_target_clip is None else y.clamp(-self.q_target_clip, self.q_target_clip)

    def next_value(self, target_inputs: Nested) -> torch.Tensor:
        """Return values [B] of the observations after n steps, by the target networks."""
        value: torch.Tensor = self.agent.target_q_at_mu(*target_inputs)
        return value

    def weighted_mean(
        self, losses: torch.Tensor, samples: Nested, valid: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the mean of valid losses [B], with importance weights if samples have them."""
        if "is_weights" in fields_of(samples):
            losses = losses * samples.is_weights
        return losses.mean() if valid is None else masked_mean(losses, valid)

    def remember_priorities(
        self, samples: Nested, valid: torch.Tensor | None, *td_errors: torch.Tensor
    ) -> None:
        """Keep new priorities for :meth:`update_priorities`, if samples are prioritized.

        A priority is the mean over critics of the absolute ``td_errors`` [B]. Masked samples get 0,
        so that they are hardly drawn again.
        """
        if "is_weights" in fields_of(samples):
            priorities = torch.stack(td_errors).detach().abs().mean(0)
            self._priorities = priorities if valid is None else priorities * valid

    def mu_loss(self, samples: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the policy's loss, without gradients of the critic's parameters.

        Args:
            samples: ``SamplesFromReplay`` [B,...].
            valid: mask [B], 1 for samples to train on; None for all.
        """
        with frozen(self.agent.q_parameters(), but=self.agent.mu_parameters()):
            q: torch.Tensor = self.agent.q_at_mu(*samples.agent_inputs)
            return -(q.mean() if valid is None else masked_mean(q, valid))

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        """Return ``qLoss``, which is minimized first; further entries are logged by name."""
        return {"qLoss": self.q_loss(samples, self.valid(samples))}

    def _apply_optimization(self, samples_from_replay: Nested, opt_info: Any) -> None:
        values = self.run_update(self.update_critics, samples_from_replay)
        if (self.update_counter + 1) % self.policy_update_interval == 0:
            values.update(self.run_update(self.update_policy, samples_from_replay))
        self._finish_update(values, opt_info)

    def update_critics(self, samples: Nested) -> dict[str, Any]:
        """Take one step of the critics on a batch; return values to log, by name."""
        values = self._get_loss_values(samples)
        if self._priorities is not None:
            # What the next CUDA graph must not overwrite is returned.
            values["priorities"], self._priorities = self._priorities, None
        values["qLoss"], values["qGradNorm"] = self.minimize(values["qLoss"], self.q_optimizer)
        return values

    def update_policy(self, samples: Nested) -> dict[str, Any]:
        """Take one step of the policy on a batch; return values to log, by name."""
        mu_loss = self.mu_loss(samples, self.valid(samples))
        mu_loss, norm = self.minimize(mu_loss, self.mu_optimizer)
        return {"muLoss": mu_loss, "muGradNorm": norm}

    def update_priorities(self, values: Mapping[str, Any]) -> None:
        # They are not among the values if a subclass replaced update_critics.
        priorities = values.get("priorities", self._priorities)
        if priorities is not None:
            self.replay_buffer.update_batch_priorities(priorities)
            self._priorities = None

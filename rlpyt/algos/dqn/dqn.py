"""Deep Q-learning with its extensions: double, prioritized replay, n-step."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.algos._optim import with_defaults
from rlpyt.algos.checks import check_fraction, check_positive
from rlpyt.algos.losses import huber_td_loss, masked_mean, n_step_target
from rlpyt.algos.replay import ReplayAlgorithm, not_timed_out
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec, SamplesToBuffer as SamplesToBuffer
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr"])


class DQN(ReplayAlgorithm):
    """Deep Q-learning: minimizes the TD error between Q(s, a) and the n-step return.

        y    = R_n + (1 - done_n) * discount^n * max_a Q_target(s', a)
        loss = mean of weight * huber(y - Q(s, a))

    With ``double_dqn`` the action at s' is the best one by Q, not by Q_target.

    Of images (uint8 [C,H,W]) that are stacks of C successive frames, as a few steps at the start
    show, each frame is stored once; other images are stored whole.

    The log has the loss, the gradient norm, TD errors, and the mean Q-value of the actions taken.

    The loop of updates is :meth:`~rlpyt.algos.replay.ReplayAlgorithm.optimize_agent`: store,
    then for each update draw a batch, compute its :meth:`loss`, step and set new priorities.

    Args:
        discount: discount factor per step, in [0, 1].
        batch_size: number B of samples in one update.
        min_steps_learn: number of environment steps, over all processes, before training starts.
        delta_clip: TD error above which the loss is linear; None for a quadratic loss everywhere.
        replay_size: number of environment steps stored in each process, divided equally among its
            environments.
        replay_ratio: number of samples drawn for training per environment step.
        target_update_tau: weight of the online parameters in a target-network update; 1 copies
            them.
        target_update_interval: number of gradient updates between target-network updates.
        n_step_return: number n of rewards in a return.
        learning_rate: learning rate of the optimizer.
        OptimCls: class of the optimizer.
        optim_kwargs: keyword arguments of ``OptimCls``; if it takes ``eps``, the default is 0.01 /
            batch_size.
        initial_optim_state_dict: initial state of the optimizer, from :meth:`optim_state_dict`.
        clip_grad_norm: largest norm of the gradient; None for no clipping.
        eps_steps: number of environment steps, over all processes, until epsilon reaches its final
            value.
        double_dqn: whether the online network chooses the action at s'.
        prioritized_replay: whether to prioritize samples by their last TD error.
        pri_alpha: exponent of priorities, in [0, 1]; 0 for uniform sampling.
        pri_beta_init: exponent of importance weights when training starts.
        pri_beta_final: exponent of importance weights after ``pri_beta_steps``.
        pri_beta_steps: number of environment steps, over all processes, until ``pri_beta_final``.
        default_priority: priority of new samples; None for ``delta_clip``, or 1 if that is None.
        ReplayBufferCls: replay buffer class to use instead of the default, called with the same
            keywords.
        updates_per_sync: number of updates between parameter transfers to the sampler, in
            asynchronous mode.
        bootstrap_timelimit: whether to treat time limits (``env_info.timeout``) as truncations:
            returns are bootstrapped from the last observation if it is recorded, and left out of
            the loss if not; see :class:`~rlpyt.algos.replay.ReplayAlgorithm`. False treats a time
            limit as termination.
        replay_device: device that stores the replay buffer: "agent" for the agent's device, None
            for host memory.
        augmentation: function of images [B,C,H,W] that changes the observations, and the target
            observations, of every batch, such as
            :class:`~rlpyt.algos.augmentation.RandomShift`; or keywords of this class; None for
            none.

    Source: Mnih et al. 2015, doi:10.1038/nature14236; van Hasselt et al. 2016, arXiv:1509.06461;
    Schaul et al. 2016, arXiv:1511.05952; time limits: Pardo et al. 2018, arXiv:1712.00378.
    """

    opt_info_fields: tuple[str, ...] = (*OptInfo._fields, "qMean")
    q_kind = "value"
    agent_example = "DqnAgent"

    _q_taken: torch.Tensor | None = None  # [...] Q(s, a) of the last batch, without gradient.

    delta_clip: float | None = 1.0
    eps_steps: float = int(1e6)
    double_dqn: bool = False
    pri_alpha: float = 0.6
    pri_beta_init: float = 0.4
    pri_beta_final: float = 1.0
    pri_beta_steps: float = int(50e6)
    pri_beta_itr: int
    default_priority: float | None = None

    def __init__(
        self,
        discount: float = 0.99,
        batch_size: int = 32,
        min_steps_learn: float = int(5e4),
        delta_clip: float | None = 1.0,
        replay_size: float = int(1e6),
        replay_ratio: float = 8,
        target_update_tau: float = 1,
        target_update_interval: int = 312,
        n_step_return: int = 1,
        learning_rate: float = 2.5e-4,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        initial_optim_state_dict: Any = None,
        clip_grad_norm: float | None = 10.0,
        eps_steps: float = int(1e6),
        double_dqn: bool = False,
        prioritized_replay: bool = False,
        pri_alpha: float = 0.6,
        pri_beta_init: float = 0.4,
        pri_beta_final: float = 1.0,
        pri_beta_steps: float = int(50e6),
        default_priority: float | None = None,
        ReplayBufferCls: Any = None,
        updates_per_sync: int = 1,
        bootstrap_timelimit: bool = False,
        replay_device: Any = None,
        augmentation: Any = None,
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        if self.default_priority is None:
            self.default_priority = 1.0 if self.delta_clip is None else self.delta_clip
        eps = 0.01 / max(1, self._batch_size)
        self.optim_kwargs = with_defaults(self.OptimCls, self.optim_kwargs, eps=eps)

    # --- Set-up ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        check_positive(self, "delta_clip", "make it positive, or None")
        if self.prioritized_replay:
            check_fraction(self, "pri_alpha", "pri_beta_init", "pri_beta_final")
            check_positive(self, "default_priority", "make it positive, or None for delta_clip")

    def _configure_agent(self) -> None:
        self._check_agent_has("set_epsilon_itr_min_max", "MlpDqnAgent")
        eps_itr_max = max(1, int(self.eps_steps // self.steps_per_itr))
        self.agent.set_epsilon_itr_min_max(self.min_itr_learn, eps_itr_max)

    def optim_initialize(self, rank: int = 0) -> None:
        super().optim_initialize(rank)
        if self.prioritized_replay:
            self.pri_beta_itr = max(1, int(self.pri_beta_steps // self.steps_per_itr))

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        kwargs = super()._replay_kwargs(example, batch_spec)
        if self.prioritized_replay:
            kwargs["alpha"] = self.pri_alpha
            kwargs["beta"] = self.pri_beta_init
            if self.default_priority is not None:  # The constructor of a subclass may lack it.
                kwargs["default_priority"] = self.default_priority
        return kwargs

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        loss, td_abs_errors = self.loss(samples)
        if self.bootstrap_timelimit:  # Samples that are left out should hardly be drawn again.
            td_abs_errors = td_abs_errors * not_timed_out(samples)
        return {"loss": loss, "tdAbsErr": td_abs_errors, **self.q_diagnostics()}

    def run_networks(self, batch: Nested) -> torch.Tensor | None:
        return values_of_best(self.agent, batch)

    def loss(self, samples: Nested) -> tuple[torch.Tensor, ...]:
        """Compute the loss of one batch from the replay buffer.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.

        Returns:
            The scalar loss, and the absolute TD errors [B], without gradient.
        """
        q = self.select_at_indexes(samples.action, self.agent(*samples.agent_inputs))
        y = n_step_target(
            self.target_return(samples),
            samples.done_n,
            self.next_value(samples.target_inputs),
            self.discount,
            self.bootstrap_steps(samples),
        )
        losses, td_abs_errors = huber_td_loss(q, y, self.delta_clip)
        self._q_taken = q.detach()
        return self.weighted_mean(losses, samples), td_abs_errors

    def target_return(self, samples: Nested) -> torch.Tensor:
        """Return the rewards in targets: n-step returns [B]."""
        return_: torch.Tensor = samples.return_
        return return_

    @torch.no_grad()
    def next_value(self, target_inputs: Nested) -> torch.Tensor:
        """Return values [B] of the observations after n steps, by the target network."""
        if not self.double_dqn:
            values: torch.Tensor = self.agent.target(*target_inputs).max(dim=-1).values
            return values
        inputs = self.agent.to_model_device(*target_inputs)  # Once for both networks.
        next_action = self.agent(*inputs).argmax(dim=-1)
        return self.select_at_indexes(next_action, self.agent.target(*inputs))

    def weighted_mean(self, losses: torch.Tensor, samples: Nested) -> torch.Tensor:
        """Return the mean of the losses [B], with importance weights if samples are prioritized.

        With ``bootstrap_timelimit``, samples with truncated returns do not count.
        """
        if self.prioritized_replay:
            losses = losses * samples.is_weights
        if self.bootstrap_timelimit:
            return masked_mean(losses, not_timed_out(samples))
        return losses.mean()

    def q_diagnostics(self) -> dict[str, torch.Tensor]:
        """Return statistics of the last batch's Q-values to log; empty if the loss kept none."""
        return {} if self._q_taken is None else {"qMean": self._q_taken.mean()}

    def update_priorities(self, values: Mapping[str, Any]) -> None:
        if self.prioritized_replay:
            self.replay_buffer.update_batch_priorities(values["tdAbsErr"])

    def update_itr_hyperparams(self, itr: int) -> None:
        """Anneal the exponent of the importance weights."""
        if not self.prioritized_replay:
            return
        beta = self.pri_beta_final
        if itr < self.pri_beta_itr:
            span = max(1, self.pri_beta_itr - self.min_itr_learn)
            progress = max(0, itr - self.min_itr_learn) / span
            beta = progress * self.pri_beta_final + (1 - progress) * self.pri_beta_init
        self.replay_buffer.set_beta(beta)


def values_of_best(agent: AgentLike, batch: Nested) -> torch.Tensor | None:
    """Return the largest action values [B] of a minibatch; None for sequences or distributions."""
    if agent.recurrent:  # Sequences are not run again.
        return None
    q = agent(*batch.agent_inputs)
    is_value = isinstance(q, torch.Tensor) and q.dim() == 2
    return q.max(-1).values if is_value else None

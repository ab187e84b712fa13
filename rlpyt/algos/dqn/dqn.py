"""Deep Q-learning with the common extensions: double, prioritized replay, n-step returns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.algos._optim import accepts
from rlpyt.algos._replay_classes import TRANSITIONS, ReplayClasses, select
from rlpyt.algos._settings import (
    METHODS_OF_THE_LOSS,
    check_fraction,
    check_positive,
    check_resets_at_once,
)
from rlpyt.algos._time_limit import masked_mean, not_timed_out, with_timeout
from rlpyt.algos.losses import huber_td_loss, n_step_target
from rlpyt.algos.replay import ReplayAlgorithm
from rlpyt.core.records import BatchSpec, SamplesToBuffer as SamplesToBuffer
from rlpyt.utils._subclassing import overrides
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr"])

# What an agent has whose outputs are others than values, what these are, and what trains on them.
OTHER_OUTPUTS = {
    "give_V_min_max": ("distributions of returns", "CategoricalDQN"),
    "n_quantiles": ("quantiles of returns", "QRDQN"),
    "n_tau": ("quantiles of returns at random fractions", "IQN"),
}


def is_image(observation: Nested) -> bool:
    """Whether an example is one uint8 array [C,H,W], as frame buffers store it."""
    return is_stack(observation) and np.asarray(observation).dtype == np.uint8


def is_stack(observation: Nested) -> bool:
    """Whether an example is one array [C,H,W], of any type."""
    return not isinstance(observation, tuple) and np.ndim(observation) == 3


class DQN(ReplayAlgorithm):
    """Minimises the temporal difference of Q(s, a) to the value after n steps.

        y    = R_n + (1 - done_n) * discount^n * max_a Q_target(s', a)
        loss = mean of weight * huber(y - Q(s, a))

    With ``double_dqn`` the action at s' is the one which Q, not Q_target, prefers. Images (uint8
    [C,H,W]) are taken as stacks of C successive frames and each frame is stored once; pass
    ``ReplayBufferCls=UniformReplayBuffer`` for images of another kind.

    Args:
        discount: per step, in [0, 1].
        batch_size: B, samples in one update.
        min_steps_learn: environment steps, over all processes, before training starts.
        delta_clip: where the loss turns linear; None for the square everywhere.
        replay_size: environment steps stored in each process; each environment has an equal share.
        replay_ratio: trained samples per sampled one.
        target_update_tau: fraction of the way which the target network moves; 1 copies.
        target_update_interval: updates between those.
        n_step_return: n.
        learning_rate: of the optimizer.
        OptimCls: class of the optimizer.
        optim_kwargs: of ``OptimCls``; where it takes ``eps``, the default is 0.01 / batch_size.
        initial_optim_state_dict: to start from, of :meth:`optim_state_dict`.
        clip_grad_norm: largest norm of the gradient; None does not clip.
        eps_steps: environment steps, over all processes, until the agent's epsilon is final.
        double_dqn: choose the action at s' by the online network.
        prioritized_replay: draw samples by their last temporal difference.
        pri_alpha: exponent of priorities, in [0, 1]; 0 is uniform.
        pri_beta_init: exponent of importance weights when training starts.
        pri_beta_final: the same after ``pri_beta_steps``.
        pri_beta_steps: environment steps, over all processes.
        default_priority: of new samples; None for ``delta_clip``, or 1 without it.
        ReplayBufferCls: replaces the class of replay buffer; called with the same keywords.
        updates_per_sync: updates between two publications of parameters, in asynchronous mode.
        bootstrap_timelimit: do not train on transitions whose return was cut by a time limit
            (``env_info.timeout``): what follows is not 0, but the environment does not give the
            observation to value it by. By default a time limit is an end like any other.

    Source: Mnih et al. 2015, doi:10.1038/nature14236; van Hasselt et al. 2016, arXiv:1509.06461;
    Schaul et al. 2016, arXiv:1511.05952; time limits: Pardo et al. 2018, arXiv:1712.00378.
    """

    opt_info_fields = tuple(OptInfo._fields)
    replay_classes: ReplayClasses = TRANSITIONS

    delta_clip: float | None
    eps_steps: float
    double_dqn: bool
    prioritized_replay: bool
    pri_alpha: float
    pri_beta_init: float
    pri_beta_final: float
    pri_beta_steps: float
    pri_beta_itr: int
    default_priority: float
    bootstrap_timelimit: bool

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
    ) -> None:
        vars(self).setdefault("_batch_size", int(batch_size))
        save__init__args(locals())
        self._fill_in_defaults()

    def _fill_in_defaults(self) -> None:
        super()._fill_in_defaults()
        if getattr(self, "default_priority", None) is None:
            delta_clip = getattr(self, "delta_clip", None)
            self.default_priority = 1.0 if delta_clip is None else delta_clip

    def _default_optim_kwargs(self) -> dict[str, Any]:
        if not (hasattr(self, "OptimCls") and accepts(self.OptimCls, "eps")):
            return {}
        # A property of a subclass may need what its constructor has not stored yet.
        batch_size = self._batch_size if hasattr(self, "_batch_size") else self.batch_size
        return {"eps": 0.01 / max(1, batch_size)}

    def _check_settings(self) -> None:
        self._check_agent()
        super()._check_settings()
        check_positive(self, "delta_clip", "make it positive, or None")
        if self.prioritized_replay:
            for name in ("pri_alpha", "pri_beta_init", "pri_beta_final"):
                check_fraction(self, name)
            check_positive(self, "default_priority", "make it positive, or None for delta_clip")
        if not self.agent.recurrent:
            check_resets_at_once(self)

    def _configure_agent(self) -> None:
        eps_itr_max = max(1, int(self.eps_steps // self.steps_per_itr))
        self.agent.set_epsilon_itr_min_max(self.min_itr_learn, eps_itr_max)

    def _check_agent(self) -> None:
        """Raise ``ValueError`` for an agent whose outputs the loss cannot be computed of."""
        is_own_loss = overrides(self, *METHODS_OF_THE_LOSS)
        if self.agent.recurrent and not is_own_loss:
            raise ValueError(
                f"the agent {type(self.agent).__name__} is recurrent, but {type(self).__name__} "
                "trains on single steps: use R2D1, or an agent such as DqnAgent"
            )
        for ability, (outputs, algorithm) in OTHER_OUTPUTS.items():
            if hasattr(self.agent, ability) and not is_own_loss:
                raise ValueError(
                    f"the agent {type(self.agent).__name__} gives {outputs}, but the loss of "
                    f"{type(self).__name__} is of values: use {algorithm}, or an agent such as "
                    "DqnAgent"
                )

    def optim_initialize(self, rank: int = 0) -> None:
        super().optim_initialize(rank)
        if self.prioritized_replay:
            self.pri_beta_itr = max(1, int(self.pri_beta_steps // self.steps_per_itr))

    @property
    def _leaves_out_timeouts(self) -> bool:
        """``bootstrap_timelimit``, which a subclass with its own constructor may lack."""
        return bool(getattr(self, "bootstrap_timelimit", False))

    def _select_replay_class(self, example: Nested, async_: bool) -> Any:
        return select(
            self.replay_classes,
            async_,
            time_limits=self._leaves_out_timeouts,
            frames=is_image(example.observation),
            prioritized=bool(self.prioritized_replay),
        )

    def examples_to_buffer(self, examples: Nested) -> Nested:
        entry = super().examples_to_buffer(examples)
        return with_timeout(entry, examples["env_info"]) if self._leaves_out_timeouts else entry

    def samples_to_buffer(self, samples: Nested) -> Nested:
        entry = super().samples_to_buffer(samples)
        return with_timeout(entry, samples.env.env_info) if self._leaves_out_timeouts else entry

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        kwargs = super()._replay_kwargs(example, batch_spec)
        if self.prioritized_replay:
            kwargs["alpha"] = self.pri_alpha
            kwargs["beta"] = self.pri_beta_init
            kwargs["default_priority"] = self.default_priority
        return kwargs

    def _describe_replay(self, example: Nested) -> str:
        text = super()._describe_replay(example)
        observation = getattr(example, "observation", ())
        if self.ReplayBufferCls is None and is_stack(observation) and not is_image(observation):
            text += (
                "; if the observations [C,H,W] are stacks of successive frames, "
                "ReplayBufferCls=UniformReplayFrameBuffer (or PrioritizedReplayFrameBuffer) "
                "stores each frame once"
            )
        return text

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        loss, td_abs_errors = self.loss(samples)
        if self._leaves_out_timeouts:  # Of no use, so that they are hardly drawn again.
            td_abs_errors = td_abs_errors * not_timed_out(samples)
        return {"loss": loss, "tdAbsErr": td_abs_errors}

    def update_priorities(self, values: Mapping[str, Any]) -> None:
        if self.prioritized_replay:
            self.replay_buffer.update_batch_priorities(values["tdAbsErr"])

    def loss(self, samples: Nested) -> tuple[torch.Tensor, ...]:
        """Compute the loss of one batch from the replay buffer.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.

        Returns:
            The scalar loss, and the absolute temporal differences [B], without gradient.
        """
        q = self.select_at_indexes(samples.action, self.agent(*samples.agent_inputs))
        y = n_step_target(
            samples.return_,
            samples.done_n,
            self.next_value(samples.target_inputs),
            self.discount,
            self.n_step_return,
        )
        losses, td_abs_errors = huber_td_loss(q, y, self.delta_clip)
        return self.weighted_mean(losses, samples), td_abs_errors

    @torch.no_grad()
    def next_value(self, target_inputs: Nested) -> torch.Tensor:
        """Values [B] of the observations after n steps, by the target network."""
        inputs = self._moved_once(target_inputs)
        target_qs: torch.Tensor = self.agent.target(*inputs)
        if not self.double_dqn:
            return target_qs.max(dim=-1).values
        next_action = self.agent(*inputs).argmax(dim=-1)
        return self.select_at_indexes(next_action, target_qs)

    def _moved_once(self, inputs: Nested) -> Nested:
        """The inputs where several forward passes need them, if the agent can do that."""
        move = getattr(self.agent, "to_model_device", None)
        return inputs if move is None else move(*inputs)

    def weighted_mean(self, losses: torch.Tensor, samples: Nested) -> torch.Tensor:
        """Mean of the losses [B], by importance if samples were drawn by priority.

        With ``bootstrap_timelimit`` only of samples whose return was not cut by a time limit.
        """
        if self.prioritized_replay:
            losses = losses * samples.is_weights
        if self._leaves_out_timeouts:
            return masked_mean(losses, not_timed_out(samples))
        return losses.mean()

    def update_itr_hyperparams(self, itr: int) -> None:
        """Anneal the exponent of the importance weights."""
        super().update_itr_hyperparams(itr)
        if self.prioritized_replay:
            self.replay_buffer.set_beta(self._pri_beta(itr))

    def _pri_beta(self, itr: int) -> float:
        """From ``pri_beta_init`` when training starts to ``pri_beta_final`` at ``pri_beta_itr``."""
        if itr >= self.pri_beta_itr:
            return self.pri_beta_final
        span = max(1, self.pri_beta_itr - self.min_itr_learn)
        progress = max(0, itr - self.min_itr_learn) / span
        return progress * self.pri_beta_final + (1 - progress) * self.pri_beta_init

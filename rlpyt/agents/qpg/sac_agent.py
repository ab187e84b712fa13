"""Soft actor-critic agents: a squashed Gaussian policy and two or more critics."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.agents.qpg.actor_critic import (
    ActionBounds,
    ActorCriticAgent,
    check_noise,
    check_real_action,
)
from rlpyt.core.records import AgentStep, EnvSpaces
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.models.qpg.mlp import PiMlpModel, QofMuMlpModel
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args, whole_number
from rlpyt.utils.types import Nested

MIN_LOG_STD = -20
MAX_LOG_STD = 2

AgentInfo = namedarraytuple("AgentInfo", ["dist_info"])


class SoftActorCriticAgent(ActorCriticAgent):
    """Base class of the soft actor-critic agents: a squashed Gaussian policy and critics.

        u ~ N(mean(s), std(s)),      action = mid + half_range * tanh(u)

    Until training starts, actions are sampled with ``pretrain_std``; in evaluation std is 0.

    Attributes:
        critic_names: names of the critics.
    """

    critic_names: tuple[str, ...] = ("q1_model", "q2_model")
    network_names: tuple[str, ...] = ("model", "q1_model", "q2_model")

    QModelCls: Any = QofMuMlpModel
    q_model_kwargs: Any = None
    action_squash: Any = 1.0
    pretrain_std: Any = 0.75
    q1_model: Any
    q2_model: Any

    def __init__(
        self,
        ModelCls: Any = PiMlpModel,
        QModelCls: Any = QofMuMlpModel,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
        action_squash: Any = 1.0,
        pretrain_std: Any = 0.75,
    ) -> None:
        if model_kwargs is None:
            model_kwargs = {"hidden_sizes": [256, 256]}
        if q_model_kwargs is None:
            q_model_kwargs = {"hidden_sizes": [256, 256]}
        super().__init__(ModelCls, model_kwargs, initial_model_state_dict)
        save__init__args(locals())
        check_noise(self, "pretrain_std", may_be_none=True)
        if self.action_squash is not None and not np.all(np.asarray(self.action_squash) > 0):
            raise ValueError(
                f"action_squash is {self.action_squash}: make it positive, or leave it out to use "
                "the bounds of the action space"
            )

    # --- Set-up ------------------------------------------------------------------------------

    def build_network(self, name: str) -> Any:
        if name in self.critic_names:
            return self._new_model(self.QModelCls, self.q_model_kwargs)
        return super().build_network(name)

    def _make_action_bounds(self, env_spaces: EnvSpaces) -> ActionBounds:
        if self.action_squash is None or np.array_equal(self.action_squash, 1):
            return super()._make_action_bounds(env_spaces)
        check_real_action(type(self).__name__, env_spaces.action)
        squash, shape = np.asarray(self.action_squash, np.float32), env_spaces.action.shape
        if squash.size != 1 and squash.shape != shape:
            raise ValueError(
                f"action_squash has shape {squash.shape}: give one number, or one for each of the "
                f"{math.prod(shape)} entries of the action"
            )
        high = np.broadcast_to(squash.reshape(-1), (math.prod(shape),))
        return ActionBounds(-high, high)

    def _make_distributions(self) -> None:
        bounds = self.action_bounds
        squash = 1.0 if bounds.is_unit else bounds.rows()
        self.distribution = Gaussian(
            dim=len(bounds.low),
            squash=None if self.action_squash is None else squash,
            min_std=math.exp(MIN_LOG_STD),
            max_std=math.exp(MAX_LOG_STD),
        )

    # --- Acting and training -----------------------------------------------------------------

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        outputs = self.run_model(self.model, observation, prev_action, prev_reward)
        dist_info = DistInfoStd(*self.for_sampler(outputs))
        action = self.to_action(self.distribution.sample(dist_info))
        return AgentStep(action=action, agent_info=AgentInfo(dist_info=dist_info))

    def pi(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        reparameterize: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor, Nested]:
        """Draw actions with the policy's standard deviation, in every mode.

        Args:
            observation: observations [B,...].
            prev_action: previous actions [B,A].
            prev_reward: previous rewards [B].
            reparameterize: whether gradients flow through the actions.

        Returns:
            Actions [B,A] on the device of the model; their log-likelihoods [B] and ``DistInfoStd``
            [B,A].
        """
        outputs = self.run_model(self.model, observation, prev_action, prev_reward)
        return self.draw(DistInfoStd(*outputs), reparameterize)

    def draw(
        self, dist_info: Nested, reparameterize: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor, Nested]:
        """Draw actions of a policy [B,A], as :meth:`pi` returns them."""
        # A distribution written for rlpyt 0.1.2 has no such keyword, and may have no std.
        kwargs = {} if reparameterize else {"reparameterize": False}
        acting_std = getattr(self.distribution, "std", None)
        if acting_std is not None:
            self.distribution.set_std(None)
        try:
            action, log_pi = self.distribution.sample_loglikelihood(dist_info, **kwargs)
        finally:
            if acting_std is not None:
                self.distribution.set_std(acting_std)
        return self.to_action(action), *self.for_loss((log_pi, dist_info))

    def q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, action: Nested
    ) -> tuple[torch.Tensor, ...]:
        """Compute the values [B] of actions [B,A] by each critic, with gradients."""
        inputs = (observation, prev_action, prev_reward, action)
        qs = (self.run_model(getattr(self, name), *inputs) for name in self.critic_names)
        return self.for_loss(tuple(qs))

    # --- Modes and parameters ----------------------------------------------------------------

    def train_mode(self, itr: int) -> None:
        super().train_mode(itr)
        self.distribution.set_std(None)

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        self.distribution.set_std(None if itr >= self.min_itr_learn else self.pretrain_std)

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        self.distribution.set_std(0.0)

    def pi_parameters(self) -> Any:
        """Return the parameters of the policy."""
        return self.model.parameters()

    def q1_parameters(self) -> Any:
        """Return the parameters of the first critic."""
        return self.q1_model.parameters()

    def q2_parameters(self) -> Any:
        """Return the parameters of the second critic."""
        return self.q2_model.parameters()

    def q_parameters(self, name: str) -> Any:
        """Return the parameters of a critic, one of ``critic_names``."""
        return getattr(self, name).parameters()


Models = namedtuple("Models", ["pi", "q1", "q2", "v"])


class SacAgent(SoftActorCriticAgent):
    """Soft actor-critic agent with two or more critics, by default each with a target copy.

    Args:
        ModelCls: class of the policy; returns mean and log standard deviation, [B,A] each.
        QModelCls: class of the critics; called with observation, previous action, previous reward
            and action, returns values [B], or quantiles [B,N].
        model_kwargs: keywords of ``ModelCls``; None for two hidden layers of 256.
        q_model_kwargs: keywords of ``QModelCls``; None for two hidden layers of 256.
        v_model_kwargs: not used: this agent has no network of state values.
        initial_model_state_dict: initial state of all networks, in the form of :meth:`state_dict`.
        action_squash: 1 squashes into the bounds of the action space; any other number, or [A],
            makes ``-action_squash`` and ``action_squash`` the bounds; None leaves actions without
            bounds.
        pretrain_std: standard deviation before tanh until training starts, a scalar or [A]; None
            for the policy's own.
        n_critics: number of critics, at least 2.
        target_networks: whether critics have target copies; if False, the critics themselves
            compute the targets.

    Raises:
        ValueError: if ``pretrain_std`` is negative or not a number, ``action_squash`` is not
            positive, or ``n_critics`` is less than 2.

    Source: Haarnoja et al. 2018, arXiv:1812.05905.
    """

    q_kind = "critics and a stochastic policy"
    target_names: tuple[str, ...] = ("q1_model", "q2_model")

    target_q1_model: Any
    target_q2_model: Any

    def __init__(
        self,
        ModelCls: Any = PiMlpModel,
        QModelCls: Any = QofMuMlpModel,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        v_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
        action_squash: Any = 1.0,
        pretrain_std: Any = 0.75,
        n_critics: int = 2,
        target_networks: bool = True,
    ) -> None:
        super().__init__(
            ModelCls,
            QModelCls,
            model_kwargs,
            q_model_kwargs,
            initial_model_state_dict,
            action_squash,
            pretrain_std,
        )
        save__init__args(locals())
        n_critics = whole_number("n_critics", n_critics, at_least=2)
        if n_critics > 2:
            self.critic_names = tuple(f"q{k}_model" for k in range(1, n_critics + 1))
            self.network_names = ("model", *self.critic_names)
            self.target_names = self.critic_names
        kind = "critics"
        if "n_quantiles" in self.q_model_kwargs:  # Else critics return values.
            self.n_quantiles = self.q_model_kwargs["n_quantiles"]
            kind += " of quantiles"
        if not target_networks:
            self.target_names = ()
            kind += " without target networks"
        if kind != "critics":
            self.q_kind = f"{kind} and a stochastic policy"

    @torch.no_grad()
    def target_q(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        action: Nested,
        subset: Sequence[int] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Compute the values [B] or quantiles [B,N] of actions by each target critic.

        Args:
            observation: observations [B,...].
            prev_action: previous actions [B,A].
            prev_reward: previous rewards [B].
            action: actions [B,A].
            subset: indexes of the critics to run; None for all.
        """
        inputs = (observation, prev_action, prev_reward, action)
        names = self.critic_names if subset is None else [self.critic_names[i] for i in subset]
        qs = (self.run_model(getattr(self, "target_" + name), *inputs) for name in names)
        return self.for_loss(tuple(qs))

    @property
    def models(self) -> Any:
        """The policy and the first two critics; there is no ``v``."""
        return Models(pi=self.model, q1=self.q1_model, q2=self.q2_model, v=None)

"""Soft actor-critic agents for discrete actions: a categorical policy and two critics."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.mlp_agent import MlpMixin
from rlpyt.agents.qpg.actor_critic import ActorCriticAgent
from rlpyt.core.masks import is_allowed, mask_values
from rlpyt.core.records import AgentStep, EnvSpaces
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.models.space_kinds import check_one_choice
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", ["dist_info"])


class DiscreteSacAgent(MlpMixin, ActorCriticAgent):
    """Soft actor-critic agent for one discrete action, for observations of any kind.

        pi(a|s) = softmax of model(s)

    Every network is called with observation, one-hot previous action and previous reward, and
    returns one number for each action, [...,A]: logits from the policy, values from a critic. Until
    training starts, actions are drawn uniformly; in evaluation the most likely one is taken.

    Args:
        ModelCls: class of the policy.
        QModelCls: class of both critics; None for ``ModelCls``.
        model_kwargs: keywords of ``ModelCls``.
        q_model_kwargs: keywords of ``QModelCls``; None for ``model_kwargs``.
        initial_model_state_dict: initial state of all networks, in the form of :meth:`state_dict`.

    Source: Christodoulou 2019, arXiv:1910.07207.
    """

    q_kind = "a policy and two critics of discrete actions"
    network_names = ("model", "q1_model", "q2_model")
    target_names = ("q1_model", "q2_model")
    vector_models: Any = (MlpDqnModel,)

    q1_model: Any
    q2_model: Any
    target_q1_model: Any
    target_q2_model: Any
    _is_uniform = False

    def __init__(
        self,
        ModelCls: Any = MlpDqnModel,
        QModelCls: Any = None,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
    ) -> None:
        super().__init__(ModelCls, model_kwargs, initial_model_state_dict)
        self.QModelCls = QModelCls or ModelCls
        self.q_model_kwargs = self.model_kwargs if q_model_kwargs is None else q_model_kwargs

    # --- Set-up ------------------------------------------------------------------------------

    def build_network(self, name: str) -> Any:
        if name in ("q1_model", "q2_model"):
            return self._new_model(self.QModelCls, self.q_model_kwargs)
        return super().build_network(name)

    def _make_action_bounds(self, env_spaces: EnvSpaces) -> Any:
        check_one_choice(type(self).__name__, env_spaces.action)

    def _make_distributions(self) -> None:
        self.distribution = Categorical(dim=self.env_spaces.action.n)

    # --- Acting and training -----------------------------------------------------------------

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        log_pi = self.log_pi(observation, prev_action, prev_reward)
        dist_info = DistInfo(prob=self.for_sampler(log_pi.exp()))
        if self._mode == "eval":
            action = dist_info.prob.argmax(dim=-1)
        else:
            action = self.distribution.sample(dist_info)
        return AgentStep(action=action, agent_info=AgentInfo(dist_info=dist_info))

    def log_pi(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> torch.Tensor:
        """Compute the log-probabilities of all actions, to act and to train, with gradients.

        Args:
            observation: observations [B,...].
            prev_action: indexes [B] of previous actions.
            prev_reward: previous rewards [B].

        Returns:
            log pi [B,A].
        """
        logits = self._run(self.model, observation, prev_action, prev_reward)
        if self._is_uniform:
            logits = torch.where(is_allowed(logits), 0.0, logits)
        return self.for_loss(torch.log_softmax(logits, dim=-1))

    def q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the values [B,A] of all actions by both critics, with gradients."""
        inputs = (observation, prev_action, prev_reward)
        return self.for_loss((self._run(self.q1_model, *inputs), self._run(self.q2_model, *inputs)))

    @torch.no_grad()
    def target_q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the values [B,A] of all actions by both target critics."""
        inputs = (observation, prev_action, prev_reward)
        q1 = self._run(self.target_q1_model, *inputs)
        return self.for_loss((q1, self._run(self.target_q2_model, *inputs)))

    def _run(self, network: Any, observation: Nested, prev_action: Any, prev_reward: Any) -> Any:
        onehot = self.distribution.to_onehot(prev_action)
        return self.run_model(network, observation, onehot, prev_reward)

    def mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        """Give forbidden actions the lowest logit and value, so that expectations leave them out.

        Args:
            outputs: logits or values [...,A].
            mask: mask [...,A] of the allowed actions.
        """
        return mask_values(outputs, mask)

    # --- Modes and parameters ----------------------------------------------------------------

    def train_mode(self, itr: int) -> None:
        super().train_mode(itr)
        self._is_uniform = False

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        self._is_uniform = itr < self.min_itr_learn

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        self._is_uniform = False

    def pi_parameters(self) -> Any:
        """Return the parameters of the policy."""
        return self.model.parameters()

    def q1_parameters(self) -> Any:
        """Return the parameters of the first critic."""
        return self.q1_model.parameters()

    def q2_parameters(self) -> Any:
        """Return the parameters of the second critic."""
        return self.q2_model.parameters()


class AtariDiscreteSacAgent(AtariMixin, DiscreteSacAgent):
    """:class:`DiscreteSacAgent`, with the same arguments, and the network for images."""

    def __init__(
        self,
        ModelCls: Any = AtariDqnModel,
        QModelCls: Any = None,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
    ) -> None:
        super().__init__(
            ModelCls, QModelCls, model_kwargs, q_model_kwargs, initial_model_state_dict
        )

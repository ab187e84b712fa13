"""Parallelised Q-network agents: a value for every discrete action, and no target network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rlpyt.agents.base import AgentStep
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1AgentBase
from rlpyt.models.autocast import model_class
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", "value")
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["value", "prev_rnn_state"])

NORMALIZED_MODELS = (MlpDqnModel, AtariDqnModel, MlpR2d1Model, AtariR2d1Model)


class PqnAgent(DqnAgent):
    """:class:`DqnAgent` without a target network, which records the greatest value of each step.

    Layers of the library's models are normalized unless ``model_kwargs`` has ``layer_norm=False``;
    for those of an encoder of images, ``image_kwargs`` in it has ``layer_norm``.

    Source: Gallici et al. 2024, arXiv:2407.04811.
    """

    q_kind = "value alone"
    has_target = False

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Return max_a Q(s, a) [B]."""
        prev_action = self.distribution.to_onehot(prev_action)
        q = self.run_model(self.model, observation, prev_action, prev_reward)
        return self.for_sampler(q.max(dim=-1).values)

    def to_agent_step(self, output: Any) -> AgentStep:
        q = self.for_sampler(output)
        value = q.max(dim=-1).values
        return AgentStep(action=self.distribution.sample(q), agent_info=AgentInfo(value=value))

    def _new_model(
        self, ModelCls: Callable[..., Any] | None, model_kwargs: Mapping[str, Any]
    ) -> Any:
        return super()._new_model(ModelCls, with_layer_norm(ModelCls, model_kwargs))


class RecurrentPqnAgentBase(R2d1AgentBase):
    """:class:`R2d1AgentBase` without a target network, which records values as :class:`PqnAgent`.

    Layers of the library's models are normalized here too. A mixin keeps the states while sampling:
    list :class:`~rlpyt.agents.base.RecurrentAgentMixin` before this class, or
    :class:`~rlpyt.agents.base.AlternatingRecurrentAgentMixin` for alternating sampling.
    ``agent_info`` has value [B] and the state [B,N,H] before the step.
    """

    q_kind = "value alone"
    has_target = False

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Return max_a Q(s, a) [B], without advancing the state."""
        inputs = observation, self.distribution.to_onehot(prev_action), prev_reward
        q, _ = self.run_model(self.model, *inputs, self.prev_rnn_state)
        return self.for_sampler(q.max(dim=-1).values)

    def to_agent_step(self, output: Any) -> AgentStep:
        step = super().to_agent_step(output)
        q, prev_rnn_state = step.agent_info
        return step._replace(agent_info=AgentInfoRnn(q.max(dim=-1).values, prev_rnn_state))

    def _new_model(
        self, ModelCls: Callable[..., Any] | None, model_kwargs: Mapping[str, Any]
    ) -> Any:
        return super()._new_model(ModelCls, with_layer_norm(ModelCls, model_kwargs))


def with_layer_norm(ModelCls: Any, model_kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``model_kwargs``, with layer norm by default if the model is one of the library's."""
    if model_class(ModelCls) in NORMALIZED_MODELS:
        return {"layer_norm": True, **model_kwargs}
    return model_kwargs

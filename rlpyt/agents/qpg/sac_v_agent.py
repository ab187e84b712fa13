"""Agent of the first soft actor-critic, with a network of state values."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.qpg.sac_agent import (
    MAX_LOG_STD as MAX_LOG_STD,
    MIN_LOG_STD as MIN_LOG_STD,
    AgentInfo as AgentInfo,
    Models as Models,
    SoftActorCriticAgent,
)
from rlpyt.models.qpg.mlp import PiMlpModel, QofMuMlpModel, VMlpModel
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class SacAgent(SoftActorCriticAgent):
    """Soft actor-critic agent where only the network of state values has a target copy.

    Args:
        ModelCls: class of the policy; returns mean and log standard deviation, [B,A] each.
        QModelCls: class of both critics; called with observation, previous action, previous reward
            and action, returns values [B].
        VModelCls: class of the network of state values; returns values [B].
        model_kwargs: keywords of ``ModelCls``; None for two hidden layers of 256.
        q_model_kwargs: keywords of ``QModelCls``; None for two hidden layers of 256.
        v_model_kwargs: keywords of ``VModelCls``; None for two hidden layers of 256.
        initial_model_state_dict: initial state of all networks, in the form of :meth:`state_dict`.
        action_squash: 1 squashes into the bounds of the action space; any other number, or [A],
            makes ``-action_squash`` and ``action_squash`` the bounds; None leaves actions without
            bounds.
        pretrain_std: standard deviation before tanh until training starts, a scalar or [A]; None
            for the policy's own.

    Raises:
        ValueError: if ``pretrain_std`` is negative or not a number, or ``action_squash`` is not
            positive.

    Source: Haarnoja et al. 2018, arXiv:1801.01290.
    """

    q_kind = "two critics, a stochastic policy and a state value"
    network_names = ("model", "q1_model", "q2_model", "v_model")
    target_names = ("v_model",)

    VModelCls: Any = VMlpModel
    v_model_kwargs: Any = None
    v_model: Any
    target_v_model: Any

    def __init__(
        self,
        ModelCls: Any = PiMlpModel,
        QModelCls: Any = QofMuMlpModel,
        VModelCls: Any = VMlpModel,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        v_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
        action_squash: Any = 1.0,
        pretrain_std: Any = 0.75,
    ) -> None:
        if v_model_kwargs is None:
            v_model_kwargs = {"hidden_sizes": [256, 256]}
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

    def build_network(self, name: str) -> Any:
        if name == "v_model":
            return self._new_model(self.VModelCls, self.v_model_kwargs)
        return super().build_network(name)

    def v(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> torch.Tensor:
        """Compute the values [B] of observations, with gradients."""
        inputs = (observation, prev_action, prev_reward)
        v: torch.Tensor = self.for_loss(self.run_model(self.v_model, *inputs))
        return v

    @torch.no_grad()
    def target_v(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Compute the values [B] of observations by the target copy."""
        inputs = (observation, prev_action, prev_reward)
        v: torch.Tensor = self.for_loss(self.run_model(self.target_v_model, *inputs))
        return v

    def v_parameters(self) -> Any:
        """Return the parameters of the network of state values."""
        return self.v_model.parameters()

    @property
    def models(self) -> Any:
        """The networks to train."""
        return Models(pi=self.model, q1=self.q1_model, q2=self.q2_model, v=self.v_model)

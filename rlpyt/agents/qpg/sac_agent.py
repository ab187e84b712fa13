"""The soft actor-critic agent: a stochastic policy, two critics and their target copies."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch

from rlpyt.agents.qpg._soft import (
    MAX_LOG_STD as MAX_LOG_STD,
    MIN_LOG_STD as MIN_LOG_STD,
    AgentInfo as AgentInfo,
    SoftActorCriticAgent,
)
from rlpyt.models.qpg.mlp import PiMlpModel, QofMuMlpModel
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested

Models = namedtuple("Models", ["pi", "q1", "q2", "v"])


class SacAgent(SoftActorCriticAgent):
    """Acts by a squashed Gaussian policy, and has two critics, each with a target copy.

    Args:
        ModelCls: of the policy; returns mean and log standard deviation, [B,A] each.
        QModelCls: of both critics; called with observation, previous action, previous reward and
            action, returns values [B].
        model_kwargs: of ``ModelCls``; None for two hidden layers of 256.
        q_model_kwargs: of ``QModelCls``; None for the same.
        v_model_kwargs: not used: this agent has no network of state values.
        initial_model_state_dict: of all networks, of the form of :meth:`state_dict`.
        action_squash: 1 squashes into the bounds of the action space; any other number, or [A],
            replaces them by ``-action_squash`` and ``action_squash``.
        pretrain_std: standard deviation before tanh until training starts, a scalar or [A].

    Raises:
        ValueError: if ``pretrain_std`` is negative or no number, or ``action_squash`` not positive.

    Source: Haarnoja et al. 2018, arXiv:1812.05905.
    """

    q_kind = "two critics and a stochastic policy"
    target_names = ("q1_model", "q2_model")

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

    @torch.no_grad()
    def target_q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, action: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Values [B] of the actions [B,A] by both target critics, without gradients."""
        inputs = self.to_model_device(observation, prev_action, prev_reward, action)
        q1 = self.forward_network("target_q1_model", *inputs)
        q2 = self.forward_network("target_q2_model", *inputs)
        return self.to_cpu(q1), self.to_cpu(q2)

    @property
    def models(self) -> Any:
        """The networks which are trained; there is no ``v``."""
        return Models(pi=self.model, q1=self.q1_model, q2=self.q2_model, v=None)

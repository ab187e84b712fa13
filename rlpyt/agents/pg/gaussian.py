"""Policy gradient agents for continuous actions."""

from __future__ import annotations

import numpy as np
import torch as torch

from rlpyt.agents.base import (
    AgentStep as AgentStep,
    AlternatingRecurrentAgentMixin as AlternatingRecurrentAgentMixin,
    BaseAgent as BaseAgent,
    RecurrentAgentMixin as RecurrentAgentMixin,
)
from rlpyt.agents.pg.base import (
    AgentInfo as AgentInfo,
    AgentInfoRnn as AgentInfoRnn,
    FeedForwardPgAgent,
    Policy,
    PolicyAgent,
    RecurrentPgAgent,
    policy_for,
)
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.gaussian import DistInfoStd as DistInfoStd, Gaussian as Gaussian
from rlpyt.models.space_kinds import Box, action_kind
from rlpyt.utils.buffer import (
    buffer_func as buffer_func,
    buffer_method as buffer_method,
    buffer_to as buffer_to,
)
from rlpyt.utils.logging import logger


class GaussianPgAgent(FeedForwardPgAgent):
    """Agent that draws a continuous action from a Gaussian.

    The model returns mu [...,A], log_std [...,A] and v [...]. Actions are scaled to their bounds
    (see :class:`~rlpyt.agents.pg.base.PolicyAgent`), except in subclasses that override
    ``__call__``, ``step`` or ``value``: their model works in the units of the environment.
    """

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        return _gaussian_policy(self, FeedForwardPgAgent, env_spaces)


class RecurrentGaussianPgAgentBase(RecurrentPgAgent):
    """Recurrent agent that draws a continuous action from a Gaussian; needs a recurrent mixin.

    The model returns mu [...,A], log_std [...,A], v [...] and the recurrent state [N,B,H]. Actions
    are scaled as for :class:`GaussianPgAgent`.
    """

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        return _gaussian_policy(self, RecurrentPgAgent, env_spaces)


def _gaussian_policy(
    agent: PolicyAgent,
    AgentCls: type[FeedForwardPgAgent | RecurrentPgAgent],
    env_spaces: EnvSpaces,
) -> Policy:
    cls, kind = type(agent), action_kind(env_spaces.action)
    if not isinstance(kind, Box):
        raise ValueError(
            f"{cls.__name__} needs continuous actions, an array of real numbers, but the action "
            f"space is {env_spaces.action}: use a categorical agent, or GenericFfAgent, which "
            "takes any"
        )
    scale = agent.scale_actions
    # An overridden method may take the model's outputs for actions; scaling them in the others
    # would let acting and training use different policies.
    methods = (cls.__call__, cls.step, cls.value)
    if scale and methods != (AgentCls.__call__, AgentCls.step, AgentCls.value):
        scale = False
        if np.any(kind.low != -1) or np.any(kind.high != 1):
            logger.log(
                f"{cls.__name__} has its own __call__, step or value: actions are not scaled to "
                "their bounds, the model works in the units of the environment."
            )
    return policy_for(kind, scale, agent.clip_actions)


class RecurrentGaussianPgAgent(RecurrentAgentMixin, RecurrentGaussianPgAgentBase):
    """:class:`RecurrentGaussianPgAgentBase` with one state for all environments."""


class AlternatingRecurrentGaussianPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentGaussianPgAgentBase
):
    """:class:`RecurrentGaussianPgAgentBase` for samplers that step halves in turn."""

"""Policy gradient agents for one discrete action."""

from __future__ import annotations

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
    ChoicePolicy,
    FeedForwardPgAgent,
    Policy,
    PolicyAgent,
    RecurrentPgAgent,
)
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.categorical import Categorical as Categorical, DistInfo as DistInfo
from rlpyt.models.space_kinds import check_one_choice
from rlpyt.utils.buffer import (
    buffer_func as buffer_func,
    buffer_method as buffer_method,
    buffer_to as buffer_to,
)


class CategoricalPgAgent(FeedForwardPgAgent):
    """Agent that draws a discrete action from the model's probabilities.

    The model receives the previous action as a one-hot vector, and returns the probabilities pi
    [...,A] and v [...].
    """

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        return _categorical_policy(self, env_spaces)


class RecurrentCategoricalPgAgentBase(RecurrentPgAgent):
    """Recurrent agent that draws a discrete action from probabilities; needs a recurrent mixin.

    The model returns pi [...,A], v [...] and the recurrent state [N,B,H].
    """

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        return _categorical_policy(self, env_spaces)


def _categorical_policy(agent: PolicyAgent, env_spaces: EnvSpaces) -> Policy:
    check_one_choice(type(agent).__name__, env_spaces.action)
    return ChoicePolicy(Categorical(dim=env_spaces.action.n))


class RecurrentCategoricalPgAgent(RecurrentAgentMixin, RecurrentCategoricalPgAgentBase):
    """:class:`RecurrentCategoricalPgAgentBase` with one state for all environments."""


class AlternatingRecurrentCategoricalPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentCategoricalPgAgentBase
):
    """:class:`RecurrentCategoricalPgAgentBase` for samplers that step halves in turn."""

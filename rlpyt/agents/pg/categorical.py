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


class _CategoricalMixin(PolicyAgent):
    """Acts by the probabilities of discrete actions."""

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        acts_by_choice = type(self).step in (FeedForwardPgAgent.step, RecurrentPgAgent.step)
        if acts_by_choice and type(self).initialize is PolicyAgent.initialize:
            check_one_choice(type(self).__name__, env_spaces.action)
        return ChoicePolicy(Categorical(dim=env_spaces.action.n))


class CategoricalPgAgent(_CategoricalMixin, FeedForwardPgAgent):
    """Acts by probabilities of the actions.

    The model returns pi [...,A], the probabilities, and v [...]. It sees the previous action as a
    one-hot vector.
    """


class RecurrentCategoricalPgAgentBase(_CategoricalMixin, RecurrentPgAgent):
    """Acts by probabilities of the actions, and remembers; needs a mixin which keeps the state.

    The model returns pi [...,A], v [...] and the recurrent state [N,B,H].
    """


class RecurrentCategoricalPgAgent(RecurrentAgentMixin, RecurrentCategoricalPgAgentBase):
    """:class:`RecurrentCategoricalPgAgentBase` with one state for all environments."""


class AlternatingRecurrentCategoricalPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentCategoricalPgAgentBase
):
    """:class:`RecurrentCategoricalPgAgentBase` for samplers which step halves in turn."""

"""Policy gradient agents for any environment: the model is made from the spaces.

Observations may be vectors, images, choices, or records of them (Dict spaces of gymnasium); actions
may be one choice, arrays of choices, real numbers, or records of them.

    agent = GenericFfAgent()
    agent = GenericLstmAgent(model_kwargs={"lstm_size": 256, "normalize_observation": True})
"""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.pg.base import (
    FeedForwardPgAgent,
    ObsRmsMixin,
    Policy,
    RecurrentPgAgent,
    make_policy,
)
from rlpyt.agents.pg.gaussian import BoxActionMixin
from rlpyt.core.records import EnvSpaces
from rlpyt.models.pg.generic_model import GenericFfModel, GenericLstmModel


class GenericMixin(ObsRmsMixin, BoxActionMixin):
    """Passes the spaces to the model, and makes the policy which they need.

    Stands first among the bases.
    """

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        return make_policy(env_spaces.action, self.scale_actions, self.clip_actions)

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Keywords ``observation_space`` and ``action_space``."""
        return {"observation_space": env_spaces.observation, "action_space": env_spaces.action}


class GenericFfAgent(GenericMixin, FeedForwardPgAgent):
    """Acts in any environment, on the present observation.

    Args:
        ModelCls: called with ``observation_space``, ``action_space`` and ``model_kwargs``; returns
            what :class:`~rlpyt.models.pg.generic_model.GenericFfModel` does.
        **kwargs: ``model_kwargs`` and ``initial_model_state_dict``; ``greedy_eval``; and for
            continuous actions ``scale_actions`` and ``clip_actions`` of
            :class:`~rlpyt.agents.pg.gaussian.BoxActionMixin`.
    """

    def __init__(self, ModelCls: Any = GenericFfModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class GenericLstmAgent(GenericMixin, RecurrentAgentMixin, RecurrentPgAgent):
    """:class:`GenericFfAgent` with an LSTM, which remembers past observations."""

    def __init__(self, ModelCls: Any = GenericLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingGenericLstmAgent(GenericMixin, AlternatingRecurrentAgentMixin, RecurrentPgAgent):
    """:class:`GenericLstmAgent` for samplers which step halves of the environments in turn."""

    def __init__(self, ModelCls: Any = GenericLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

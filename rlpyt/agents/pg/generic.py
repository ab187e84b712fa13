"""Policy gradient agents for any environment: the model is made from the spaces.

Observations may be vectors, images, choices, or records of these (Dict spaces of gymnasium);
actions may be one choice, arrays of choices, real numbers, or records of these::

    agent = GenericFfAgent()
    agent = GenericLstmAgent(model_kwargs={"lstm_size": 256, "normalize_observation": True})
"""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.pg.base import FeedForwardPgAgent, PolicyAgent, RecurrentPgAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.pg.generic_model import GenericFfModel, GenericLstmModel


class GenericMixin(PolicyAgent):
    """Mixin that passes the spaces to the model; list it first among the bases."""

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``observation_space`` and ``action_space``."""
        return {"observation_space": env_spaces.observation, "action_space": env_spaces.action}


class GenericFfAgent(GenericMixin, FeedForwardPgAgent):
    """Agent for any environment, which acts on the present observation.

    Args:
        ModelCls: class of the model, called with ``observation_space``, ``action_space`` and
            ``model_kwargs``; returns the outputs of
            :class:`~rlpyt.models.pg.generic_model.GenericFfModel`.
        **kwargs: keywords of :class:`~rlpyt.agents.pg.base.PolicyAgent`.
    """

    def __init__(self, ModelCls: Any = GenericFfModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class GenericLstmAgent(GenericMixin, RecurrentAgentMixin, RecurrentPgAgent):
    """:class:`GenericFfAgent` with an LSTM, to act on all past observations."""

    def __init__(self, ModelCls: Any = GenericLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingGenericLstmAgent(GenericMixin, AlternatingRecurrentAgentMixin, RecurrentPgAgent):
    """:class:`GenericLstmAgent` for samplers that step halves of the environments in turn."""

    def __init__(self, ModelCls: Any = GenericLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

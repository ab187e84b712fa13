"""DQN agents for environments whose observation is a vector, such as classic control."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel


class MlpMixin(BaseAgent):
    """Passes observation shape and number of actions to the model; stands first among the bases."""

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Keywords ``observation_shape`` and ``output_size``, the number of actions."""
        return {
            "observation_shape": env_spaces.observation.shape,
            "output_size": env_spaces.action.n,
        }


class MlpDqnAgent(MlpMixin, DqnAgent):
    """:class:`~rlpyt.agents.dqn.dqn_agent.DqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpCatDqnAgent(MlpMixin, CatDqnAgent):
    """:class:`~rlpyt.agents.dqn.catdqn_agent.CatDqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpCatDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

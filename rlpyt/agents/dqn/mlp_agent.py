"""DQN agents for observations of any kind: vectors, images, choices, and records of these."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, BaseAgent, RecurrentAgentMixin
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.iqn_agent import IqnAgent
from rlpyt.agents.dqn.pqn_agent import PqnAgent, RecurrentPqnAgentBase
from rlpyt.agents.dqn.qrdqn_agent import QrDqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent, R2d1AlternatingAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel
from rlpyt.models.dqn.mlp_quantile_model import MlpIqnModel, MlpQrDqnModel
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model


class MlpMixin(BaseAgent):
    """Mixin that passes observation shape and number of actions to the model; list it first."""

    vector_models = (MlpDqnModel, MlpCatDqnModel, MlpQrDqnModel, MlpIqnModel, MlpR2d1Model)

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``observation_shape`` and ``output_size``, the number of actions."""
        return {
            "observation_shape": env_spaces.observation.shape,
            "output_size": env_spaces.action.n,
        }


class MlpDqnAgent(MlpMixin, DqnAgent):
    """:class:`~rlpyt.agents.dqn.dqn_agent.DqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpPqnAgent(MlpMixin, PqnAgent):
    """:class:`~rlpyt.agents.dqn.pqn_agent.PqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpPqnLstmAgent(MlpMixin, RecurrentAgentMixin, RecurrentPqnAgentBase):
    """:class:`MlpPqnAgent` with memory: a perceptron around an LSTM."""

    def __init__(self, ModelCls: Any = MlpR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingMlpPqnLstmAgent(MlpMixin, AlternatingRecurrentAgentMixin, RecurrentPqnAgentBase):
    """:class:`MlpPqnLstmAgent` for alternating sampling."""

    def __init__(self, ModelCls: Any = MlpR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpCatDqnAgent(MlpMixin, CatDqnAgent):
    """:class:`~rlpyt.agents.dqn.catdqn_agent.CatDqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpCatDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpQrDqnAgent(MlpMixin, QrDqnAgent):
    """:class:`~rlpyt.agents.dqn.qrdqn_agent.QrDqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpQrDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpIqnAgent(MlpMixin, IqnAgent):
    """:class:`~rlpyt.agents.dqn.iqn_agent.IqnAgent` with a multi-layer perceptron."""

    def __init__(self, ModelCls: Any = MlpIqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpR2d1Agent(MlpMixin, R2d1Agent):
    """:class:`~rlpyt.agents.dqn.r2d1_agent.R2d1Agent` with a perceptron around an LSTM."""

    def __init__(self, ModelCls: Any = MlpR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MlpR2d1AlternatingAgent(MlpMixin, R2d1AlternatingAgent):
    """:class:`MlpR2d1Agent` for alternating sampling."""

    def __init__(self, ModelCls: Any = MlpR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

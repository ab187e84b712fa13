"""Policy gradient agents for vector observations and continuous actions."""

from __future__ import annotations

import math
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.pg.base import PolicyAgent
from rlpyt.agents.pg.gaussian import (
    AlternatingRecurrentGaussianPgAgent as AlternatingRecurrentGaussianPgAgent,
    GaussianPgAgent as GaussianPgAgent,
    RecurrentGaussianPgAgent as RecurrentGaussianPgAgent,
)
from rlpyt.core.records import EnvSpaces
from rlpyt.models.autocast import model_class
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.space_kinds import array_shape


class MujocoMixin(BaseAgent):
    """Mixin that passes the sizes of observations and actions to the model; list it first."""

    update_obs_rms = PolicyAgent.update_obs_rms

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``observation_shape`` and ``action_size``, the number of entries of an action.

        A model of a program gets a record of shapes for observations of several arrays.
        """
        space = env_spaces.observation
        takes_one = model_class(self.ModelCls) in (MujocoFfModel, MujocoLstmModel)
        return {
            "observation_shape": array_shape(type(self).__name__, space)
            if takes_one
            else space.shape,
            "action_size": math.prod(env_spaces.action.shape),
        }


class MujocoFfAgent(MujocoMixin, GaussianPgAgent):
    """:class:`~rlpyt.agents.pg.gaussian.GaussianPgAgent` with two perceptrons."""

    def __init__(self, ModelCls: Any = MujocoFfModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MujocoLstmAgent(MujocoMixin, RecurrentGaussianPgAgent):
    """:class:`~rlpyt.agents.pg.gaussian.RecurrentGaussianPgAgent` with perceptron and LSTM."""

    def __init__(self, ModelCls: Any = MujocoLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingMujocoLstmAgent(MujocoMixin, AlternatingRecurrentGaussianPgAgent):
    """:class:`MujocoLstmAgent` for samplers that step halves of the environments in turn."""

    def __init__(self, ModelCls: Any = MujocoLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

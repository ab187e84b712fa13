"""Small agents with real models, and what they are shown."""

from __future__ import annotations

from typing import NamedTuple

import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import record

SPACES = EnvSpaces(observation=FloatBox(-1, 1, (3,)), action=IntBox(0, 4))


class VectorMixin(BaseAgent):
    """Tells the model of vector observations and discrete actions."""

    def make_env_to_model_kwargs(self, env_spaces):
        return {
            "observation_shape": env_spaces.observation.shape,
            "output_size": env_spaces.action.n,
        }


class VectorDqnAgent(VectorMixin, DqnAgent):
    """Q-values by a small perceptron."""

    def __init__(self, ModelCls=MlpDqnModel, **kwargs):
        kwargs.setdefault("model_kwargs", {"hidden_sizes": [8]})
        super().__init__(ModelCls=ModelCls, **kwargs)


class VectorCatDqnAgent(VectorMixin, CatDqnAgent):
    """Distributions over 5 atoms by a small perceptron."""

    def __init__(self, ModelCls=MlpCatDqnModel, n_atoms=5, **kwargs):
        kwargs.setdefault("model_kwargs", {"hidden_sizes": [8]})
        super().__init__(ModelCls=ModelCls, n_atoms=n_atoms, **kwargs)


@record
class RnnState(NamedTuple):
    """State of :class:`Counter`."""

    h: torch.Tensor
    c: torch.Tensor


class Counter(torch.nn.Module):
    """A recurrent model whose state counts the steps since it was zero."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, observation, rnn_state):
        B = observation.shape[0]
        h = torch.zeros(1, B, 1) if rnn_state is None else rnn_state.h
        return observation * self.weight, RnnState(h=h + 1, c=-(h + 1))


class CountingAgent(BaseAgent):
    """Its action is the number of steps that its state has counted; to be mixed with a mixin."""

    def __init__(self, **kwargs):
        super().__init__(ModelCls=Counter, **kwargs)

    @torch.no_grad()
    def step(self, observation, prev_action, prev_reward):
        _, rnn_state = self.model(observation, self.prev_rnn_state)
        self.advance_rnn_state(rnn_state)
        return AgentStep(action=rnn_state.h[0, :, 0].clone(), agent_info=None)

    def count(self, B):
        """Step B environments, and return their counts."""
        return self.step(torch.zeros(B, 3), None, None).action.tolist()


def inputs(*leading_dims):
    """Observation, previous action and previous reward with these leading dimensions."""
    return (
        torch.randn(*leading_dims, 3),
        torch.randint(4, leading_dims),
        torch.randn(leading_dims),
    )


def made(agent, **kwargs):
    """``agent``, initialized."""
    agent.initialize(SPACES, **kwargs)
    return agent

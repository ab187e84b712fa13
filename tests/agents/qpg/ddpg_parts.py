"""Small deterministic agents on actions whose bounds differ from dimension to dimension."""

import torch

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.float_box import FloatBox

LOW, HIGH = [-1.0, -2.0, 0.0], [1.0, 2.0, 10.0]
SPACES = EnvSpaces(observation=FloatBox(-1, 1, (2,)), action=FloatBox(LOW, HIGH))
UNIT_SPACES = EnvSpaces(observation=FloatBox(-1, 1, (2,)), action=FloatBox(-1, 1, (3,)))
NET = {"hidden_sizes": [8]}


def small(AgentCls=DdpgAgent, **kwargs):
    """An agent with one narrow hidden layer per network."""
    return AgentCls(**{"model_kwargs": NET, "q_model_kwargs": NET, **kwargs})


def made(AgentCls=DdpgAgent, spaces=SPACES, **kwargs):
    """The same, initialized."""
    agent = small(AgentCls, **kwargs)
    agent.initialize(spaces)
    return agent


def inputs(*leading_dims):
    """Observation, previous action and previous reward."""
    return torch.randn(*leading_dims, 2), torch.zeros(*leading_dims, 3), torch.zeros(leading_dims)


AGENTS = [DdpgAgent, Td3Agent, D4pgAgent]

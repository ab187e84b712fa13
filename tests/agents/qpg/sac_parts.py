"""Small soft actor-critic agents, and boxes of actions."""

import numpy as np
import torch

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.float_box import FloatBox

LOW, HIGH = np.array([-1.0, 0.0, -3.0]), np.array([1.0, 10.0, -2.5])
OBSERVATION = FloatBox(-1, 1, (4,))
UNIT = EnvSpaces(observation=OBSERVATION, action=FloatBox(-1, 1, (3,)))
BOX = EnvSpaces(observation=OBSERVATION, action=FloatBox(LOW, HIGH))
SMALL = {"hidden_sizes": [16]}
RENORM = {**SMALL, "batch_renorm": True}
CROSSQ = {"model_kwargs": RENORM, "q_model_kwargs": RENORM, "target_networks": False}


def make_agent(AgentCls=sac_agent.SacAgent, spaces=UNIT, **kwargs):
    """An initialized agent with small networks."""
    nets = {"model_kwargs": SMALL, "q_model_kwargs": SMALL, "v_model_kwargs": SMALL}
    agent = AgentCls(**{**nets, **kwargs})
    agent.initialize(spaces)
    return agent


def inputs(B=5):
    """Observation, previous action and previous reward."""
    return torch.randn(B, 4), torch.zeros(B, 3), torch.zeros(B)


AGENTS = [sac_agent.SacAgent, sac_v_agent.SacAgent]

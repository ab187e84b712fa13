"""Agents within DistributedDataParallel: alone in a process group, they are as they were before."""

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.core.records import EnvSpaces
from rlpyt.runners._process_group import ProcessGroup, host_store
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

DISCRETE, CONTINUOUS = IntBox(0, 3), FloatBox(-1, 1, shape=(2,))
AGENTS = {
    "a2c": (GenericFfAgent, DISCRETE),
    "dqn": (MlpDqnAgent, DISCRETE),
    "ddpg": (DdpgAgent, CONTINUOUS),
    "td3": (Td3Agent, CONTINUOUS),
    "sac": (SacAgent, CONTINUOUS),
    "sac_v": (SacVAgent, CONTINUOUS),
}


@pytest.fixture
def team():
    team = ProcessGroup(0, 1, "gloo", host_store(1), time_limit_s=20)
    team.join()
    yield team
    team.leave()
    assert not distributed.is_initialized()


def make_agent(name):
    AgentCls, action_space = AGENTS[name]
    agent = AgentCls()
    spaces = EnvSpaces(observation=FloatBox(-1, 1, shape=(3,)), action=action_space)
    agent.initialize(spaces, share_memory=False, global_B=2, env_ranks=[0, 1])
    return agent


def flat(state):
    return torch.utils._pytree.tree_flatten(state)


@pytest.mark.parametrize("name", AGENTS)
def test_states_load_with_and_without_data_parallel(name, team):
    agent = make_agent(name)
    names = flat(agent.state_dict())[1]
    agent.data_parallel()
    assert isinstance(agent.model, DistributedDataParallel)
    # Entries used to begin with "module.", which a plain agent did not load.
    assert flat(agent.state_dict())[1] == names
    plain = make_agent(name)
    plain.load_state_dict(agent.state_dict())
    for mine, others in zip(flat(plain.state_dict())[0], flat(agent.state_dict())[0]):
        assert torch.equal(mine, others)
    agent.load_state_dict(make_agent(name).state_dict())


@pytest.mark.parametrize("name", AGENTS)
def test_acting_uses_no_wrapper(name, team, monkeypatch):
    agent = make_agent(name)
    agent.data_parallel()

    def fail(*args, **kwargs):
        raise AssertionError("acted through the wrapper, where processes may wait for each other")

    monkeypatch.setattr(DistributedDataParallel, "forward", fail)
    action_space = AGENTS[name][1]
    null = torch.as_tensor(action_space.null_value())
    for mode in (agent.sample_mode, agent.eval_mode):
        mode(1)
        agent.step(torch.zeros(2, 3), torch.stack([null] * 2), torch.zeros(2))


@pytest.mark.parametrize("name", AGENTS)
def test_share_state_keeps_that_of_rank_0(name, team):
    agent = make_agent(name)
    before = [tensor.clone() for tensor in flat(agent.state_dict())[0]]
    team.share_state(agent)
    assert all(map(torch.equal, before, flat(agent.state_dict())[0]))

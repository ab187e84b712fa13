"""States of agents with target networks: they make equal agents, whole or in part."""

import copy

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent, MlpQrDqnAgent, MlpR2d1Agent
from tests.agents.parts import SPACES, VectorCatDqnAgent, VectorDqnAgent
from tests.agents.qpg import ddpg_parts, sac_parts

AGENTS = {
    AgentCls.__name__: (AgentCls, SPACES)
    for AgentCls in (VectorDqnAgent, VectorCatDqnAgent, MlpQrDqnAgent, MlpIqnAgent, MlpR2d1Agent)
}
AGENTS |= {Cls.__name__: (Cls, ddpg_parts.SPACES) for Cls in ddpg_parts.AGENTS}
AGENTS |= {Cls.__module__: (Cls, sac_parts.UNIT) for Cls in sac_parts.AGENTS}


@pytest.fixture(params=AGENTS)
def make(request):
    def make(**kwargs):
        AgentCls, spaces = AGENTS[request.param]
        agent = AgentCls(**kwargs)
        agent.initialize(spaces)
        return agent

    return make


def disturbed(agent):
    """``agent``, whose targets now differ from what they are copies of."""
    with torch.no_grad():
        for network in agent.state_dict().values():
            for p in network.values():
                p.add_(torch.randn_like(p))
    return agent


def copied(agent):
    return copy.deepcopy(agent.state_dict())


def targets(state):
    """Names of networks in a state, and of their targets."""
    if "target" in state:
        return {"model": "target"}
    return {name: f"target_{name}" for name in state if f"target_{name}" in state}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    assert all(map(torch.equal, first.values(), second.values()))


def test_targets_start_as_copies(make):
    # They were other random networks until the first update.
    state = make().state_dict()
    assert targets(state)
    for name, target in targets(state).items():
        assert_equal(state[name], state[target])
        pairs = zip(state[name].values(), state[target].values())
        assert not any(p.data_ptr() == q.data_ptr() for p, q in pairs)


def test_states_make_equal_agents(make):
    # An inherited method expected the state of one model; entries of targets were ignored.
    state, other = copied(disturbed(make())), make()
    other.load_state_dict(state)
    for agent in (other, make(initial_model_state_dict=state)):
        found = agent.state_dict()
        assert list(found) == list(state)
        for name in state:
            assert_equal(found[name], state[name])


def test_targets_that_a_state_lacks_are_copies(make):
    state = copied(disturbed(make()))
    pairs = targets(state)
    for target in pairs.values():
        del state[target]
    found = make(initial_model_state_dict=state).state_dict()
    for name, target in pairs.items():
        assert_equal(found[target], state[name])


def test_state_of_the_model_alone(make):
    # Programs written for rlpyt 0.1.2 pass it, and evaluate policies without critics.
    alone, agent = copied(disturbed(make()))["model"], make()
    before = copied(agent)
    agent.load_state_dict(alone)
    found = agent.state_dict()
    changed = {"model", targets(found).get("model", "model")}
    for name in found:
        assert_equal(found[name], alone if name in changed else before[name])


@pytest.mark.parametrize("tau", [1, 0.25])
def test_targets_follow(make, tau):
    agent = disturbed(make())
    before = copied(agent)
    agent.update_target(tau)
    after = agent.state_dict()
    for name, target in targets(before).items():
        for key, p in before[name].items():
            expected = tau * p + (1 - tau) * before[target][key]
            torch.testing.assert_close(after[target][key], expected)


@pytest.mark.usefixtures("process_group")
def test_data_parallel_changes_neither_states_nor_acting(make, monkeypatch):
    # Names began with "module.", which did not load into an agent without a wrapper.
    agent, plain = make(), make()
    before = copied(agent)
    agent.data_parallel()
    assert isinstance(agent.model, DistributedDataParallel)
    plain.load_state_dict(agent.state_dict())
    agent.load_state_dict(plain.state_dict())
    for state in (agent.state_dict(), plain.state_dict()):
        assert list(state) == list(before)
        for name in state:
            assert_equal(state[name], before[name])
    monkeypatch.setattr(DistributedDataParallel, "forward", None)  # There processes wait.
    shown = torch.as_tensor(agent.env_spaces.observation.sample())
    null = torch.as_tensor(agent.env_spaces.action.null_value())
    for mode in (agent.sample_mode, agent.eval_mode):
        mode(1)
        agent.step(torch.stack([shown] * 2), torch.stack([null] * 2), torch.zeros(2))

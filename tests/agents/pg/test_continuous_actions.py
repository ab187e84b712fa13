"""Bounds of continuous actions, and statistics of observations."""

import math

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.gaussian import AgentInfo, AgentStep, DistInfoStd, GaussianPgAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent, MujocoLstmAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.float_box import FloatBox
from tests.agents.pg.parts import AGENTS, inputs, make_agent

OBSERVATION = FloatBox(-1, 1, (3,))


class Fixed(torch.nn.Module):
    """Mean 0.5 and deviation 1 everywhere, in units of the model."""

    def __init__(self, n):
        super().__init__()
        self.mean = torch.nn.Parameter(torch.full((n,), 0.5))
        self.seen = []

    def forward(self, observation, prev_action, prev_reward):
        self.seen.append(prev_action)
        mean = self.mean.expand(*observation.shape[:-1], -1) * 1
        return mean, torch.zeros_like(mean), mean.sum(-1)


def fixed_agent(action, **kwargs):
    n = math.prod(action.shape)
    agent = GaussianPgAgent(ModelCls=Fixed, model_kwargs={"n": n}, **kwargs)
    agent.initialize(EnvSpaces(OBSERVATION, action))
    agent.sample_mode(0)
    return agent


def test_each_dimension_in_its_own_units():
    # A common bound, its negative below, was asserted; actions were not scaled to it.
    agent = fixed_agent(FloatBox([-1.0, 0.0], [1.0, 10.0]))
    data = inputs(agent.env_spaces, 4)
    data.prev_action[:] = torch.tensor([1.0, 0.0])
    info = agent.step(*data).agent_info.dist_info
    assert info.mean.tolist() == [[0.5, 7.5]] * 4
    torch.testing.assert_close(info.log_std[0], torch.tensor([0.0, math.log(5)]))
    assert agent.model.seen[-1].tolist() == [[1, -1]] * 4


def test_nothing_changes_for_plus_minus_one():
    agent = fixed_agent(FloatBox(-1, 1, (2,)), clip_actions=False)
    data = inputs(agent.env_spaces, 4)
    info = agent.step(*data).agent_info.dist_info
    assert info.mean.tolist() == [[0.5, 0.5]] * 4
    assert torch.equal(agent.model.seen[-1], data.prev_action)


def test_actions_are_clipped_unless_told_otherwise():
    action = FloatBox([-1.0, 0.0], [1.0, 10.0])
    for clip in (True, False):
        agent = fixed_agent(action, clip_actions=clip)
        drawn = agent.step(*inputs(agent.env_spaces, 500)).action.numpy()
        inside = np.all((drawn >= action.low) & (drawn <= action.high))
        assert inside == clip


def test_scale_can_be_left_to_the_model():
    agent = fixed_agent(FloatBox([-1.0, 0.0], [1.0, 10.0]), scale_actions=False)
    assert agent.step(*inputs(agent.env_spaces, 4)).agent_info.dist_info.mean[0, 1] == 0.5


def own_call(agent, *inputs):
    mean, log_std, *others = agent.model(*inputs)
    return DistInfoStd(mean, log_std), *others


def own_step(agent, *inputs):
    dist_info, value, *_ = own_call(agent, *inputs, *no_state(agent))
    return AgentStep(agent.distribution.sample(dist_info), AgentInfo(dist_info, value))


def own_value(agent, *inputs):
    return agent.model(*inputs, *no_state(agent))[2]


def no_state(agent):
    return [None] * agent.recurrent


@pytest.mark.parametrize("own", [own_call, own_step, own_value])
@pytest.mark.parametrize("AgentCls", [MujocoFfAgent, MujocoLstmAgent])
def test_one_overridden_method_and_the_others_mean_the_same(AgentCls, own):
    # The library's methods scaled what the model returned, the user's did not.
    name = {own_call: "__call__", own_step: "step", own_value: "value"}[own]
    agent = type("Mine", (AgentCls,), {name: own})()
    agent.initialize(EnvSpaces(OBSERVATION, FloatBox([-1.0, 0.0], [1.0, 10.0])))
    agent.sample_mode(0)
    data = inputs(agent.env_spaces, 4)
    with torch.no_grad():
        value = agent.value(*data)
        info = agent.step(*data).agent_info
        rows = (part[None] for part in data)
        dist_info, trained_value, *_ = agent(*rows, *no_state(agent))
    for acted, trained in zip((*info.dist_info, info.value), (*dist_info, trained_value)):
        torch.testing.assert_close(acted, trained[0])
    torch.testing.assert_close(value, info.value)


@pytest.mark.parametrize("module", ["rlpyt.projects.mine", "mine"])
@pytest.mark.parametrize("AgentCls", [MujocoFfAgent, MujocoLstmAgent])
def test_actions_of_a_method_of_its_own_are_not_scaled_that_is_logged(AgentCls, module, capsys):
    # It was silent, and subclasses whose file lies in the package were scaled.
    def is_scaled(high, **methods):
        agent = type("Mine", (AgentCls,), {**methods, "__module__": module})()
        agent.initialize(EnvSpaces(OBSERVATION, FloatBox([-1.0], [high])))
        scaled = agent.distribution.scaled(torch.zeros(1), torch.zeros(1))
        return bool(scaled.mean != 0)

    assert is_scaled(9.0)
    assert not is_scaled(1.0, step=own_step)
    assert "not scaled" not in capsys.readouterr().out
    assert not is_scaled(9.0, step=own_step)
    assert "Mine has its own __call__, step or value" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("AgentCls", [MujocoFfAgent, GenericFfAgent])
def test_actions_of_any_shape(AgentCls, shape):
    agent = AgentCls()
    agent.initialize(EnvSpaces(OBSERVATION, FloatBox(-2, 2, shape)))
    data = inputs(agent.env_spaces, 5, 4)
    assert agent.step(*data).action.shape == (5, 4, *shape)
    dist_info, _ = agent(*data)
    assert agent.distribution.log_likelihood(data.prev_action, dist_info).shape == (5, 4)


NORMALIZED = {"normalize_observation": True}


@pytest.mark.parametrize("name", [name for name in AGENTS if "atari" not in name])
def test_statistics_of_observations(name):
    plain, agent = make_agent(name), make_agent(name, NORMALIZED)
    data = inputs(AGENTS[name][1], 20, 4)
    plain.update_obs_rms(data.observation)
    before = {key: value.clone() for key, value in agent.state_dict().items()}
    agent.update_obs_rms(data.observation)
    changed = [
        key for key, value in agent.state_dict().items() if not torch.equal(value, before[key])
    ]
    assert {key.split(".")[-1] for key in changed} == {"mean", "var", "count"}
    counts = [value for key, value in agent.state_dict().items() if key.endswith("count")]
    assert [count.item() for count in counts] == [80]


def test_models_without_statistics():
    # They failed after the first iteration.
    agent = MujocoFfAgent(ModelCls=lambda **kwargs: Fixed(kwargs["action_size"]))
    agent.initialize(EnvSpaces(OBSERVATION, FloatBox(-1, 1, (2,))))
    agent.update_obs_rms(inputs(agent.env_spaces, 5, 4).observation)


@pytest.mark.parametrize("AgentCls", [MujocoFfAgent, MujocoLstmAgent])
def test_keywords_of_the_model(AgentCls):
    agent = AgentCls()
    agent.initialize(EnvSpaces(OBSERVATION, FloatBox(-1, 1, (2,))))
    assert agent.env_model_kwargs == {"observation_shape": (3,), "action_size": 2}

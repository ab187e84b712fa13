"""The device sampler: the vector sampler's batches, on the device and without waiting for it."""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.core.records import NotFiniteError
from rlpyt.envs import control, gym, vector
from rlpyt.envs.atari.atari_env import AtariTrajInfo
from rlpyt.samplers.vector.device import DeviceSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.buffer import buffer_to, leaves
from rlpyt.utils.seed import set_seed
from tests.accelerator import ROUNDING, SIMULATED, apart, on_each_device, present
from tests.refused import assert_refused
from tests.samplers.parts import EchoAgent, assert_same, assert_same_infos
from tests.selection import each_once, selected

CARTPOLE = {"id": "CartPole-v1", "max_episode_steps": 30}
NAMES = ("CartPole-v1", "Pendulum-v1")
AGENTS = (GenericFfAgent, GenericLstmAgent)


def start(SamplerCls, make, env_kwargs, AgentCls=GenericFfAgent, device=None, **kwargs):
    kwargs = {"batch_T": 25, "batch_B": 3, "max_decorrelation_steps": 10, **kwargs}
    set_seed(2)
    sampler = SamplerCls(make, env_kwargs, record_next_observation=True, **kwargs)
    agent = AgentCls()
    sampler.initialize(agent, seed=4, bootstrap_value=True, traj_info_kwargs={"discount": 0.9})
    agent.to_device(device)
    return sampler


@pytest.mark.parametrize(
    ("mode", "name", "AgentCls"),
    selected(itertools.product(("same_step", "next_step", "disabled"), NAMES, AGENTS)),
)
def test_batches_equal_those_of_gymnasium(mode, name, AgentCls):
    kwargs = {"eval_n_envs": 2, "eval_n_episodes": 5}
    env_kwargs = {**CARTPOLE, "id": name, "autoreset_mode": mode}
    ours = start(DeviceSampler, control.make, env_kwargs, AgentCls, **kwargs)
    theirs = start(VectorSampler, vector.make, env_kwargs, AgentCls, **kwargs)
    n_infos = 0
    for itr in range(6):
        samples, infos = ours.obtain_samples(itr)
        others, other_infos = theirs.obtain_samples(itr)
        # Sine and cosine of torch and numpy may differ in the last digit.
        assert_same(samples, others, exact=False)
        assert_same_infos(infos, other_infos)
        n_infos += len(infos)
    assert n_infos >= 12
    assert_same_infos(ours.evaluate_agent(6), theirs.evaluate_agent(6))


@pytest.mark.parametrize("limits", [{"eval_max_steps": 140}, {"eval_max_trajectories": 3}])
def test_evaluation_ends_where_that_of_the_vector_sampler_does(limits):
    kwargs = {"eval_n_envs": 2, "eval_max_steps": 1000, **limits}
    found = [
        start(SamplerCls, make, CARTPOLE, **kwargs).evaluate_agent(0)
        for SamplerCls, make in ((DeviceSampler, control.make), (VectorSampler, vector.make))
    ]
    assert_same_infos(*found)
    assert found[0]


@pytest.mark.parametrize("AgentCls", AGENTS)
def test_state_continues_identically(AgentCls):
    sampler = start(DeviceSampler, control.make, CARTPOLE, AgentCls)
    for itr in range(2):
        sampler.obtain_samples(itr)
    state = copy.deepcopy(sampler.state_dict())
    expected = [copy.deepcopy(sampler.obtain_samples(itr)) for itr in (2, 3)]
    other = start(DeviceSampler, control.make, CARTPOLE, AgentCls)
    other.obtain_samples(0)
    other.load_state_dict(state)
    for itr, (samples, infos) in enumerate(expected, start=2):
        again, again_infos = other.obtain_samples(itr)
        assert_same(again, samples)
        assert_same_infos(again_infos, infos)


# --- On a device ----------------------------------------------------------------------------------


def sampled(device, name, AgentCls):
    """Return three batches on the CPU, their trajectories, and what crossed in the last two."""
    with present(SIMULATED if device == "cpu" else device) as accelerator:
        env_kwargs = {"id": name, "max_episode_steps": 30, "device": device}
        sampler = start(DeviceSampler, control.make, env_kwargs, AgentCls, device)
        before, found = Counter(), []
        for itr in range(3):
            samples, infos = sampler.obtain_samples(itr)
            assert {str(x.device) for x in leaves(samples)} == {device}
            crossed = Counter(accelerator.counts)
            batch = [x.clone() for x in leaves(buffer_to(samples, "cpu"))]
            found.append((batch, [dict(info) for info in infos], crossed - before))
            before = Counter(accelerator.counts)
    return found


@on_each_device
@pytest.mark.parametrize(("name", "AgentCls"), each_once(NAMES, AGENTS))
def test_a_batch_is_collected_without_waiting(name, AgentCls, device):
    expected = apart(sampled, "cpu", name, AgentCls)
    found = apart(sampled, device, name, AgentCls)
    tolerance = {"rtol": 0, "atol": ROUNDING[device]}
    for (batch, infos, _), (other, other_infos, _) in zip(found, expected):
        torch.testing.assert_close(batch, other, **tolerance)
        torch.testing.assert_close(infos, other_infos, **tolerance)
    # The first batch draws the noise of 256 steps, and copies constants.
    for _, _, crossed in found[1:]:
        assert crossed == {"out": 1}
    assert sum(len(infos) for _, infos, _ in found) > 3


# --- Agents and environments of users -------------------------------------------------------------


class CountingAgent(EchoAgent):
    """Keeps its state by itself, so that every reset comes one by one."""

    recurrent = True

    def value(self, observation, prev_action, prev_reward):
        return observation[..., 0]

    def step(self, observation, prev_action, prev_reward):
        step = super().step(observation, prev_action, prev_reward)
        return step._replace(action=step.action % 2)


def test_an_agent_may_keep_its_own_state():
    ours = start(DeviceSampler, control.make, CARTPOLE, CountingAgent)
    theirs = start(VectorSampler, vector.make, CARTPOLE, CountingAgent)
    for itr in range(3):
        assert_same(ours.obtain_samples(itr)[0], theirs.obtain_samples(itr)[0], exact=False)
        assert ours.agent.memory == theirs.agent.memory


def make_elsewhere(num_envs, device, **kwargs):
    env = control.make(num_envs=num_envs, **kwargs)
    env.device = torch.device(device)
    return env


@pytest.mark.parametrize(
    ("SamplerCls", "make", "env_kwargs", "kwargs", "words", "error"),
    [
        (
            VectorSampler,
            lambda num_envs: gym.make("CartPole-v1"),
            {},
            {},
            "VectorEnvWrapper",
            TypeError,
        ),
        (VectorSampler, vector.make, [CARTPOLE] * 3, {}, "one mapping", TypeError),
        (VectorSampler, control.make, CARTPOLE, {}, "DeviceSampler", TypeError),
        (DeviceSampler, vector.make, CARTPOLE, {}, "EnvCls", TypeError),
        (
            DeviceSampler,
            control.make,
            CARTPOLE,
            {"TrajInfoCls": AtariTrajInfo},
            "TrajInfoCls",
            TypeError,
        ),
        (
            DeviceSampler,
            make_elsewhere,
            {**CARTPOLE, "device": "cpu"},
            {
                "eval_n_envs": 1,
                "eval_n_episodes": 1,
                "eval_env_kwargs": {**CARTPOLE, "device": "meta"},
            },
            "eval_env_kwargs",
            ValueError,
        ),
    ],
)
def test_refused(SamplerCls, make, env_kwargs, kwargs, words, error):
    assert_refused(lambda: start(SamplerCls, make, env_kwargs, **kwargs), words, error)


def test_an_agent_on_the_cpu_cannot_act_on_another_device():
    sampler = start(DeviceSampler, control.make, CARTPOLE)
    sampler.env.device = torch.device("meta")
    with pytest.raises(ValueError, match="cuda_idx"):
        sampler.obtain_samples(0)


def test_nan_reward_names_the_environment():
    sampler = start(DeviceSampler, control.make, CARTPOLE)
    reward = torch.tensor([0.0, np.nan, 0.0])
    advance = sampler.env.env.advance
    sampler.env.env.advance = lambda action: (reward, advance(action)[1])
    with pytest.raises(NotFiniteError, match="environment 1"):
        sampler.obtain_samples(0)

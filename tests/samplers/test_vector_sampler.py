"""The vector sampler: the same batches as the serial one, field by field."""

import copy

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlpyt.agents.base import AgentStep
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.core.records import NotFiniteError, TrajInfo
from rlpyt.envs.atari.atari_env import AtariTrajInfo
from rlpyt.envs.atari.vector import AtariVector
from rlpyt.envs.gym import GymEnvWrapper, make as make_one_gym
from rlpyt.envs.vector import VectorEnvWrapper, make as make_vector_gym
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from tests.envs.vector_parts import MODES, make_one, make_vector
from tests.samplers.parts import AgentInfo, EchoAgent, assert_same, assert_same_infos

CARTPOLE = {"id": "CartPole-v1", "max_episode_steps": 12}


class RuleAgent(EchoAgent):
    """Echoes; its action depends on the observation and on its steps since the reset."""

    def step(self, observation, prev_action, prev_reward):
        leaf = observation.steps[..., :1] if hasattr(observation, "steps") else observation
        super().step(leaf, prev_action, prev_reward)
        n_actions = self.env_spaces.action.n
        memory = torch.zeros(prev_reward.shape)
        for b in range(prev_reward.numel() if prev_reward.dim() else 0):
            memory[b] = self.memory[b]
        action = (10 * leaf.sum(-1).abs() + memory).long() % int(n_actions)
        return AgentStep(action, AgentInfo(prev_action, 10 * prev_reward + memory))

    def value(self, observation, prev_action, prev_reward):
        leaf = observation.steps[..., :1] if hasattr(observation, "steps") else observation
        return leaf.sum(-1) + 100 * prev_reward


class FirstObservation(TrajInfo):
    """Counts something that the vectorised statistics do not know."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Sum = 0.0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        value = 0 if agent_info is None else float(agent_info.value)
        self.Sum += float(observation.steps[0]) + int(action) + env_info.double + value

    def terminate(self, observation):
        self.Last = float(observation.steps[0])
        return self


@pytest.fixture(autouse=True)
def _discount_of_one_afterwards():
    yield
    TrajInfo._discount = FirstObservation._discount = 1


def start(SamplerCls, EnvCls, env_kwargs, batch_T=7, batch_B=3, **kwargs):
    kwargs = {"max_decorrelation_steps": 0, "record_next_observation": True, **kwargs}
    sampler = SamplerCls(EnvCls, env_kwargs, batch_T, batch_B, **kwargs)
    agent = RuleAgent()
    sampler.initialize(agent, seed=4, bootstrap_value=True, traj_info_kwargs={"discount": 0.9})
    return sampler, agent


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("TrajInfoCls", [TrajInfo, FirstObservation])
def test_batches_equal_those_of_the_serial_sampler(mode, TrajInfoCls):
    vector, agent = start(VectorSampler, make_vector, {"mode": mode}, TrajInfoCls=TrajInfoCls)
    serial, other = start(SerialSampler, make_one, {}, TrajInfoCls=TrajInfoCls)
    n_infos = 0
    for itr in range(4):
        samples, infos = vector.obtain_samples(itr)
        others, other_infos = serial.obtain_samples(itr)
        # The toy counts its episodes in its second number, over the resets of the set-up.
        for batch in (samples, others):
            batch.env.observation.steps[..., 1] = 0
            batch.env.next_observation.steps[..., 1] = 0
        assert_same(samples, others)
        assert_same_infos(infos, other_infos)
        assert agent.memory == other.memory
        n_infos += len(infos)
    assert n_infos > 6
    assert vector.mid_batch_reset
    assert serial.mid_batch_reset


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_decorrelation_steps", [0, 30])
def test_seeds_and_decorrelation_are_those_of_the_serial_sampler(mode, max_decorrelation_steps):
    kwargs = {"batch_T": 20, "max_decorrelation_steps": max_decorrelation_steps}
    env_kwargs = {**CARTPOLE, "autoreset_mode": mode}
    vector, _ = start(VectorSampler, make_vector_gym, env_kwargs, **kwargs)
    serial, _ = start(SerialSampler, make_one_gym, CARTPOLE, **kwargs)
    for itr in range(3):
        assert_same(vector.obtain_samples(itr)[0], serial.obtain_samples(itr)[0])
    assert vector.samples_np.env.done.any()


class Lever(gymnasium.Env):
    """Has no null action; its infos have entries that gymnasium keeps as objects."""

    observation_space = gymnasium.spaces.Box(-1, 100, (2,))
    action_space = gymnasium.spaces.Box(0.5, 1, (1,))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.n_steps += 1
        is_over = self.n_steps == 3
        info = {"high": action[0] > 0.7, "pos": [1.0, action[0]]}
        if is_over:
            info["is_success"] = True
        return np.full(2, action, np.float32), 1.0, is_over, False, info


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_decorrelation_steps", [0, 20])
def test_null_actions_and_entries_are_those_of_the_serial_sampler(mode, max_decorrelation_steps):
    # Environments that did not run yet were given a null action, and entries were left out.
    def make_levers(num_envs):
        envs = SyncVectorEnv([Lever] * num_envs, autoreset_mode=AutoresetMode[mode.upper()])
        return VectorEnvWrapper(envs)

    def batches(SamplerCls, EnvCls):
        sampler = SamplerCls(
            EnvCls, {}, batch_T=5, batch_B=3, max_decorrelation_steps=max_decorrelation_steps
        )
        torch.manual_seed(0)
        sampler.initialize(GenericFfAgent(), seed=3)
        return [copy.deepcopy(sampler.obtain_samples(itr)) for itr in range(2)]

    serial = batches(SerialSampler, lambda: GymEnvWrapper(Lever()))
    assert serial[0][0].env.env_info._fields == ("high", "pos", "timeout")
    for (ours, infos), (others, other_infos) in zip(batches(VectorSampler, make_levers), serial):
        assert_same(ours.env, others.env)
        assert [info["_is_success"] for info in infos] == [1.0] * len(other_infos) != []


# --- Refusals -------------------------------------------------------------------------------------


def test_another_number_of_environments_is_refused():
    made = []

    def make_two(num_envs):
        made.append(make_vector(num_envs=2))
        return made[0]

    sampler = VectorSampler(make_two, {}, batch_T=1, batch_B=3)
    with pytest.raises(ValueError, match="num_envs 2, but the sampler needs 3"):
        sampler.initialize(RuleAgent())
    sampler.shutdown()
    assert made[0].closed


def test_nan_reward_names_the_environment():
    sampler, _ = start(VectorSampler, make_vector, {})
    sampler.env.env.envs[1].step = lambda action: (
        {"steps": np.zeros(2), "kind": 1},
        float("nan"),
        False,
        False,
        {},
    )
    with pytest.raises(NotFiniteError, match="environment 1"):
        sampler.obtain_samples(0)


def test_shutdown_closes_the_environments():
    evaluation = {"eval_n_envs": 3, "eval_env_kwargs": {}, "eval_max_steps": 9}
    sampler, _ = start(VectorSampler, make_vector, {}, **evaluation)
    sampler.shutdown()
    assert sampler.env.closed
    assert sampler.eval_env.closed


# --- Atari ----------------------------------------------------------------------------------------


class AnyAction(RuleAgent):
    """Needs no network to play."""

    def step(self, observation, prev_action, prev_reward):
        action = torch.randint(int(self.env_spaces.action.n), prev_reward.shape)
        return AgentStep(action, AgentInfo(prev_action, prev_reward))

    def value(self, observation, prev_action, prev_reward):
        return prev_reward


def test_atari_games_are_sampled_with_their_scores():
    pytest.importorskip("ale_py.vector_env")
    sampler = VectorSampler(
        AtariVector,
        {"game": "breakout", "num_threads": 1},
        batch_T=150,
        batch_B=2,
        max_decorrelation_steps=20,
        TrajInfoCls=AtariTrajInfo,
    )
    sampler.initialize(AnyAction(), seed=1, bootstrap_value=True)
    n_infos, scores, returns = 0, 0.0, 0.0
    for itr in range(3):
        samples, infos = sampler.obtain_samples(itr)
        n_infos += len(infos)
        scores += sum(info.GameScore for info in infos)
        returns += sum(info.Return for info in infos)
        env = samples.env
        assert env.observation.dtype == torch.uint8
        assert env.observation.shape[:2] == (150, 2)
        assert (env.env_info.traj_done <= env.done).all()
        assert (env.done & ~env.env_info.traj_done).any()
    assert n_infos >= 2
    assert scores >= returns > 0  # Rewards are clipped.
    sampler.shutdown()

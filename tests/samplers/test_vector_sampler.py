"""The vector sampler: the same batches as the serial one, field by field."""

import copy

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep
from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.core.records import NotFiniteError, TrajInfo
from rlpyt.envs.atari.atari_env import AtariTrajInfo
from rlpyt.envs.atari.vector import AtariVector
from rlpyt.envs.gym import make as make_one_gym
from rlpyt.envs.vector import make as make_vector_gym
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from tests.envs.vector_parts import MODES, make_one, make_vector
from tests.samplers.parts import AgentInfo, EchoAgent

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


def leaves(record, path="samples"):
    if record is None:
        return
    if isinstance(record, tuple):
        for name, part in zip(record._fields, record):
            yield from leaves(part, f"{path}.{name}")
    else:
        yield path, record


def assert_same(samples, others):
    ours, theirs = list(leaves(samples)), list(leaves(others))
    assert [path for path, _ in ours] == [path for path, _ in theirs]
    for (path, mine), (_, other) in zip(ours, theirs):
        assert mine.dtype == other.dtype, path
        assert torch.equal(mine, other), path


def assert_same_infos(infos, others):
    assert [set(info) for info in infos] == [set(info) for info in others]
    for info, other in zip(infos, others):
        for name in info:
            assert info[name] == pytest.approx(other[name], rel=1e-6), name


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


class NoTrajInfo(TrajInfo):
    def terminate(self, observation):
        return None


def test_trajectories_that_do_not_count():
    for SamplerCls, make, kwargs in (
        (VectorSampler, make_vector, {"mode": MODES[0]}),
        (SerialSampler, make_one, {}),
    ):
        limits = {"eval_n_envs": 2, "eval_n_episodes": 3}
        sampler, _ = start(SamplerCls, make, kwargs, TrajInfoCls=NoTrajInfo, **limits)
        samples, infos = sampler.obtain_samples(0)
        assert samples.env.done.any()
        assert infos == sampler.evaluate_agent(0) == []


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


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_is_no_transition(mode):
    sampler, _ = start(VectorSampler, make_vector, {"mode": mode}, batch_T=40, batch_B=1)
    env = sampler.obtain_samples(0)[0].env
    count, done = env.observation.steps[:, 0, 0], env.done[:, 0]
    assert done.sum() >= 8
    # Every row is a step: what the action led to is one further, and its reward says so.
    assert torch.equal(env.next_observation.steps[:, 0, 0], count + 1)
    assert torch.equal(env.reward[:, 0], count - 0.5)
    starts = torch.cat([torch.tensor([True]), done[:-1]])
    assert torch.equal(count == 0, starts)
    assert torch.equal(env.env_info.timeout[:, 0], done & (count == 4) & (env.reward[:, 0] > 3))


@pytest.mark.parametrize("mode", MODES)
def test_state_continues_identically(mode):
    env_kwargs = {**CARTPOLE, "autoreset_mode": mode}
    sampler, agent = start(VectorSampler, make_vector_gym, env_kwargs)
    sampler.obtain_samples(0)
    state, memory = copy.deepcopy(sampler.state_dict()), dict(agent.memory)
    expected = []
    for itr in (1, 2):
        samples, infos = sampler.obtain_samples(itr)
        expected.append((copy.deepcopy(samples), infos))
    other, agent = start(VectorSampler, make_vector_gym, env_kwargs)
    other.obtain_samples(0)
    other.obtain_samples(0)
    other.load_state_dict(state)
    agent.memory = memory
    for itr, (samples, infos) in enumerate(expected, start=1):
        again, again_infos = other.obtain_samples(itr)
        assert_same(again, samples)
        assert_same_infos(again_infos, infos)


# --- Evaluation -----------------------------------------------------------------------------------

EVAL = {"eval_n_envs": 3, "eval_env_kwargs": {}}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "limits",
    [
        {"eval_max_steps": 36},
        {"eval_max_steps": 300, "eval_max_trajectories": 4},
        {"eval_n_episodes": 5},
    ],
)
def test_evaluation_is_that_of_the_serial_sampler(mode, limits):
    kwargs = {**EVAL, **limits}
    vector_kwargs = {**kwargs, "eval_env_kwargs": {"mode": mode}}
    vector, agent = start(VectorSampler, make_vector, {"mode": mode}, **vector_kwargs)
    serial, _ = start(SerialSampler, make_one, {}, **kwargs)
    vector.obtain_samples(0)
    before = vector.agent_inputs.observation.steps.copy()
    infos = vector.evaluate_agent(1)
    assert agent.calls[-2:] == ["eval 1", "reset"]
    assert len(infos) == len(serial.evaluate_agent(1)) > 0
    if "eval_n_episodes" in limits:
        assert len(infos) == 5
    np.testing.assert_array_equal(vector.agent_inputs.observation.steps, before)


# --- Refusals -------------------------------------------------------------------------------------


def test_a_single_environment_is_refused():
    def make_no_vector(num_envs):
        return make_one()

    with pytest.raises(TypeError, match="VectorEnvWrapper"):
        start(VectorSampler, make_no_vector, {})


def test_different_environments_are_refused():
    with pytest.raises(TypeError, match="one mapping"):
        start(VectorSampler, make_vector, [{}, {}, {}])


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
    sampler, _ = start(VectorSampler, make_vector, {}, eval_max_steps=9, **EVAL)
    sampler.shutdown()
    assert sampler.env.closed
    assert sampler.eval_env.closed


# --- Atari ----------------------------------------------------------------------------------------


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
    sampler.initialize(AtariFfAgent(), seed=1, bootstrap_value=True)
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

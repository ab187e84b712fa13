"""Collectors, samplers, agents and environments as research code writes them."""

import copy
from collections import namedtuple

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.core.records import EnvStep
from rlpyt.envs import gym, gym_schema
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from tests.samplers.parallel_parts import RecurrentRule, start as start_dice
from tests.samplers.parts import CountEnv, EchoAgent, Info
from tests.samplers.test_parallel_samplers import OwnEvaluation as OwnWorkerEvaluation

COLLECTORS = [CpuResetCollector, CpuWaitResetCollector]


def start(agent=None, batch_T=6, batch_B=1, bootstrap_value=False, **kwargs):
    kwargs = {"EnvCls": CountEnv, "env_kwargs": {}, "max_decorrelation_steps": 0, **kwargs}
    sampler = SerialSampler(batch_T=batch_T, batch_B=batch_B, **kwargs)
    agent = agent or EchoAgent()
    sampler.initialize(agent=agent, seed=3, bootstrap_value=bootstrap_value)
    return sampler


def observed(samples):
    return samples.env.observation[:, 0, 0].tolist()


# --- Evaluation with a loop of its own ------------------------------------------------------------


class OwnEvaluation(SerialEvalCollector):
    evaluate = OwnWorkerEvaluation.evaluate

    def collect_evaluation(self, itr):
        return list(self.evaluate(itr))


def test_evaluation_with_its_own_loop():
    sampler = start(eval_CollectorCls=OwnEvaluation, eval_n_envs=2, eval_max_steps=20)
    assert [info.Return for info in sampler.evaluate_agent(0)] == [10] * 4


# --- Samplers whose constructor differs -----------------------------------------------------------


# --- Agents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("CollectorCls", COLLECTORS)
@pytest.mark.parametrize(
    "info", [None, namedarraytuple("Empty", [])(), namedtuple("Empty", [])(), ()], ids=repr
)
def test_agents_without_info(CollectorCls, info):
    class Silent(EchoAgent):
        def step(self, *inputs):
            return AgentStep(super().step(*inputs).action, info)

    sampler = start(Silent(), CollectorCls=CollectorCls, eval_n_envs=1, eval_max_steps=9)
    for itr in range(2):
        samples, _ = sampler.obtain_samples(itr)
    assert observed(samples)[0] in (0, 2)
    assert len(sampler.evaluate_agent(1)) == 2


def test_bootstrapping_without_value_is_an_error():
    class Silent(EchoAgent):
        def step(self, *inputs):
            return AgentStep(super().step(*inputs).action, None)

    with pytest.raises(ValueError, match="agent_info of Silent has no field 'value'"):
        start(Silent(), bootstrap_value=True)


@pytest.mark.parametrize("collector", ["reset", "wait"])
def test_recurrent_agent(collector):
    evaluation = {"eval_n_envs": 1, "eval_max_steps": 30}
    kwargs = {"batch_T": 30, "CollectorCls": collector, **evaluation}
    sampler, agent = start_dice(SerialSampler, 0, RecurrentRule(), **kwargs)
    samples, _ = sampler.obtain_samples(0)
    state, done = samples.agent.agent_info.prev_rnn_state[:, :, 0], samples.env.done[:-1]
    assert done.any()
    assert (state[1:][done] == 0).all(), "the state is reset where an episode ended"
    assert (state[1:][~done & ~samples.env.done[1:]] != 0).all()
    # Evaluation puts the state aside, and sampling takes it up again.
    before = copy.deepcopy(agent.prev_rnn_state)
    sampler.evaluate_agent(0)
    agent.sample_mode(1)
    assert torch.equal(agent.prev_rnn_state, before)


# --- Environments ---------------------------------------------------------------------------------


class NestedEnv(gymnasium.Env):
    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
            "position": spaces.Box(-1, 1, (3,), np.float64),
            "sub.x": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))),
        }
    )
    action_space = spaces.Dict(
        {"move": spaces.Discrete(3, start=-1), "grip": spaces.Box(-1, 1, (2,), np.float32)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def _observe(self):
        image = np.full((2, 2), self.t, np.uint8)
        position = self.np_random.random(3) * 2 - 1
        return {"image": image, "position": position, "sub.x": (self.t % 2, np.int8([1, 0]))}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        info = {"a.b": self.t, "text": "left out", "nested": {"k": 1.0}}
        return self._observe(), float(action["move"]), self.t == 3, False, info


class NestedAgent(BaseAgent):
    fields = ("grip", "move")  # gymnasium sorts them.

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        self.env_spaces = env_spaces
        self.model = torch.nn.Linear(1, 1)

    def step(self, observation, prev_action, prev_reward):
        lead = observation.position.shape[:-1]
        parts = {"grip": torch.zeros(*lead, 2), "move": torch.full(lead, 2)}
        Action = namedarraytuple("Action", self.fields)
        return AgentStep(Action(*(parts[name] for name in self.fields)), None)


@pytest.mark.parametrize("CollectorCls", COLLECTORS)
@pytest.mark.parametrize("wrapper", [gym.GymEnvWrapper, gym_schema.GymEnvWrapper])
def test_nested_observations_actions_and_infos(CollectorCls, wrapper):
    # Actions from a sampler used to reach the environment as records, not as dictionaries.
    sampler = start(
        NestedAgent(),
        EnvCls=lambda: wrapper(NestedEnv()),
        batch_T=5,
        batch_B=2,
        CollectorCls=CollectorCls,
        max_decorrelation_steps=2,
        eval_n_envs=1,
        eval_max_steps=8,
    )
    for itr in range(2):
        samples, _ = sampler.obtain_samples(itr)
    env = samples.env
    assert set(env.env_info._fields) == {"a_b", "nested", "timeout"}
    acted = ~torch.cat([torch.zeros(1, 2, dtype=torch.bool), env.done[:-1]])
    assert (env.reward[acted] == 1).all(), "move counts from 0, the environment's from -1"
    assert torch.equal(env.env_info.a_b[acted], env.observation.image[..., 0, 0][acted] + 1)
    assert env.observation.position.dtype == torch.float32
    assert len(sampler.evaluate_agent(1)) == 2
    state = copy.deepcopy(sampler.state_dict())
    expected = copy.deepcopy(sampler.obtain_samples(2)[0].env.observation.position)
    sampler.load_state_dict(state)
    assert torch.equal(sampler.obtain_samples(2)[0].env.observation.position, expected)


def test_action_fields_in_another_order_are_an_error():
    class Unsorted(NestedAgent):
        fields = ("move", "grip")

    with pytest.raises(ValueError, match=r"action has the fields \('move', 'grip'\).*'grip', 'mov"):
        start(Unsorted(), EnvCls=lambda: gym.GymEnvWrapper(NestedEnv()))


def after(n_resets, change):
    """CountEnv whose steps are changed from the given reset on."""

    class Changed(CountEnv):
        def step(self, action):
            step = super().step(action)
            return step._replace(**change) if self.n_resets >= n_resets else step

    return Changed


OtherInfo = namedtuple("OtherInfo", ["traj_done", "number"])


@pytest.mark.parametrize(
    ("first_reset", "change", "message"),
    [
        (1, {"env_info": {"x": 1}}, "env_info of Changed with EchoAgent cannot be buffered"),
        (1, {"reward": np.ones(2)}, r"Changed.* returned reward of shape \(2,\)"),
        (3, {"reward": None}, r"environment 0 \(Changed\) returned reward None"),
        (3, {"observation": np.zeros(3)}, r"environment 0 \(Changed\) returned observation"),
    ],
)
def test_what_does_not_fit_is_named(first_reset, change, message):
    def sample():
        start(EnvCls=after(first_reset, change)).obtain_samples(0)

    with pytest.raises(ValueError, match=message):
        sample()


def test_steps_without_info():
    samples, _ = start(EnvCls=after(3, {"env_info": None})).obtain_samples(0)
    assert samples.env.env_info.count[:, 0].tolist() == [1, 2, 3, 4, 0, 0]


def test_an_info_that_does_not_fit_is_left_out(capsys):
    EnvCls = after(2, {"env_info": OtherInfo(False, [1, 2])})
    samples, _ = start(EnvCls=EnvCls, batch_T=3).obtain_samples(0)
    assert not samples.env.env_info.count.any()
    EnvCls = after(2, {"env_info": Info(False, [1, 2])})
    samples, _ = start(EnvCls=EnvCls, batch_T=3).obtain_samples(0)
    assert not samples.env.env_info.count.any()
    assert capsys.readouterr().out.count("env_info.count") == 1


def test_real_numbers_after_an_integer_are_kept_or_named(capsys):
    class Mixed(CountEnv):
        def step(self, action):
            step = super().step(action)
            return step._replace(observation=step.observation + 0.5)

    samples, _ = start(EnvCls=Mixed).obtain_samples(0)
    assert samples.env.observation[1, 0].tolist() == [1.5, 1.5]
    later = after(3, {"observation": np.full(2, 1.5)})
    for _ in range(2):
        samples, _ = start(EnvCls=later).obtain_samples(0)
    assert samples.env.observation.dtype == torch.int32
    assert capsys.readouterr().out.count("truncated") == 1


def test_environment_of_old_style():
    Info = namedtuple("Info", ["score", "traj_done"])

    class Old(CountEnv):
        def step(self, action):
            step = super().step(action)
            done = np.bool_(step.done)
            info = Info(score=np.array(0.5, dtype="float32"), traj_done=done)
            return EnvStep(step.observation, np.float64(step.reward), done, info)

    samples, infos = start(EnvCls=Old).obtain_samples(0)
    assert samples.env.env_info.score.dtype == torch.float32
    assert samples.env.done[:, 0].tolist() == [False, False, False, True, False, False]
    assert len(infos) == 1

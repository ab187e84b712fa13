"""Collectors, samplers, agents and environments as research code writes them."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep
from rlpyt.core.records import EnvStep
from rlpyt.envs import gym
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from tests.contracts.test_env_contract import Nested
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


# --- Agents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("CollectorCls", COLLECTORS)
@pytest.mark.parametrize("info", [None, namedarraytuple("Empty", [])(), ()], ids=repr)
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


# --- Environments ---------------------------------------------------------------------------------


class Unsorted(EchoAgent):
    """Gives the fields of its action in an order of its own; gymnasium sorts them."""

    def step(self, observation, prev_action, prev_reward):
        Action = namedarraytuple("Action", ["push_it", "move"])
        return AgentStep(Action(torch.zeros(*prev_reward.shape, 2), prev_reward.long()), None)


def test_action_fields_in_another_order_are_an_error():
    with pytest.raises(
        ValueError, match=r"action has the fields \('push_it', 'move'\).*'move', 'p"
    ):
        start(Unsorted(), EnvCls=lambda: gym.GymEnvWrapper(Nested()))


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
    assert capsys.readouterr().out.count("loses its value") == 1


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

"""Every role has what the other roles read of it, once it is set up."""

from functools import partial

import pytest

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent
from rlpyt.agents.qpg import d4pg_agent, ddpg_agent, sac_agent, sac_v_agent, td3_agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.core.protocols import AgentLike, AlgoLike, EnvLike, SamplerLike, Stateful
from rlpyt.envs import gym
from rlpyt.envs.toy import Counter
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler


def missing(protocol, role):
    """Names of ``protocol`` that ``role`` does not have."""
    declared = {name for name in vars(protocol) if not name.startswith("_")}
    declared |= set(getattr(protocol, "__annotations__", {}))
    return sorted(name for name in declared if not hasattr(role, name))


DISCRETE, CONTINUOUS = (Counter, {}), (gym.make, {"id": "Pendulum-v1"})


@pytest.fixture(
    params=[
        (MinibatchRl, DQN, MlpDqnAgent, DISCRETE),
        (MinibatchRlEval, CategoricalDQN, MlpCatDqnAgent, DISCRETE),
        (MinibatchRl, SAC, sac_agent.SacAgent, CONTINUOUS),
        (MinibatchRlEval, SAC_V, sac_v_agent.SacAgent, CONTINUOUS),
        (MinibatchRl, DDPG, ddpg_agent.DdpgAgent, CONTINUOUS),
        (MinibatchRlEval, TD3, td3_agent.Td3Agent, CONTINUOUS),
        (MinibatchRl, partial(D4PG, V_min=-10, V_max=0), d4pg_agent.D4pgAgent, CONTINUOUS),
    ]
)
def runner(request):
    RunnerCls, AlgoCls, AgentCls, (EnvCls, env_kwargs) = request.param
    runner = RunnerCls(
        algo=AlgoCls(replay_size=100, min_steps_learn=20, batch_size=16),
        agent=AgentCls(),
        sampler=SerialSampler(EnvCls, env_kwargs, 2, 2, eval_n_envs=1, eval_max_steps=4),
        n_steps=40,
        log_interval_steps=20,
        seed=0,
    )
    runner.startup()
    yield runner
    runner.shutdown()


def test_roles_of_a_run_keep_their_protocols(runner):
    assert missing(AgentLike, runner.agent) == []
    assert missing(AlgoLike, runner.algo) == []
    assert missing(SamplerLike, runner.sampler) == []
    for stateful in (runner, runner.algo, runner.sampler, runner.algo.replay_buffer):
        assert isinstance(stateful, Stateful)


@pytest.mark.parametrize("make", [Counter, lambda: gym.make("CartPole-v1")])
def test_environments_keep_their_protocol(make):
    env = make()
    assert missing(EnvLike, env) == []
    assert isinstance(env, Stateful)


def test_a_missing_name_is_found():
    class NoSpaces:
        def reset(self): ...

    assert missing(EnvLike, NoSpaces()) == [
        "action_space",
        "close",
        "observation_space",
        "spaces",
        "step",
    ]

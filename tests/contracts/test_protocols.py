"""Every role has what the other roles read of it, once it is set up."""

import pytest

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.core.protocols import AgentLike, AlgoLike, EnvLike, SamplerLike, Stateful
from rlpyt.envs import gym
from rlpyt.envs.toy import Counter
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler


def missing(protocol, role):
    """Names of ``protocol`` which ``role`` does not have."""
    declared = {name for name in vars(protocol) if not name.startswith("_")}
    declared |= set(getattr(protocol, "__annotations__", {}))
    return sorted(name for name in declared if not hasattr(role, name))


@pytest.fixture(params=[(MinibatchRl, DQN, MlpDqnAgent), (MinibatchRlEval, CategoricalDQN, None)])
def runner(request):
    RunnerCls, AlgoCls, AgentCls = request.param
    runner = RunnerCls(
        algo=AlgoCls(replay_size=100, min_steps_learn=20),
        agent=(AgentCls or MlpCatDqnAgent)(),
        sampler=SerialSampler(Counter, {}, 2, 2, eval_n_envs=1, eval_max_steps=4),
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

"""Every role has what the other roles read of it, once it is set up."""

import pytest

from rlpyt.core.protocols import AgentLike, AlgoLike, EnvLike, SamplerLike, Stateful
from rlpyt.envs import gym
from rlpyt.envs.toy import Counter
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from tests.determinism.test_runs import CASES


def missing(protocol, role):
    """Names of ``protocol`` that ``role`` does not have."""
    declared = {name for name in vars(protocol) if not name.startswith("_")}
    declared |= set(getattr(protocol, "__annotations__", {}))
    return sorted(name for name in declared if not hasattr(role, name))


@pytest.fixture(params=["dqn", "c51", "sac", "sac_v", "ddpg", "td3", "d4pg"])
def runner(request):
    RunnerCls = MinibatchRlEval if request.param in ("c51", "sac_v", "td3") else MinibatchRl
    runner = CASES[request.param](RunnerCls, seed=0, n_steps=40, log_interval_steps=20)
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

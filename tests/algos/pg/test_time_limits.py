"""An episode that its time limit cut goes on in the returns; an ended one does not."""

import pytest
import torch

from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import Counter
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from tests.algos.pg.parts import Setup, lstm_agent


def counting(algo, agent=None, cut=True, **kwargs):
    """Episodes of 4 steps with rewards 1, 2, 3, 4, in batches of 6."""
    env = {"EnvCls": Counter, "env_kwargs": {"length": 4, "time_limit": cut}}
    return Setup(algo, agent, **env, **{"T": 6, "B": 2, **kwargs})


@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_a_cut_at_the_end_of_a_batch(agent):
    setup = counting(A2C(), agent and agent(), T=4, record_next_observation=True)
    samples = setup.sample()
    assert samples.env.env_info.timeout[3].all()
    samples.agent.bootstrap_value[:] = 100  # Of the next episode.
    return_, _, _ = setup.algo.process_returns(samples)
    assert ((return_[3] - 4).abs() < 1).all()
    assert (return_[3] != 4).all()
    assert torch.allclose(return_[2], 3 + 0.99 * return_[3])


@pytest.mark.parametrize("gae_lambda", [1, 0.9])
def test_the_last_value_stands_in_where_the_observation_is_unknown(gae_lambda):
    setup = counting(A2C(gae_lambda=gae_lambda))
    samples = setup.sample()
    return_, advantage, _ = setup.algo.process_returns(samples)
    value = samples.agent.agent_info.value
    assert torch.allclose(return_[3], value[3])
    assert torch.allclose(advantage[3], torch.zeros(2))
    if gae_lambda == 1:
        assert torch.allclose(return_[2], 3 + 0.99 * value[3])


def test_is_told_once_that_a_value_stands_in(logged):
    counting(A2C()).train(0, 3)
    assert len([line for line in logged if "record_next_observation=True" in line]) == 1


@pytest.mark.parametrize(
    ("settings", "cut", "record"),
    [({"bootstrap_timelimit": False}, True, True), ({}, False, True), ({}, False, False)],
)
def test_ends_are_ends(settings, cut, record):
    setup = counting(A2C(**settings), cut=cut, record_next_observation=record)
    return_, _, _ = setup.algo.process_returns(setup.sample())
    assert return_[2:4].tolist() == [[pytest.approx(3 + 0.99 * 4)] * 2, [4, 4]]


def test_waiting_environments():
    setup = counting(PPO(), CollectorCls=CpuWaitResetCollector, record_next_observation=True)
    samples = setup.sample()
    return_, _, valid = setup.algo.process_returns(samples)
    assert valid is not None
    assert valid[:, 0].tolist() == [1, 1, 1, 1, 0, 0]
    last = torch.full((2, 1), 4.0)
    value = setup.agent.value(last, samples.agent.action[3], samples.env.reward[3])
    assert torch.allclose(return_[3], 4 + 0.99 * value)


@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_every_process_runs_the_agent(agent):
    # Without an episode that was cut, where other processes may have some and wait.
    calls = []
    setup = counting(A2C(), agent and agent(), cut=False, record_next_observation=True)
    samples = setup.sample()
    setup.agent.model.register_forward_hook(lambda *args: calls.append(args))
    setup.algo.process_returns(samples)
    assert not calls
    setup.algo.world_size = 2
    return_, _, _ = setup.algo.process_returns(samples)
    assert len(calls) == 1
    assert return_[3].tolist() == [4, 4]

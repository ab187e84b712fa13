"""An episode that its time limit cut goes on in the returns; an ended one does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import Counter
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.utils.logging import logger
from tests.algos.pg.parts import Setup, lstm_agent
from tests.reference.policy_gradient import returns


def counting(algo: Any, agent: Any = None, cut: bool = True, **kwargs: Any) -> Setup:
    """Episodes of 4 steps with rewards 1, 2, 3, 4, in batches of 6."""
    env = {"EnvCls": Counter, "env_kwargs": {"length": 4, "time_limit": cut}}
    return Setup(algo, agent, **env, **{"T": 6, "B": 2, **kwargs})


def expected_returns(samples: Any, discount: float, cut_values: torch.Tensor | None) -> Any:
    """[T,B], where ``cut_values`` [T,B] go on in the place of episodes that were cut."""
    columns = []
    for b in range(samples.env.reward.shape[1]):
        timeout = samples.env.env_info.timeout[:, b].tolist()
        columns.append(
            returns(
                samples.env.reward[:, b].tolist(),
                samples.env.done[:, b].tolist(),
                samples.agent.bootstrap_value[0, b].item(),
                discount,
                [
                    cut_values[t, b].item() if cut_values is not None and is_cut else None
                    for t, is_cut in enumerate(timeout)
                ],
            )
        )
    return torch.tensor(columns).T


@pytest.mark.parametrize("gae_lambda", [1, 1.0, 0.9])
def test_with_the_true_last_observation(gae_lambda: float) -> None:
    setup = counting(A2C(gae_lambda=gae_lambda), record_next_observation=True)
    samples = setup.sample()
    assert samples.env.env_info.timeout.any()
    return_, advantage, valid = setup.algo.process_returns(samples)
    assert valid is None
    last = torch.full((6, 2, 1), 4.0)
    values = setup.agent.value(last, samples.agent.action, samples.env.reward)
    if gae_lambda == 1:
        assert torch.allclose(return_, expected_returns(samples, 0.99, values))
    value = samples.agent.agent_info.value
    delta = samples.env.reward[3] + 0.99 * values[3] - value[3]
    assert torch.allclose(advantage[3], delta, atol=1e-6), "the advantage of the cut step"
    assert torch.allclose(return_ - value, advantage, atol=1e-5)


@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_a_cut_at_the_end_of_a_batch(agent: Any) -> None:
    setup = counting(A2C(), agent and agent(), T=4, record_next_observation=True)
    samples = setup.sample()
    assert samples.env.env_info.timeout[3].all()
    samples.agent.bootstrap_value[:] = 100  # Of the next episode.
    return_, _, _ = setup.algo.process_returns(samples)
    assert ((return_[3] - 4).abs() < 1).all()
    assert (return_[3] != 4).all()
    assert torch.allclose(return_[2], 3 + 0.99 * return_[3])


def test_recurrent_agents_are_run_from_the_recorded_state() -> None:
    setup = counting(A2C(), lstm_agent(), record_next_observation=True)
    agent, samples = setup.agent, setup.sample()
    # By hand: the agent sees what was sampled, and then the last observation.
    agent.reset()
    state = None
    with torch.no_grad():
        for t in range(4):
            inputs = (
                samples.env.observation[t],
                samples.agent.prev_action[t],
                samples.env.prev_reward[t],
            )
            state = agent(*(x[None] for x in inputs), state)[2]
        last = torch.full((1, 2, 1), 4.0)
        _, value, _ = agent(last, samples.agent.action[3:4], samples.env.reward[3:4], state)
    values = torch.zeros(6, 2)
    values[3] = value[0]
    return_, _, _ = setup.algo.process_returns(samples)
    assert torch.allclose(return_, expected_returns(samples, 0.99, values), atol=1e-5)


@pytest.mark.parametrize("gae_lambda", [1, 0.9])
def test_the_last_value_stands_in_where_the_observation_is_unknown(gae_lambda: float) -> None:
    setup = counting(A2C(gae_lambda=gae_lambda))
    samples = setup.sample()
    return_, advantage, _ = setup.algo.process_returns(samples)
    value = samples.agent.agent_info.value
    assert torch.allclose(return_[3], value[3])
    assert torch.allclose(advantage[3], torch.zeros(2))
    if gae_lambda == 1:
        assert torch.allclose(return_[2], 3 + 0.99 * value[3])


def test_is_told_once_that_a_value_stands_in() -> None:
    lines: list[str] = []
    setup = counting(A2C())
    log, logger.log = logger.log, lambda text, *args, **kwargs: lines.append(text)
    try:
        setup.train(0, 3)
    finally:
        logger.log = log
    assert len([line for line in lines if "record_next_observation=True" in line]) == 1


@pytest.mark.parametrize(("settings", "cut"), [({"bootstrap_timelimit": False}, True), ({}, False)])
@pytest.mark.parametrize("record", [False, True])
def test_ends_are_ends(settings: dict[str, Any], cut: bool, record: bool) -> None:
    setup = counting(A2C(**settings), cut=cut, record_next_observation=record)
    samples = setup.sample()
    return_, _, _ = setup.algo.process_returns(samples)
    assert torch.allclose(return_, expected_returns(samples, 0.99, None))
    assert return_[3].tolist() == [4, 4]


def test_waiting_environments() -> None:
    setup = counting(PPO(), CollectorCls=CpuWaitResetCollector, record_next_observation=True)
    samples = setup.sample()
    return_, _, valid = setup.algo.process_returns(samples)
    assert valid is not None
    assert valid[:, 0].tolist() == [1, 1, 1, 1, 0, 0]
    last = torch.full((2, 1), 4.0)
    value = setup.agent.value(last, samples.agent.action[3], samples.env.reward[3])
    assert torch.allclose(return_[3], 4 + 0.99 * value)


@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_every_process_runs_the_agent(agent: Any) -> None:
    # Without an episode that was cut, where other processes may have some and wait.
    calls: list[Any] = []
    setup = counting(A2C(), agent and agent(), cut=False, record_next_observation=True)
    samples = setup.sample()
    setup.agent.model.register_forward_hook(lambda *args: calls.append(args))
    setup.algo.process_returns(samples)
    assert not calls
    setup.algo.world_size = 2
    return_, _, _ = setup.algo.process_returns(samples)
    assert len(calls) == 1
    assert return_[3].tolist() == [4, 4]

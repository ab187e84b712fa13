"""Agents of quantiles: what they return, how they act."""

import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent, MlpQrDqnAgent
from tests.agents.parts import inputs, made

LEADING_DIMS = [(), (1,), (5,), (3, 5)]


@pytest.mark.parametrize("leading_dims", LEADING_DIMS)
def test_shapes_of_quantiles(leading_dims):
    agent = made(MlpQrDqnAgent(n_quantiles=7, eps_eval=0))
    agent.eval_mode(1)
    data = inputs(*leading_dims)
    quantiles = agent(*data)
    assert quantiles.shape == (*leading_dims, 4, 7)
    assert quantiles.requires_grad
    assert torch.equal(agent.target(*data), quantiles)
    assert not agent.target(*data).requires_grad
    step = agent.step(*data)
    assert step.action.shape == leading_dims
    assert torch.equal(step.agent_info.q, quantiles.mean(-1))
    assert torch.equal(step.action, quantiles.mean(-1).argmax(-1))


@pytest.mark.parametrize("leading_dims", LEADING_DIMS)
def test_shapes_at_random_fractions(leading_dims):
    agent = made(MlpIqnAgent(n_tau=7, eps_eval=0))
    agent.eval_mode(1)
    data = inputs(*leading_dims)
    for call in (agent, agent.target):
        for n_tau in (None, 3):
            quantiles, tau = call(*data, n_tau=n_tau)
            n = 7 if n_tau is None else n_tau
            assert quantiles.shape == (*leading_dims, 4, n)
            assert quantiles.requires_grad == (call is agent)
            assert tau.shape == (*leading_dims, n)
            assert 0 <= tau.min() <= tau.max() < 1
    step = agent.step(*data)
    assert step.action.shape == leading_dims
    assert step.agent_info.q.shape == (*leading_dims, 4)
    assert torch.equal(step.action, step.agent_info.q.argmax(-1))


def test_quantiles_belong_to_the_returned_fractions():
    agent = made(MlpIqnAgent())
    observation, prev_action, prev_reward = inputs(5)
    quantiles, tau = agent(observation, prev_action, prev_reward)
    assert torch.equal(quantiles, agent.model(observation, None, None, tau))


def test_fractions_are_drawn_anew():
    agent = made(MlpIqnAgent(n_tau=1000))
    data = inputs(2)
    tau = torch.cat([agent(*data)[1] for _ in range(5)])
    assert len({row[0].item() for row in tau}) == 10
    assert tau.mean().item() == pytest.approx(0.5, abs=0.02)
    assert tau.var().item() == pytest.approx(1 / 12, abs=0.01)


def test_acts_by_the_mean_of_as_many_fractions_as_it_was_told():
    data = inputs(1)
    agent = made(MlpIqnAgent(n_tau=5))
    torch.manual_seed(2)
    step = agent.step(*data)
    torch.manual_seed(2)
    quantiles, _ = agent(*data)
    assert torch.equal(step.agent_info.q, quantiles.mean(-1))

"""Agents of quantiles: what they return, how they act."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlpyt.agents.dqn.atari.atari_iqn_agent import AtariIqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariQrDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent, MlpQrDqnAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import leaves
from tests.agents.parts import inputs, made

LEADING_DIMS = [(), (1,), (5,), (3, 5)]
QUANTILE_AGENTS = [MlpQrDqnAgent, MlpIqnAgent]


@pytest.mark.parametrize("leading_dims", LEADING_DIMS)
def test_shapes_of_quantiles(leading_dims: tuple[int, ...]) -> None:
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
def test_shapes_at_random_fractions(leading_dims: tuple[int, ...]) -> None:
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


def test_quantiles_belong_to_the_returned_fractions() -> None:
    agent = made(MlpIqnAgent())
    observation, prev_action, prev_reward = inputs(5)
    quantiles, tau = agent(observation, prev_action, prev_reward)
    assert torch.equal(quantiles, agent.model(observation, None, None, tau))


def test_fractions_are_drawn_anew() -> None:
    agent = made(MlpIqnAgent(n_tau=1000))
    data = inputs(2)
    tau = torch.cat([agent(*data)[1] for _ in range(5)])
    assert len({row[0].item() for row in tau}) == 10
    assert tau.mean().item() == pytest.approx(0.5, abs=0.02)
    assert tau.var().item() == pytest.approx(1 / 12, abs=0.01)


def test_acts_by_the_mean_of_as_many_fractions_as_it_was_told() -> None:
    data = inputs(1)
    agent = made(MlpIqnAgent(n_tau=5))
    torch.manual_seed(2)
    step = agent.step(*data)
    torch.manual_seed(2)
    quantiles, _ = agent(*data)
    assert torch.equal(step.agent_info.q, quantiles.mean(-1))


@pytest.mark.parametrize("AgentCls", QUANTILE_AGENTS)
def test_target_follows_and_state_can_be_loaded(AgentCls: Any) -> None:
    agent = made(AgentCls())
    with torch.no_grad():
        for p in agent.model.parameters():
            p += 1
    state = {name: dict(part) for name, part in agent.state_dict().items()}
    assert any(not torch.equal(value, state["target"][n]) for n, value in state["model"].items())
    agent.update_target()
    other = made(AgentCls(initial_model_state_dict=agent.state_dict()))
    for name, value in other.state_dict()["target"].items():
        assert torch.equal(value, state["model"][name])


@pytest.mark.parametrize("AgentCls", [AtariQrDqnAgent, AtariIqnAgent])
def test_images(AgentCls: Any) -> None:
    agent = AgentCls(model_kwargs={"fc_sizes": 16})
    agent.initialize(EnvSpaces(IntBox(0, 256, (4, 52, 40), dtype="uint8"), IntBox(0, 6)))
    agent.sample_mode(0)
    image = torch.randint(256, (2, 4, 52, 40), dtype=torch.uint8)
    step = agent.step(image, torch.zeros(2, dtype=torch.int64), torch.zeros(2))
    assert step.action.shape == (2,)
    assert step.agent_info.q.shape == (2, 6)


@pytest.mark.gpu
@pytest.mark.parametrize("AgentCls", QUANTILE_AGENTS)
def test_on_a_gpu(AgentCls: Any) -> None:
    agent = made(AgentCls(model_kwargs={"noisy": True}), share_memory=True)
    agent.to_device(0)
    agent.sample_mode(0)
    data = inputs(3)
    step = agent.step(*data)
    assert step.action.device.type == step.agent_info.q.device.type == "cpu"
    for output in (agent(*data), agent.target(*data)):
        assert all(x.device == agent.device for x in leaves((output,)))

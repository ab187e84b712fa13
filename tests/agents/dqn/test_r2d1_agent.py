"""Recurrent Q-network agents, with an LSTM and with a model whose state can be counted."""

import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpR2d1Agent, MlpR2d1AlternatingAgent
from tests.agents.parts import inputs, made

SMALL = {"hidden_sizes": [8, 8], "lstm_size": 6}
AGENTS = [MlpR2d1Agent, MlpR2d1AlternatingAgent]


def make(AgentCls=MlpR2d1Agent, **kwargs):
    agent = made(AgentCls(model_kwargs=SMALL, **kwargs))
    agent.sample_mode(0)
    return agent


@pytest.mark.parametrize("lead", [(), (1,), (5,)])
def test_step(lead):
    agent = make()
    agent.distribution.set_epsilon(0.0)
    step = agent.step(*inputs(*lead))
    B = lead[0] if lead else 1
    assert step.action.shape == lead
    assert torch.equal(step.action, step.agent_info.q.argmax(-1))
    assert step.agent_info.q.shape == (*lead, 4)
    assert step.agent_info.prev_rnn_state.h.shape == (B, 1, 6)
    assert not step.agent_info.prev_rnn_state.h.any()
    assert agent.prev_rnn_state.h.shape == (1, B, 6)


def test_reset_of_one_does_not_change_what_was_recorded():
    agent = make()
    agent.step(*inputs(3))
    info = agent.step(*inputs(3)).agent_info
    copies = [part.clone() for part in info.prev_rnn_state]
    agent.reset_one(1)
    assert all(torch.equal(a, b) for a, b in zip(copies, info.prev_rnn_state))
    assert not agent.prev_rnn_state.h[:, 1].any()
    assert agent.prev_rnn_state.h[:, 0].any()


@pytest.mark.parametrize("AgentCls", AGENTS)
def test_training_sees_what_acting_saw(AgentCls):
    agent = make(AgentCls)
    observation, action, reward = inputs(6, 3)
    n_halves = 1 + agent.alternating
    qs = []
    for t in range(6):
        for _ in range(n_halves):  # Both halves see the same.
            q = agent.step(observation[t], action[t], reward[t]).agent_info.q
        qs.append(q)
    state = agent.prev_rnn_state
    q, after = agent(observation, action, reward, None)
    assert q.requires_grad
    assert torch.allclose(q, torch.stack(qs), atol=1e-6)
    assert torch.allclose(after.h, state.h, atol=1e-6)
    target_q, target_after = agent.target(observation, action, reward, None)
    # Without gradients torch may choose another kernel of the LSTM.
    assert torch.allclose(target_q, q, atol=1e-6)
    assert not target_q.requires_grad
    assert torch.allclose(target_after.c, after.c, atol=1e-6)


def test_state_given_for_training():
    agent = make()
    data = inputs(4, 3)
    q, state = agent(*data, None)
    first, between = agent(*(part[:2] for part in data), None)
    second, after = agent(*(part[2:] for part in data), between)
    assert torch.allclose(torch.cat((first, second)), q, atol=1e-6)
    assert torch.allclose(after.h, state.h, atol=1e-6)


class Gru(torch.nn.Module):
    """A model whose state is one tensor, which does not know ``reset``."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.gru = torch.nn.GRU(*observation_shape, output_size)

    def forward(self, observation, prev_action, prev_reward, state):
        is_sequence = observation.dim() == 3
        output, state = self.gru(observation if is_sequence else observation[None], state)
        return output if is_sequence else output[0], state


@pytest.mark.parametrize("AgentCls", AGENTS)
def test_state_may_be_one_tensor(AgentCls):
    # `state or zeros` failed for a tensor.
    agent = made(AgentCls(ModelCls=Gru))
    agent.sample_mode(0)
    for _ in range(4):
        info = agent.step(*inputs(3)).agent_info
    assert info.prev_rnn_state.shape == (3, 1, 4)
    assert info.prev_rnn_state.any()
    reset = torch.zeros(5, 3, dtype=torch.bool)
    reset[2, 1] = True
    data = inputs(5, 3)
    q, _ = agent(*data, torch.ones(1, 3, 4), reset=reset)
    alone, _ = agent(*(part[2:, 1:2] for part in data), None)
    assert torch.allclose(q[2:, 1:2], alone, atol=1e-6)

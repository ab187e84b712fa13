"""What all policy gradient agents keep: shapes, gradients, state, modes, errors."""

import copy
import pickle

import pytest
import torch

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.base import AgentInfo, AgentInfoRnn
from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.collections import is_namedarraytuple
from tests.agents.pg.parts import AGENTS, IMAGE, RECURRENT, inputs, make_agent

LEADING_DIMS = [(), (1,), (4,)]


def leaves(buffer):
    found = []
    map_buffer(found.append, buffer)
    return found


@pytest.mark.parametrize("lead", LEADING_DIMS)
@pytest.mark.parametrize("name", AGENTS)
def test_steps(name, lead):
    agent, env_spaces = make_agent(name), AGENTS[name][1]
    data = inputs(env_spaces, *lead)
    step = agent.step(*data)
    info = step.agent_info
    assert type(info) is (AgentInfoRnn if agent.recurrent else AgentInfo)
    assert info.value.shape == lead
    shapes = [part.shape for part in leaves(step.action)]
    assert shapes == [part.shape for part in leaves(data.prev_action)]
    assert not any(part.requires_grad for part in leaves(step))
    for part in leaves(info.dist_info):
        assert part.shape[: len(lead)] == lead
    single = step.action if not lead else step.action[0]
    assert env_spaces.action.contains(map_buffer(lambda x: x.numpy(), single))


@pytest.mark.parametrize("name", AGENTS)
def test_training_sees_what_acted(name):
    agent, data = make_agent(name), inputs(AGENTS[name][1], 5, 4)
    steps, values = [], []
    for t in range(5):
        values.append(agent.value(*data[t]))
        steps.append(agent.step(*data[t]))
        if agent.alternating:
            agent.toggle_alt()
    agent.train_mode(1)
    dist_info, value, *rnn_state = agent(*data, *([None] if agent.recurrent else []))
    assert len(rnn_state) == agent.recurrent
    assert value.requires_grad
    assert is_namedarraytuple(dist_info)
    for t, step in enumerate(steps):
        torch.testing.assert_close(value[t], step.agent_info.value)
        torch.testing.assert_close(values[t], step.agent_info.value)
        recorded = leaves(step.agent_info.dist_info)
        for trained, acted in zip(leaves(dist_info[t]), recorded, strict=True):
            torch.testing.assert_close(trained, acted)
    actions = [leaves(step.action) for step in steps]
    action = torch.stack([parts[0] for parts in actions])
    if len(actions[0]) == 1:
        logli = agent.distribution.log_likelihood(action, dist_info)
        assert logli.shape == (5, 4)


@pytest.mark.parametrize("name", AGENTS)
def test_everything_gets_a_gradient(name):
    agent, data = make_agent(name), inputs(AGENTS[name][1], 5, 4)
    dist_info, value, *_ = agent(*data, *([None] if agent.recurrent else []))
    logli = agent.distribution.log_likelihood(data.prev_action, dist_info)
    (logli.sum() + value.sum()).backward()
    for parameter_name, parameter in agent.model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert bool(torch.isfinite(parameter.grad).all()), parameter_name


@pytest.mark.parametrize("name", AGENTS)
def test_state_makes_an_equal_agent(name):
    agent = make_agent(name)
    state = copy.deepcopy(agent.state_dict())
    assert list(state) == list(agent.model.state_dict())
    AgentCls, env_spaces, small = AGENTS[name]
    other = AgentCls(model_kwargs=small, initial_model_state_dict=state)
    other.initialize(env_spaces)
    other.sample_mode(0)
    data = inputs(env_spaces, 3)
    torch.manual_seed(3)
    first = leaves(agent.step(*data))
    torch.manual_seed(3)
    second = leaves(other.step(*data))
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize("name", AGENTS)
def test_can_be_sent_to_another_process(name):
    agent, data = make_agent(name), inputs(AGENTS[name][1], 3)
    model, policy = pickle.loads(pickle.dumps((agent.model, agent.policy)))
    expected = agent.value(*data)
    agent.model, agent.policy, agent.distribution = model, policy, policy.distribution
    assert torch.equal(agent.value(*data), expected)
    agent.step(*data)


@pytest.mark.parametrize("name", RECURRENT)
class TestRecurrentState:
    def test_what_was_before_the_step_is_recorded(self, name):
        agent, data = make_agent(name), inputs(AGENTS[name][1], 4)
        first = agent.step(*data).agent_info.prev_rnn_state
        assert first.h.shape == (4, 1, 8), "[B,N,H], the batch first"
        assert first.h.abs().max() == 0, "zeros, where there was no state"
        if agent.alternating:
            agent.toggle_alt()
        state = agent.prev_rnn_state
        second = agent.step(*data).agent_info.prev_rnn_state
        assert torch.equal(second.h, state.h.transpose(0, 1))
        assert second.h.abs().max() > 0

    def test_value_does_not_advance(self, name):
        agent, data = make_agent(name), inputs(AGENTS[name][1], 4)
        agent.value(*data)
        assert agent.prev_rnn_state is None
        agent.step(*data)
        if agent.alternating:
            agent.toggle_alt()
        before = copy.deepcopy(agent.prev_rnn_state)
        agent.value(*data)
        assert torch.equal(agent.prev_rnn_state.h, before.h)

    def test_training_starts_from_a_recorded_state(self, name):
        agent, data = make_agent(name), inputs(AGENTS[name][1], 4, 3)
        _, value, state = agent(*data, None)
        _, head, middle = agent(*data[:2], None)
        _, tail, end = agent(*data[2:], middle)
        torch.testing.assert_close(torch.cat([head, tail]), value)
        torch.testing.assert_close(end.h, state.h)

    def test_training_past_the_end_of_an_episode(self, name):
        agent, data = make_agent(name), inputs(AGENTS[name][1], 5, 3)
        reset = torch.zeros(5, 3, dtype=torch.bool)
        reset[2, 1] = True
        first = agent(*data[:1], None)[-1]
        dist_info, value, state = agent(*data[1:], first, reset=reset[1:])
        _, without, _ = agent(*data[1:], first)
        alone_info, alone, alone_state = agent(*data[2:, 1:2], None)
        torch.testing.assert_close(value[:, 0], without[:, 0])
        torch.testing.assert_close(value[1:, 1:2], alone)
        assert not torch.allclose(value[1:, 1:2], without[1:, 1:2])
        torch.testing.assert_close(state.h[:, 1:2], alone_state.h)
        for found, expected in zip(leaves(dist_info[1:, 1:2]), leaves(alone_info), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", AGENTS)
def test_evaluation_may_be_greedy(name):
    agent, data = make_agent(name, greedy_eval=True), inputs(AGENTS[name][1], 200)
    drawn = leaves(agent.step(*data).action)
    agent.eval_mode(1)
    greedy = []
    for _ in range(2):
        agent.reset()
        greedy.append(leaves(agent.step(*data).action))
    for once, again, random in zip(*greedy, drawn, strict=True):
        assert torch.equal(once, again)
        assert not torch.equal(once, random)


def test_models_see_one_hot_actions():
    seen = []

    class Model(torch.nn.Module):
        def __init__(self, image_shape, output_size):
            super().__init__()
            self.pi = torch.nn.Linear(image_shape[2], output_size)

        def forward(self, image, prev_action, prev_reward):
            seen.append(prev_action)
            pi = self.pi(image[..., 0, 0, :].float() / 255).softmax(-1)
            return pi, pi.sum(-1)

    agent = AtariFfAgent(ModelCls=Model)
    agent.initialize(IMAGE)
    agent.step(inputs(IMAGE, 2).observation, torch.tensor([2, 0]), torch.zeros(2))
    assert seen[0].tolist() == [[0, 0, 1], [1, 0, 0]]

import io

import pytest
import torch

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from tests.agents.parts import CountingAgent, made


class Recurrent(RecurrentAgentMixin, CountingAgent):
    """One state for all environments."""


class Alternating(AlternatingRecurrentAgentMixin, CountingAgent):
    """A state for each half of the environments."""


def sampling(agent):
    made(agent).sample_mode(0)
    return agent


def test_state_goes_on_and_is_forgotten():
    agent = sampling(Recurrent())
    assert agent.prev_rnn_state is None
    assert [agent.count(2), agent.count(2)] == [[1, 1], [2, 2]]
    agent.reset_one(1)
    assert agent.count(2) == [3, 1]
    agent.reset()
    assert agent.prev_rnn_state is None
    agent.reset_one(0)  # Nothing to forget.
    assert agent.count(2) == [1, 1]


@pytest.mark.parametrize("Cls", [Recurrent, Alternating])
def test_a_new_run_starts_from_nothing(Cls):
    agent = sampling(Cls())
    agent.count(2)
    agent.train_mode(1)
    made(agent).reset()
    agent.sample_mode(0)
    assert agent.prev_rnn_state is None


def test_bare_tensor_states():
    agent = sampling(Recurrent())
    agent.advance_rnn_state(torch.ones(1, 2, 3))
    agent.reset_one(0)
    assert agent.prev_rnn_state[0].tolist() == [[0, 0, 0], [1, 1, 1]]


def test_state_that_is_put_aside_is_where_programs_look_for_it():
    agent = sampling(Recurrent())
    agent.count(2)
    state = agent._prev_rnn_state
    agent.train_mode(1)
    assert agent._sample_rnn_state is state


@pytest.mark.parametrize("mode", ["train_mode", "eval_mode"])
def test_other_modes_start_from_nothing_and_sampling_goes_on(mode):
    agent = sampling(Recurrent())
    agent.count(2)
    getattr(agent, mode)(1)
    assert agent.count(3) == [1, 1, 1]
    getattr(agent, mode)(1)
    assert agent.prev_rnn_state is None
    agent.train_mode(1)
    agent.sample_mode(2)
    assert agent.count(2) == [2, 2]
    agent.sample_mode(3)
    assert agent.count(2) == [3, 3], "sampling after sampling changes nothing"


def test_halves_take_turns():
    agent = sampling(Alternating())
    assert [agent.count(2) for _ in range(4)] == [[1, 1], [1, 1], [2, 2], [2, 2]]
    assert agent.get_alt() == 0
    agent.toggle_alt()
    assert agent.get_alt() == 1


def test_environments_of_each_half_are_reset_one_by_one():
    # There was no reset_one: states went on over the ends of episodes.
    agent = sampling(Alternating())
    agent.count(2)
    agent.count(2)
    agent.reset_one(0)  # Of the first half, which is stepped next.
    assert agent.count(2) == [1, 2]
    agent.reset_one(1)
    assert agent.count(2) == [2, 1]
    assert [agent.count(2), agent.count(2)] == [[2, 3], [3, 2]]


def test_halves_come_back_after_evaluation():
    agent = sampling(Alternating())
    for _ in range(3):
        agent.count(2)
    agent.eval_mode(1)
    assert agent.count(5) == [1] * 5
    agent.reset()
    agent.sample_mode(2)
    assert agent.get_alt() == 0
    assert [agent.count(2), agent.count(2)] == [[3, 3], [2, 2]]


@pytest.mark.parametrize("AgentCls", [Recurrent, Alternating])
@pytest.mark.parametrize("saved_in", ["sample_mode", "train_mode"])
@pytest.mark.parametrize("loaded_in", ["sample_mode", "train_mode"])
def test_sampling_goes_on_in_another_run(AgentCls, saved_in, loaded_in):
    agent = sampling(AgentCls())
    for _ in range(4):
        agent.count(2)
    agent.reset_one(0)
    getattr(agent, saved_in)(1)
    file = io.BytesIO()
    torch.save(agent.sample_state_dict(), file)
    agent.sample_mode(2)
    expected = [agent.count(2) for _ in range(3)]

    other = made(AgentCls())
    getattr(other, loaded_in)(1)
    file.seek(0)
    other.load_sample_state_dict(torch.load(file, weights_only=True))
    other.sample_mode(2)
    assert [other.count(2) for _ in range(3)] == expected


def test_states_before_the_first_step_are_nothing():
    agent = sampling(Recurrent())
    assert agent.sample_state_dict() == {"rnn_states": None}
    other = sampling(Recurrent())
    other.count(2)
    other.load_sample_state_dict(agent.sample_state_dict())
    assert other.prev_rnn_state is None

import pytest
import torch

from tests.agents.parts import VectorDqnAgent, made


def agent_with(itr_min, itr_max, **kwargs):
    return made(VectorDqnAgent(eps_itr_min=itr_min, eps_itr_max=itr_max, **kwargs))


def epsilon_at(agent, itr):
    agent.sample_mode(itr)
    return float(agent.distribution.epsilon)


def test_anneals_linearly():
    agent = agent_with(10, 110, eps_init=1, eps_final=0.1)
    found = [epsilon_at(agent, itr) for itr in (0, 10, 60, 110, 1000)]
    assert found == pytest.approx([1, 1, 0.55, 0.1, 0.1])


def test_vector_of_environments():
    agent = made(VectorDqnAgent(eps_final=0.1, eps_final_min=0.01))
    agent.collector_initialize(global_B=4, env_ranks=range(4))
    agent.set_epsilon_itr_min_max(10, 100)
    agent.sample_mode(55)
    assert agent.distribution.epsilon.tolist() == pytest.approx(
        [0.5050, 0.5108, 0.5232, 0.5500], abs=1e-4
    )
    agent.sample_mode(100)
    assert agent.distribution.epsilon.tolist() == pytest.approx(
        [0.01, 0.0215, 0.0464, 0.1], abs=1e-4
    )
    agent.eval_mode(100)
    assert agent.distribution.epsilon == 0.001


def test_vector_of_the_environments_in_this_process():
    agent = made(VectorDqnAgent(eps_final=0.1, eps_final_min=0.01), global_B=4, env_ranks=[1, 3])
    agent.set_epsilon_itr_min_max(0, 1)
    agent.sample_mode(1)
    assert agent.distribution.epsilon.tolist() == pytest.approx([0.0215, 0.1], abs=1e-4)


def test_neighbours_share_their_epsilon_in_alternating_sampling():
    class Alternating(VectorDqnAgent):
        alternating = True

    agent = made(Alternating(eps_final=0.1, eps_final_min=0.01), global_B=8, env_ranks=range(8))
    assert agent.eps_final.tolist() == pytest.approx([0.01, 0.0215, 0.0464, 0.1], abs=1e-4)
    agent.make_vec_eps(8, range(4, 8))  # Of the second of two processes.
    assert agent.eps_final.tolist() == pytest.approx([0.0464, 0.1], abs=1e-4)


@pytest.mark.parametrize("final_min", [None, 0.01])
def test_one_final_epsilon_stays_a_number(final_min):
    agent = made(VectorDqnAgent(eps_final=0.01, eps_final_min=final_min))
    agent.make_vec_eps(4, range(4))
    assert (agent.eps_init, agent.eps_final, agent.eps_sample) == (1, 0.01, 1)


def test_is_final_where_learning_starts_later_than_annealing_ends():
    # With the maximum before the minimum, epsilon stayed at its initial value for ever.
    agent = agent_with(100, 50, eps_final=0.1)
    assert [epsilon_at(agent, itr) for itr in (0, 49, 50, 75, 200)] == [1, 1, 0.1, 0.1, 0.1]


def test_no_interval_is_a_step():
    # This used to divide by zero.
    agent = agent_with(50, 50, eps_final=0.1)
    assert [epsilon_at(agent, itr) for itr in (49, 50)] == [1, 0.1]


@pytest.mark.parametrize("itr_max", [0, 1, 5, 9])
def test_short_intervals_are_logged(itr_max, logged):
    # Fewer than ten iterations gave a modulo by zero.
    agent = agent_with(0, itr_max)
    for itr in range(itr_max + 2):
        agent.sample_mode(itr)
    found = [line.split(",")[0] for line in logged if "sample eps" in line]
    assert found == [f"Agent at itr {itr}" for itr in range(itr_max + 1)]


def test_is_logged_ten_times_and_by_one_process(logged):
    first, second = agent_with(0, 100), agent_with(0, 100)
    first.collector_initialize(4, [0, 1])
    second.collector_initialize(4, [2, 3])
    for agent in (first, second):
        for itr in range(200):
            agent.sample_mode(itr)
    assert len(logged) == 11
    assert all("sample eps" in line for line in logged)


def test_is_logged_once_in_every_evaluation(logged):
    agent = agent_with(1, 3)
    for itr in (7, 20):
        for _ in range(2):  # By the runner and by the collector.
            agent.eval_mode(itr)
        agent.sample_mode(itr)
    assert [line for line in logged if "eval eps" in line] == [
        "Agent at itr 7, eval eps 0.001",
        "Agent at itr 20, eval eps 0.001",
    ]


def test_evaluation():
    agent = made(VectorDqnAgent(eps_eval=0.05))
    agent.eval_mode(0)
    assert agent.distribution.epsilon == 1
    agent.eval_mode(7)
    assert agent.distribution.epsilon == 0.05
    agent.set_sample_epsilon_greedy(torch.tensor([0.0, 1.0]))  # By hand, as programs do.
    assert agent.distribution.epsilon.tolist() == [0, 1]

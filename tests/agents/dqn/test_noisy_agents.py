"""Agents whose networks explore: when noise is drawn, and what becomes of epsilon."""

import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent, MlpIqnAgent, MlpQrDqnAgent
from rlpyt.models.noisy import NoisyLinear
from tests.agents.parts import inputs, made

NOISY = {"noisy": True, "dueling": True}
AGENTS = [MlpDqnAgent, MlpCatDqnAgent, MlpQrDqnAgent]


def noisy(AgentCls=MlpDqnAgent, **kwargs):
    return made(AgentCls(model_kwargs=NOISY, **kwargs))


def outputs(agent, data):
    output = agent.step(*data).agent_info.get(0)
    return output


@pytest.mark.parametrize("AgentCls", AGENTS)
def test_noise_is_drawn_once_per_batch_and_removed_in_evaluation(AgentCls):
    agent, data = noisy(AgentCls), inputs(3)
    agent.sample_mode(0)
    first = outputs(agent, data)
    assert torch.equal(outputs(agent, data), first), "the same within a batch of the sampler"
    agent.sample_mode(1)
    assert not torch.allclose(outputs(agent, data), first)
    agent.eval_mode(1)
    mean = outputs(agent, data)
    agent.eval_mode(2)
    assert torch.equal(outputs(agent, data), mean)
    plain = made(AgentCls(model_kwargs={"dueling": True}))
    plain.model.load_state_dict(agent.model.state_dict(), strict=False)
    plain.eval_mode(1)
    assert torch.allclose(outputs(plain, data), mean)


def test_noise_of_an_agent_with_random_fractions():
    agent, data = noisy(MlpIqnAgent), inputs(3)
    q = []
    sample, evaluate = agent.sample_mode, agent.eval_mode
    for mode, itr in ((sample, 1), (sample, 2), (evaluate, 2), (evaluate, 3)):
        mode(itr)
        torch.manual_seed(0)  # The same fractions.
        q.append(outputs(agent, data))
    assert not torch.allclose(q[0], q[1])
    assert not torch.allclose(q[1], q[2])
    assert torch.equal(q[2], q[3])


@pytest.mark.parametrize("AgentCls", AGENTS)
def test_noise_is_a_function_of_seed_and_iteration(AgentCls):
    agent, resumed, data = noisy(AgentCls), noisy(AgentCls), inputs(3)
    resumed.load_state_dict(agent.state_dict())
    resumed.load_sample_state_dict(agent.sample_state_dict())
    agent.sample_mode(5)
    for each in (agent, resumed):
        each.sample_mode(7)
        torch.rand(1)
        each.sample_mode(7)  # Runner and collector both call it.
    expected = outputs(agent, data)
    assert torch.equal(outputs(resumed, data), expected)
    other = noisy(AgentCls)
    other.load_state_dict(agent.state_dict())
    other.sample_mode(7)
    assert not torch.allclose(outputs(other, data), expected), "another run, other noise"


@pytest.mark.parametrize("AgentCls", AGENTS)
def test_every_call_in_training_has_its_own_noise(AgentCls):
    agent, data = noisy(AgentCls), inputs(3)
    agent.sample_mode(0)
    agent.train_mode(0)
    results = [agent(*data), agent(*data), agent.target(*data), agent.target(*data)]
    for i, result in enumerate(results):
        assert all(not torch.allclose(result, other) for other in results[:i])


def epsilons(agent, eps_itr_max=10):
    """Before annealing, after it, and in evaluation."""
    agent.set_epsilon_itr_min_max(0, eps_itr_max)
    found = []
    for mode, itr in ((agent.sample_mode, 0), (agent.sample_mode, 20), (agent.eval_mode, 20)):
        mode(itr)
        found.append(agent.distribution.epsilon)
    return tuple(found)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (0, 0, 0)),
        ({"eps_final": 0.1}, (0, 0.1, 0)),
        ({"eps_init": 0.5}, (0.5, 0, 0)),
        ({"eps_eval": 0.05}, (0, 0, 0.05)),
        ({"eps_init": 0.0, "eps_final": 0.0, "eps_eval": 0.0}, (0, 0, 0)),
    ],
)
@pytest.mark.parametrize("AgentCls", [*AGENTS, MlpIqnAgent])
def test_epsilons_left_at_their_defaults_are_0(AgentCls, settings, expected):
    agent = noisy(AgentCls, **settings)
    assert epsilons(agent) == expected
    assert agent._mode == "eval"


def test_without_noise_the_defaults_stay():
    assert epsilons(made(MlpDqnAgent())) == (1, 0.01, 0.001)


def test_the_defaults_stay_beside_noise_where_that_is_asked_for():
    agent = noisy(eps_with_noise=True)
    assert (agent.eps_init, agent.eps_final, agent.eps_eval) == (1, 0.01, 0.001)
    agent.eval_mode(1)
    assert agent.distribution._epsilon == 0.001


def test_it_is_said_in_the_log(capsys):
    noisy(eps_final=0.1)
    assert "explores by the noise of its network: epsilon 0.0 to 0.1" in capsys.readouterr().out
    made(MlpDqnAgent())
    assert "noise" not in capsys.readouterr().out


class OwnModel(torch.nn.Module):
    """A user's network, which takes no option."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.linear = NoisyLinear(observation_shape[0], output_size)

    def forward(self, observation, prev_action, prev_reward):
        return self.linear(observation)


def test_noisy_layers_of_a_users_network_are_found():
    agent, data = made(MlpDqnAgent(ModelCls=OwnModel)), inputs(3)
    assert epsilons(agent) == (0, 0, 0)
    agent.sample_mode(0)
    first = outputs(agent, data)
    agent.sample_mode(1)
    assert not torch.allclose(outputs(agent, data), first)


def test_processes_that_share_parameters_draw_their_own_noise():
    agent = made(MlpDqnAgent(model_kwargs=NOISY), share_memory=True)
    layer = next(m for m in agent.model.modules() if isinstance(m, NoisyLinear))
    agent.sample_mode(0)
    assert layer._noise is not None
    assert layer.weight_sigma.is_shared()
    assert not any(noise.is_shared() for noise in layer._noise)


def test_published_parameters_leave_the_noise():
    agent, data = made(MlpDqnAgent(model_kwargs=NOISY), share_memory=True), inputs(3)
    agent.async_cpu()
    agent.sample_mode(0)
    before = outputs(agent, data)
    with torch.no_grad():
        for p in agent.shared_model.parameters():
            p.zero_()
    agent._send_count.value += 1
    agent.recv_shared_memory()
    assert not torch.allclose(outputs(agent, data), before)
    assert torch.equal(outputs(agent, data), torch.zeros(3, 4)), "of zero weights, noise is zero"


def test_one_epsilon_per_environment_is_kept():
    agent = noisy(eps_final_min=0.001, eps_init=0.3)
    agent.collector_initialize(global_B=3, env_ranks=[0, 1, 2])
    assert agent.eps_final.tolist() == pytest.approx([0.001, 10**-2.5, 0.01])
    assert agent.eps_init.tolist() == pytest.approx([0.3] * 3)

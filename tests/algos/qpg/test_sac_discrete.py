"""Discrete SAC: the target entropy, exploration and evaluation, networks."""

import math

import pytest
import torch

from rlpyt.agents.qpg.sac_discrete_agent import AtariDiscreteSacAgent, DiscreteSacAgent
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.core.masks import mask_values
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.replays.frame import FrameBufferMixin
from tests.algos.pg.parts import Setup

SETTINGS = {"batch_size": 8, "min_steps_learn": 16, "replay_size": 128}
CARTPOLE = {"id": "CartPole-v1"}


def cartpole(AgentCls=DiscreteSacAgent, EnvCls=gym.make, env_kwargs=CARTPOLE, **kw):
    algo = DiscreteSAC(**{**SETTINGS, "replay_ratio": 2, **kw})
    return Setup(algo, AgentCls(model_kwargs={"hidden_sizes": [8]}), EnvCls, env_kwargs)


# --- Losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.98 * math.log(n) for n in (3, 1, 4)]),
        ({"target_entropy_fraction": 0.5}, [0.5 * math.log(n) for n in (3, 1, 4)]),
        ({"target_entropy": 0.3}, [0.3] * 3),
    ],
)
def test_target_entropy_is_a_part_of_that_of_the_allowed_actions(settings, expected):
    algo = cartpole(**settings).algo
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]])  # The last is of an end.
    logits = mask_values(torch.randn(3, 4), mask)
    found = torch.as_tensor(algo.target_entropies(torch.log_softmax(logits, dim=-1)))
    assert found.expand(3).tolist() == pytest.approx(expected)


def test_losses_are_expectations_and_reach_one_network_each():
    run = cartpole()
    run.train(0, 8)
    agent, algo = run.agent, run.algo
    samples = algo.sample_from_replay()
    losses, (q1, _, entropy) = algo.loss(samples)
    policy = torch.distributions.Categorical(logits=agent.log_pi(*samples.agent_inputs))
    torch.testing.assert_close(entropy, policy.entropy().detach())
    assert torch.equal(q1, agent.q(*samples.agent_inputs)[0][range(8), samples.action].detach())
    networks = {"q1": agent.q1_model, "q2": agent.q2_model, "pi": agent.model}
    for name in networks:
        everything = [p for network in networks.values() for p in network.parameters()]
        gradients = torch.autograd.grad(
            getattr(losses, name), everything, allow_unused=True, retain_graph=True
        )
        own = {id(p) for p in networks[name].parameters()}
        assert {id(p) for p, g in zip(everything, gradients) if g is not None} == own


# --- Acting ---------------------------------------------------------------------------------------


def test_uniform_actions_at_first_then_the_policy_then_its_mode():
    run = cartpole()
    agent = run.agent
    with torch.no_grad():
        agent.model.head.model[-1].bias.copy_(torch.tensor([0.0, 2.0]))
    inputs = (torch.zeros(400, 4), torch.zeros(400, dtype=torch.long), torch.zeros(400))
    agent.sample_mode(0)
    step = agent.step(*inputs)
    assert (step.agent_info.dist_info.prob == 0.5).all()
    assert 120 < step.action.sum() < 280
    agent.sample_mode(agent.min_itr_learn)
    step = agent.step(*inputs)
    prob = step.agent_info.dist_info.prob
    assert torch.equal(prob, agent.log_pi(*inputs).exp().detach())
    assert (prob[:, 1] > 0.6).all()
    assert 0 < step.action.sum() < 400
    agent.eval_mode(1)
    assert agent.step(*inputs).action.all()
    assert agent.step(*(x[0] for x in inputs)).action.shape == ()


def test_images():
    conv = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0], "fc_sizes": 16}
    agent = AtariDiscreteSacAgent(model_kwargs=conv)
    algo = DiscreteSAC(**SETTINGS, replay_ratio=2)
    run = Setup(algo, agent, Catch, {"img_shape": (20, 10), "num_img_obs": 3})
    before = [p.clone() for p in run.agent.parameters()]
    run.train(0, 8)
    assert not any(map(torch.equal, before, run.agent.parameters()))
    assert isinstance(run.algo.replay_buffer, FrameBufferMixin)  # A quarter of the memory.


def test_networks_of_policy_and_critics_may_differ():
    agent = DiscreteSacAgent(model_kwargs={"hidden_sizes": [8]}, q_model_kwargs={"dueling": True})
    run = Setup(DiscreteSAC(**SETTINGS), agent, gym.make, CARTPOLE)
    assert [getattr(run.agent, name).dueling for name in agent.network_names] == [False, True, True]

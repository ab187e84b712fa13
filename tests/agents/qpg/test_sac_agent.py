"""Soft actor-critic agents: networks, bounds of actions, modes, state."""

import multiprocessing as mp

import numpy as np
import pytest
import torch

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from tests.agents.qpg.sac_parts import (
    AGENTS,
    BOX,
    CROSSQ,
    HIGH,
    LOW,
    OBSERVATION,
    UNIT,
    inputs,
    make_agent,
)

every_agent = pytest.mark.parametrize("AgentCls", AGENTS, ids=["sac", "sac_v"])


def parameters_of(agent):
    return [p for state in agent.state_dict().values() for p in state.values()]


# --- Networks and state ---------------------------------------------------------------------------


def test_networks_behind_an_encoder_of_ones_own():
    # The library put its encoder of images in front of the features too.
    class OfFeatures(sac_agent.SacAgent):
        def make_env_to_model_kwargs(self, env_spaces):
            return {"observation_shape": (50,), "action_size": env_spaces.action.shape[0]}

    image = IntBox(0, 256, shape=(3, 84, 84), dtype="uint8")
    agent = make_agent(OfFeatures, EnvSpaces(observation=image, action=UNIT.action))
    features, action, reward = torch.zeros(5, 50), torch.zeros(5, 3), torch.zeros(5)
    assert agent.model(features, action, reward)[0].shape == (5, 3)
    assert agent.q1_model(features, action, reward, action).shape == (5,)


def test_models():
    # Of the agent without state values this raised an error.
    agent = make_agent()
    assert agent.models == (agent.model, agent.q1_model, agent.q2_model, None)
    agent = make_agent(sac_v_agent.SacAgent)
    assert agent.models.v is agent.v_model


def test_statistics_are_published_with_the_parameters():
    agent = sac_agent.SacAgent(**CROSSQ)
    agent.initialize(UNIT, share_memory=True)
    agent.async_cpu(share_memory=False)
    agent.train_mode(0)
    agent.pi(*inputs())
    agent.q(*inputs(), torch.randn(5, 3))
    agent.send_shared_memory()
    published = agent.shared_model.state_dict()
    assert published["mlp.model.0.n_batches"] == 1
    assert published["mlp.model.0.running_mean"].abs().min() > 0
    other = make_agent(**CROSSQ)
    other.load_state_dict(agent.state_dict())
    assert list(agent.state_dict()) == ["model", "q1_model", "q2_model"]
    assert all(map(torch.equal, parameters_of(agent), parameters_of(other)))


# --- Bounds of actions ----------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("lead", [(), (6,)])
def test_step_in_bounds_of_each_dimension(AgentCls, lead):
    # Every action was in [-1, 1], whatever the space.
    agent = make_agent(AgentCls, BOX, pretrain_std=20.0)
    agent.give_min_itr_learn(10)
    agent.sample_mode(0)
    draws = []
    for _ in range(200):
        step = agent.step(torch.randn(*lead, 4), torch.zeros(*lead, 3), torch.zeros(lead))
        assert step.action.shape == step.agent_info.dist_info.mean.shape == (*lead, 3)
        assert BOX.action.contains(step.action.numpy().reshape(-1, 3)[0])
        draws.append(step.action.reshape(-1, 3))
    every = torch.cat(draws).double().numpy()
    np.testing.assert_allclose(every.min(0), LOW, atol=1e-3)
    np.testing.assert_allclose(every.max(0), HIGH, atol=1e-3)


def reference_log_likelihood(dist_info, action, bounds):
    """By torch's own transformations, in double precision, from the action itself."""
    transforms = [
        torch.distributions.TanhTransform(),
        torch.distributions.AffineTransform(
            torch.tensor(bounds.mid).double(), torch.tensor(bounds.half_range).double()
        ),
    ]
    base = torch.distributions.Normal(dist_info.mean.double(), dist_info.log_std.double().exp())
    return torch.distributions.TransformedDistribution(base, transforms).log_prob(action).sum(-1)


@pytest.mark.parametrize("spaces", [UNIT, BOX], ids=["unit", "box"])
def test_log_likelihood_is_that_of_the_scaled_action(spaces):
    agent = make_agent(spaces=spaces)
    action, log_pi, dist_info = agent.pi(*inputs(50))
    expected = reference_log_likelihood(dist_info, action.detach().double(), agent.action_bounds)
    torch.testing.assert_close(log_pi.double(), expected, atol=1e-3, rtol=1e-3)


def test_action_squash_replaces_the_bounds():
    wide = EnvSpaces(observation=OBSERVATION, action=FloatBox(-9, 9, (3,)))
    mean = torch.full((1, 3), 30.0)  # tanh of it is 1.
    for squash, expected in ((1.0, [9.0] * 3), (2, [2.0] * 3), ([1, 2, 0.5], [1.0, 2.0, 0.5])):
        agent = make_agent(spaces=wide, action_squash=squash)
        agent.eval_mode(1)
        agent.model = lambda *_: (mean, torch.zeros(1, 3))
        assert agent.step(*inputs(1)).action[0].tolist() == expected


@every_agent
def test_unbounded_space(AgentCls, capsys):
    # It was refused, although 0.1.2 acted in [-1, 1] whatever the bounds.
    space = FloatBox(-np.inf, np.inf, (3,))
    agent = make_agent(AgentCls, EnvSpaces(observation=OBSERVATION, action=space))
    assert "within [-1, 1] where the action space has no bounds" in capsys.readouterr().out
    assert agent.action_bounds.is_unit
    agent = make_agent(AgentCls, agent.env_spaces, action_squash=4)
    assert agent.action_bounds.high.tolist() == [4, 4, 4]


def test_neither_squash_nor_pretrain_std():
    agent = make_agent(action_squash=None, pretrain_std=None)
    agent.give_min_itr_learn(1)
    agent.sample_mode(0)
    agent.model = lambda *_: (torch.full((1, 3), 30.0), torch.full((1, 3), -20.0))
    torch.testing.assert_close(agent.step(*inputs(1)).action, torch.full((1, 3), 30.0))


# --- Modes ----------------------------------------------------------------------------------------


@every_agent
def test_standard_deviation_by_mode(AgentCls):
    agent = make_agent(AgentCls)
    agent.give_min_itr_learn(7)
    agent.sample_mode(6)
    assert agent.distribution.std == 0.75
    agent.sample_mode(7)
    assert agent.distribution.std is None
    agent.eval_mode(7)
    assert agent.distribution.std == 0
    agent.train_mode(7)
    assert agent.distribution.std is None
    assert all(m.training for m in agent.models if m is not None)
    agent.eval_mode(7)
    assert not any(m.training for m in agent.models if m is not None)


def test_training_has_the_std_of_the_policy_in_every_mode():
    # After an evaluation it was 0, and log-likelihoods were infinite.
    agent, batch = make_agent(), inputs(64)
    for mode in (agent.eval_mode, agent.sample_mode, agent.train_mode):
        agent.give_min_itr_learn(5)
        mode(0)
        acting_std = agent.distribution.std
        torch.manual_seed(3)
        action, log_pi, _ = agent.pi(*batch)
        assert agent.distribution.std is acting_std or agent.distribution.std == acting_std
        if mode == agent.eval_mode:
            expected = action, log_pi
            assert torch.isfinite(log_pi).all()
            assert log_pi.requires_grad
        assert torch.equal(action, expected[0])
        assert torch.equal(log_pi, expected[1])


def test_workers_that_run_already_learn_min_itr_learn():
    # They kept 0, and never explored with pretrain_std.
    agent = make_agent()
    context = mp.get_context("fork")
    given, queue = context.Event(), context.SimpleQueue()

    def work():
        given.wait(10)
        agent.sample_mode(4)
        queue.put(agent.distribution.std is None)

    worker = context.Process(target=work)
    worker.start()
    agent.give_min_itr_learn(5)
    given.set()
    assert queue.get() is False
    worker.join()


def test_gradients_without_reparameterization():
    """grad log pi(a) at a constant action: its mean over actions is 0."""
    agent = make_agent(sac_v_agent.SacAgent)
    action, log_pi, _ = agent.pi(*inputs(20_000), reparameterize=False)
    assert not action.requires_grad
    log_pi.mean().backward()
    score = torch.cat([p.grad.reshape(-1) for p in agent.pi_parameters()])
    assert score.abs().max() < 0.05
    agent.model.zero_grad()
    _, log_pi, _ = agent.pi(*inputs(20_000))
    log_pi.mean().backward()
    way_through = torch.cat([p.grad.reshape(-1) for p in agent.pi_parameters()])
    assert way_through.abs().max() > 0.1


# --- Several processes ----------------------------------------------------------------------------


@pytest.mark.usefixtures("process_group")
@every_agent
def test_data_parallel(AgentCls):
    # The method of the base was named, but not called.
    agent, batch = make_agent(AgentCls), inputs()
    agent.data_parallel()
    for model in agent.models:
        ddp = torch.nn.parallel.DistributedDataParallel
        assert model is None or isinstance(model, ddp)
    for _ in range(2):  # A forward pass without gradients must leave nothing to be awaited.
        agent.q(*batch, torch.rand(5, 3))[0].sum().backward()
        for p in agent.q1_parameters():
            p.requires_grad_(False)
        action, log_pi, _ = agent.pi(*batch)
        q1 = agent.q(*batch, action)[0]
        (log_pi - q1).sum().backward()
        for p in agent.q1_parameters():
            p.requires_grad_(True)
    agent.load_state_dict(agent.state_dict())
    agent.update_target(0.5)

import copy
from functools import partial

import numpy as np
import pytest
import torch

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.models.autocast import Autocast
from rlpyt.models.qpg.mlp import MuMlpModel
from tests.agents.qpg.ddpg_parts import AGENTS, HIGH, LOW, NET, SPACES, UNIT_SPACES, inputs, made

HALF_RANGE = torch.tensor([1.0, 2.0, 5.0])
MID = torch.tensor([0.0, 0.0, 5.0])


def equal(first, second):
    first, second = first.state_dict(), second.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def reseeded(agent):
    """Another agent of the class, with other parameters."""
    torch.manual_seed(1234)
    return made(type(agent))


class TestNetworks:
    def test_initial_states_of_each_network(self):
        source = made(Td3Agent)
        state = copy.deepcopy(source.state_dict())
        agent = made(
            Td3Agent,
            initial_model_state_dict=state["model"],
            initial_q_model_state_dict=state["q_model"],
            initial_q2_model_state_dict=state["q2_model"],
        )
        for name in agent.network_names:
            assert equal(getattr(agent, name), getattr(source, name))
            # The copies of what was loaded kept the parameters from before.
            assert equal(getattr(agent, f"target_{name}"), getattr(source, name))

    def test_initial_state_of_all_networks(self):
        source = made()
        source.target_model = reseeded(source).model
        state = copy.deepcopy(source.state_dict())
        agent = made(initial_model_state_dict=state)
        assert equal(agent.target_model, source.target_model)
        assert equal(agent.q_model, source.q_model)
        with pytest.raises(ValueError, match=r"\['initial_q_model_state_dict'\] the state of one"):
            made(initial_model_state_dict=state, initial_q_model_state_dict=state["q_model"])
        with pytest.raises(ValueError, match="initial_q_model_state_dict does not fit DdpgAgent"):
            made(initial_q_model_state_dict=state["model"])


class TestForward:
    def test_target_noise_per_dimension(self):
        # Noise and clip were the same in every dimension, and only [-h, h] was kept, with the h
        # of the first.
        agent = made(Td3Agent, target_noise_std=0.2, target_noise_clip=0.3)
        seen = []
        agent.target_q_model = agent.target_q2_model = lambda o, a, r, u: seen.append(u) or u[:, 0]
        x = tuple(part.expand(20000, *part.shape) for part in inputs())
        agent.target_q_at_mu(*x)
        assert torch.equal(seen[0], seen[1])  # Both critics judge the same action.
        noise = (seen[0] - agent.target_model(*x)) / HALF_RANGE
        torch.testing.assert_close(noise.abs().amax(0), torch.full((3,), 0.3))
        # Of a standard deviation of 0.2 clipped at 1.5 of them.
        torch.testing.assert_close(noise.std(0), torch.full((3,), 0.2 * 0.8824), rtol=0.05, atol=0)
        assert (seen[0] >= torch.tensor(LOW)).all()
        assert (seen[0] <= torch.tensor(HIGH)).all()

    def test_set_target_noise(self):
        agent = made(Td3Agent)
        agent.set_target_noise(0.0)
        x = inputs(4)
        expected = agent.target_q_model(*x, agent.target_model(*x))
        torch.testing.assert_close(agent.target_q_at_mu(*x)[0], expected)
        agent.set_target_noise(0.4, noise_clip=0.1)
        torch.testing.assert_close(agent.target_distribution.std, 0.4 * HALF_RANGE)
        torch.testing.assert_close(agent.target_distribution.noise_clip, 0.1 * HALF_RANGE)

    def test_distributions_of_returns(self):
        agent = made(D4pgAgent, n_atoms=5)
        agent.give_V_min_max(-2, 6)
        x, action = inputs(4), torch.rand(4, 3)
        p = agent.p(*x, action)
        assert p.shape == (4, 5)
        torch.testing.assert_close(p.sum(-1), torch.ones(4))
        z = torch.tensor([-2.0, 0.0, 2.0, 4.0, 6.0])
        torch.testing.assert_close(agent.q(*x, action), (p * z).sum(-1))
        torch.testing.assert_close(agent.q_at_mu(*x), agent.q(*x, agent.model(*x)))
        target_p = agent.target_p_at_mu(*x)
        torch.testing.assert_close(agent.target_q_at_mu(*x), (target_p * z).sum(-1))
        assert not target_p.requires_grad


class TestActions:
    @pytest.mark.parametrize("AgentCls", AGENTS)
    @pytest.mark.parametrize("leading_dims", [(), (4,)])
    def test_step(self, AgentCls, leading_dims):
        agent = made(AgentCls)
        agent.sample_mode(0)
        action, agent_info = agent.step(*inputs(*leading_dims))
        assert action.shape == agent_info.mu.shape == (*leading_dims, 3)
        assert not action.requires_grad
        assert not torch.equal(action, agent_info.mu)

    def test_mu_spans_the_bounds(self):
        # The network gave [-1, 1], whatever the environment took.
        agent = made()
        output = agent.model.mlp.model[-1]
        for bias, expected in [(-20.0, LOW), (0.0, MID.tolist()), (20.0, HIGH)]:
            with torch.no_grad():
                output.weight.zero_()
                output.bias.fill_(bias)
            assert agent.model(*inputs()).tolist() == expected

    @pytest.mark.parametrize(
        "ModelCls",
        [
            Autocast(MuMlpModel),
            partial(MuMlpModel),
            type(
                "Mine",
                (MuMlpModel,),
                {"__init__": lambda self, *a, **k: MuMlpModel.__init__(self, *a, **k)},
            ),
        ],
    )
    def test_every_kind_of_mu_model_is_told_the_bounds(self, ModelCls):
        agent = made(ModelCls=ModelCls)
        assert agent.model._output_half_range.tolist() == HALF_RANGE.tolist()
        assert agent.target_model._output_mid.tolist() == MID.tolist()

    def test_output_max_of_the_user_prevails(self):
        agent = made(model_kwargs={**NET, "output_max": 0.5})
        assert agent.model._output_half_range.tolist() == [0.5] * 3
        assert made(spaces=UNIT_SPACES).model._output_half_range is None

    def test_other_models_give_actions_themselves(self):
        class Constant(torch.nn.Module):
            def __init__(self, observation_shape, action_size):
                super().__init__()
                self.action = torch.nn.Parameter(torch.tensor([0.5, -1.5, 9.0]))

            def forward(self, observation, prev_action, prev_reward):
                return self.action.expand(*observation.shape[:-1], 3)

        agent = made(ModelCls=Constant, model_kwargs={})
        agent.eval_mode(0)
        assert agent.step(*inputs()).action.tolist() == [0.5, -1.5, 9.0]

    @pytest.mark.parametrize("spaces", [SPACES, UNIT_SPACES])
    def test_noise_per_dimension(self, spaces):
        half_range = torch.ones(3) if spaces is UNIT_SPACES else HALF_RANGE
        agent = made(spaces=spaces, action_std=0.1, action_noise_clip=0.15)
        agent.sample_mode(0)
        x = tuple(part.expand(20000, *part.shape) for part in inputs())
        action, info = agent.step(*x)
        noise = (action - info.mu) / half_range
        torch.testing.assert_close(noise.abs().amax(0), torch.full((3,), 0.15))
        torch.testing.assert_close(noise.std(0), torch.full((3,), 0.1 * 0.8824), rtol=0.05, atol=0)

    def test_actions_stay_within_their_own_bounds(self):
        # All were clipped to the bound of the first dimension.
        agent = made(action_std=[3.0, 3.0, 3.0])
        agent.sample_mode(0)
        action = agent.step(*inputs(1000)).action
        assert action.amin(0).tolist() == LOW
        assert action.amax(0).tolist() == HIGH

    @pytest.mark.parametrize("AgentCls", AGENTS)
    def test_no_noise_in_evaluation(self, AgentCls):
        agent = made(AgentCls)
        agent.eval_mode(0)
        action, info = agent.step(*inputs(5))
        torch.testing.assert_close(action, info.mu)

    def test_noise_before_and_after_training_starts(self):
        agent = made(Td3Agent, pretrain_std=0.5, action_std=0.1)
        agent.give_min_itr_learn(10)
        for itr, std in [(0, 0.5), (9, 0.5), (10, 0.1), (11, 0.1)]:
            agent.sample_mode(itr)
            torch.testing.assert_close(agent.distribution.std, std * HALF_RANGE)
        agent.eval_mode(11)
        assert agent.distribution.std.max() == 0
        # DDPG has one noise for all times.
        agent = made(action_std=np.array([0.1, 0.2, 0.3]))
        agent.sample_mode(0)
        torch.testing.assert_close(agent.distribution.std, torch.tensor([0.1, 0.4, 1.5]))

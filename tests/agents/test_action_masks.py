"""Agents never take a forbidden action, and their outputs for losses leave it out."""

from typing import Any, NamedTuple

import pytest
import torch

from rlpyt.agents.dqn import mlp_agent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.pg import generic
from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple, record

A, B, N = 4, 6, 40


@record
class Observation(NamedTuple):
    state: Any
    action_mask: Any


def spaces(action=None, mask=A, state=None):
    parts = [state or FloatBox(-1, 1, (3,)), IntBox(0, 2, (mask,))]
    return EnvSpaces(Composite(parts, Observation), action or IntBox(0, A))


SMALL = {"hidden_sizes": [8]}
LSTM = {"hidden_sizes": [8], "lstm_size": 4}
VALUES = [
    mlp_agent.MlpDqnAgent(model_kwargs=SMALL),
    mlp_agent.MlpDqnAgent(model_kwargs=SMALL, eps_init=0.5, eps_final_min=0.3, eps_final=0.6),
    mlp_agent.MlpDqnAgent(model_kwargs={**SMALL, "dueling": True, "noisy": True}),
    mlp_agent.MlpCatDqnAgent(model_kwargs={**SMALL, "dueling": True, "noisy": True}),
    mlp_agent.MlpCatDqnAgent(model_kwargs=SMALL),
    mlp_agent.MlpQrDqnAgent(model_kwargs=SMALL, n_quantiles=5),
    mlp_agent.MlpIqnAgent(model_kwargs=SMALL, n_tau=5),
    mlp_agent.MlpR2d1Agent(model_kwargs=LSTM),
    mlp_agent.MlpR2d1AlternatingAgent(model_kwargs=LSTM),
    mlp_agent.MlpPqnAgent(model_kwargs=SMALL),
    mlp_agent.MlpPqnLstmAgent(model_kwargs=LSTM),
    mlp_agent.AlternatingMlpPqnLstmAgent(model_kwargs=LSTM),
]
POLICIES = [
    generic.GenericFfAgent(model_kwargs={**SMALL, "normalize_observation": True}),
    generic.GenericFfAgent(model_kwargs=SMALL, greedy_eval=True),
    generic.GenericLstmAgent(model_kwargs=LSTM),
    generic.AlternatingGenericLstmAgent(model_kwargs=LSTM),
]
SAC = [DiscreteSacAgent(model_kwargs=SMALL)]


def inputs(*lead):
    mask = (torch.rand(*lead, A) < 0.4).to(torch.int8)
    mask[..., 1] |= mask.sum(-1) == 0
    observation = Observation(torch.randn(*lead, 3), mask)
    return observation, torch.randint(A, lead), torch.randn(lead)


@pytest.mark.parametrize("agent", VALUES + POLICIES + SAC, ids=lambda agent: type(agent).__name__)
@pytest.mark.parametrize("mode", ["sample", "eval"])
def test_actions_are_allowed(agent, mode):
    torch.manual_seed(0)
    agent.initialize(spaces(), global_B=B, env_ranks=range(B))
    agent.sample_mode(0)
    if mode == "eval":
        agent.eval_mode(0 if isinstance(agent, mlp_agent.MlpDqnAgent) else 1)
    taken = torch.zeros(A)
    for _ in range(N):
        observation, *others = inputs(B)
        action = agent.step(observation, *others).action
        assert observation.action_mask.gather(-1, action[:, None]).all()
        taken += torch.bincount(action, minlength=A)
    if mode == "sample":
        assert taken.min() > 0
    observation, *others = inputs()  # As in the example of a sampler.
    agent.reset()
    assert observation.action_mask[agent.step(observation, *others).action] == 1


def test_random_actions_are_uniform_among_the_allowed():
    torch.manual_seed(0)
    q = torch.tensor([[1.0, 2.0, 3.0], [1.0, -1e15, 3.0]]).expand(20_000, 2, 3)
    distribution = EpsilonGreedy(dim=3, epsilon=torch.tensor([0.5, 1.0]))
    distribution.masked = True
    actions = distribution.sample(q)
    found = [torch.bincount(actions[:, b], minlength=3) / 20_000 for b in range(2)]
    expected = torch.tensor([[0.5 / 3, 0.5 / 3, 0.5 + 0.5 / 3], [0.5, 0, 0.5]])
    torch.testing.assert_close(torch.stack(found), expected, atol=0.015, rtol=0)


@pytest.mark.parametrize("agent", POLICIES, ids=lambda agent: type(agent).__name__)
def test_policies(agent):
    agent.initialize(spaces(), global_B=B, env_ranks=range(B))
    observation, *others = inputs(5, B)
    observation.action_mask[2] = 0  # After an end: everything counts as allowed.
    agent.update_obs_rms(observation)
    dist_info, value = agent(observation, *others)[:2]
    forbidden = observation.action_mask == 0
    forbidden[2] = False
    assert (dist_info.prob[forbidden] == 0).all()
    assert (dist_info.prob[~forbidden] > 0).all()
    torch.testing.assert_close(dist_info.prob.sum(-1), torch.ones(5, B))
    action = agent.distribution.sample(dist_info)
    entropy = agent.distribution.entropy(dist_info)
    single = observation.action_mask.sum(-1) == 1
    torch.testing.assert_close(entropy[single], torch.zeros(int(single.sum())), atol=1e-6, rtol=0)
    (entropy + agent.distribution.log_likelihood(action, dist_info) + value).sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in agent.parameters())


def test_images_and_several_fields():
    image = IntBox(0, 256, (4, 84, 84), dtype="uint8")
    for agent in (AtariDqnAgent(), AtariFfAgent()):
        agent.initialize(spaces(state=image))
        mask = torch.tensor([0, 0, 1, 0])
        observation = Observation(torch.zeros(4, 84, 84, dtype=torch.uint8), mask)
        agent.sample_mode(0)
        assert agent.step(observation, torch.tensor(0), torch.tensor(0.0)).action == 2
    Both = namedarraytuple("Both", ["position", "action_mask", "speed"])
    box = FloatBox(-1, 1, (2,))
    composite = Composite([box, IntBox(0, 2, (A,)), box], Both)
    agent = mlp_agent.MlpDqnAgent(model_kwargs=SMALL)
    agent.initialize(EnvSpaces(composite, IntBox(0, A)))
    assert agent.env_spaces.observation.names == ("position", "speed")
    both = Both(torch.zeros(3, 2), torch.eye(A)[:3], torch.zeros(3, 2))
    action = agent.step(both, torch.zeros(3, dtype=torch.long), torch.zeros(3)).action
    assert action.tolist() == [0, 1, 2]


class Plain(torch.nn.Module):
    """A model that a user writes, without a thought of masks."""

    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Linear(3, A)

    def forward(self, observation, prev_action, prev_reward):
        logits = self.logits(observation)
        return torch.softmax(logits, -1), logits[..., 0]


def test_model_without_a_mask():
    agent = CategoricalPgAgent(ModelCls=Plain)
    agent.initialize(spaces())
    observation, *others = inputs(B)
    dist_info, _ = agent(observation, *others)
    assert (dist_info.prob[observation.action_mask == 0] == 0).all()


class Reader(Plain):
    """A model that uses masks of another shape itself."""

    def forward(self, observation, prev_action, prev_reward):
        assert observation.action_mask.shape[-2:] == (2, A)
        return super().forward(observation.state, prev_action, prev_reward)


def test_networks_may_see_the_mask():
    agent = CategoricalPgAgent(ModelCls=Reader)
    agent.mask_field = None
    parts = [FloatBox(-1, 1, (3,)), IntBox(0, 2, (2, A))]
    agent.initialize(EnvSpaces(Composite(parts, Observation), IntBox(0, A)))
    assert agent.env_spaces.observation.names == ("state", "action_mask")
    observation = Observation(torch.randn(B, 3), torch.zeros(B, 2, A))
    assert (agent(observation, *inputs(B)[1:])[0].prob > 0).all()

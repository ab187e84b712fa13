import copy

import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_iqn_agent import AtariIqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariQrDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent, AtariR2d1AlternatingAgent
from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent, MlpQrDqnAgent
from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple
from tests.agents.parts import VectorCatDqnAgent, VectorDqnAgent, inputs, made

LEADING_DIMS = [(), (1,), (5,), (3, 5)]


def flat(state):
    return torch.cat([value.flatten() for value in state.values()]).tolist()


def greedy(agent):
    agent.eval_mode(1)
    agent.distribution.set_epsilon(0.0)
    return agent


@pytest.mark.parametrize("leading_dims", LEADING_DIMS)
def test_shapes(leading_dims):
    agent = greedy(made(VectorDqnAgent()))
    data = inputs(*leading_dims)
    step = agent.step(*data)
    assert step.action.shape == leading_dims
    assert step.action.dtype == torch.int64
    assert step.agent_info.q.shape == (*leading_dims, 4)
    assert not step.agent_info.q.requires_grad
    assert torch.equal(step.action, step.agent_info.q.argmax(-1))
    q = agent(*data)
    assert q.requires_grad
    assert torch.equal(q.detach(), step.agent_info.q)
    assert torch.equal(agent.target(*data), step.agent_info.q)


@pytest.mark.parametrize("leading_dims", LEADING_DIMS)
def test_shapes_of_distributions(leading_dims):
    agent = greedy(made(VectorCatDqnAgent()))
    data = inputs(*leading_dims)
    step = agent.step(*data)
    p = step.agent_info.p
    assert p.shape == (*leading_dims, 4, 5)
    assert torch.allclose(p.sum(-1), torch.ones(()))
    before = torch.matmul(p, torch.linspace(-1, 1, 5)).argmax(-1)
    assert torch.equal(step.action, before)
    agent.give_V_min_max(-10, 30)
    assert agent.distribution.z.tolist() == [-10, 0, 10, 20, 30]
    assert torch.equal(agent.step(*data).action, before), "the range does not matter to the best"


def test_number_of_atoms_goes_to_the_model_and_not_to_the_callers_dict():
    model_kwargs = {"hidden_sizes": [8]}
    agent = made(VectorCatDqnAgent(n_atoms=7, model_kwargs=model_kwargs))
    assert agent.step(*inputs(2)).agent_info.p.shape[-1] == 7
    assert agent.n_atoms == 7
    assert model_kwargs == {"hidden_sizes": [8]}


@pytest.mark.parametrize(
    ("AgentCls", "name", "keywords"),
    [
        (MlpCatDqnAgent, "n_atoms", "model_kwargs"),
        (MlpQrDqnAgent, "n_quantiles", "model_kwargs"),
        (D4pgAgent, "n_atoms", "q_model_kwargs"),
    ],
)
def test_numbers_of_outputs_may_be_given_to_the_model(AgentCls, name, keywords):
    # The agent replaced the model's number by its own default, in silence.
    for kwargs in ({keywords: {name: 11}}, {name: 11}, {name: 11, keywords: {name: 11}}):
        agent = AgentCls(**kwargs)
        assert getattr(agent, name) == getattr(agent, keywords)[name] == 11


Pair = namedarraytuple("Pair", ["a", "b"])
OTHER_ACTIONS = [
    GymSpaceWrapper(spaces.MultiBinary(4)),
    GymSpaceWrapper(spaces.MultiDiscrete([3, 3])),
    GymSpaceWrapper(spaces.Dict({"a": spaces.Discrete(3)})),
    Composite([IntBox(0, 3), IntBox(0, 3)], Pair),
    IntBox(0, 4, shape=(2,)),
    IntBox(1, 4),
]


@pytest.mark.parametrize("action", OTHER_ACTIONS, ids=repr)
def test_actions_other_than_one_counted_from_0_are_named(action, capsys):
    # A subclass may take those that have a number n.
    env_spaces = EnvSpaces(FloatBox(-1, 1, (3,)), action)
    message = "VectorDqnAgent needs one discrete action"
    if hasattr(action, "n"):
        VectorDqnAgent().initialize(env_spaces)
        assert f"WARNING: {message}" in capsys.readouterr().out
    else:
        with pytest.raises(ValueError, match=f"{message}.*wrapper"):
            VectorDqnAgent().initialize(env_spaces)


@pytest.mark.parametrize("start", [0, 1])
def test_discrete_actions_of_gymnasium(start):
    action = GymSpaceWrapper(spaces.Discrete(3, start=start))
    agent = VectorDqnAgent()
    agent.initialize(EnvSpaces(FloatBox(-1, 1, (3,)), action))
    assert agent.distribution.dim == 3


@pytest.mark.parametrize("AgentCls", [MlpDqnAgent, MlpCatDqnAgent])
def test_observations_of_several_arrays_all_count(AgentCls):
    observation = Composite([FloatBox(-1, 1, (3,)), FloatBox(-1, 1, (2,))], Pair)
    agent = AgentCls()
    agent.initialize(EnvSpaces(observation, IntBox(0, 4)))
    agent.eval_mode(1)
    pair = Pair(torch.zeros(5, 3), torch.zeros(5, 2))
    others = torch.zeros(5, dtype=torch.long), torch.zeros(5)
    values = [
        agent(x, *others) for x in (pair, *(pair._replace(**{k: v + 1}) for k, v in pair.items()))
    ]
    assert all(value.shape[:2] == (5, 4) for value in values)
    assert not any(torch.equal(values[0], value) for value in values[1:])


def changed(agent):
    with torch.no_grad():
        for p in agent.model.parameters():
            p += torch.randn_like(p)
    return agent


class LinearModel(torch.nn.Module):
    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.module = torch.nn.Linear(observation_shape[0], output_size)

    def forward(self, observation, prev_action, prev_reward):
        return self.module(observation)


def test_output_may_be_more_than_values():
    class Model(LinearModel):
        def forward(self, *inputs):
            return super().forward(*inputs), "features"

    class Agent(VectorDqnAgent):
        def to_agent_step(self, output):
            q, features = output
            assert features == "features"
            return super().to_agent_step(q)

    agent = made(Agent(ModelCls=Model, model_kwargs={}))
    assert agent.step(*inputs(2)).action.shape == (2,)


def test_model_sees_one_hot_actions():
    seen = []

    class Model(LinearModel):
        def forward(self, observation, prev_action, prev_reward):
            seen.append(prev_action)
            return super().forward(observation, prev_action, prev_reward)

    agent = made(VectorDqnAgent(ModelCls=Model, model_kwargs={}))
    observation, _, prev_reward = inputs(2)
    agent.step(observation, torch.tensor([1, 3]), prev_reward)
    assert seen[0].tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("tau", [1, 0.25])
def test_part_of_the_model_may_be_called_module(tau):
    # Its names were taken for those of a network within DistributedDataParallel.
    agent = changed(made(VectorDqnAgent(ModelCls=LinearModel, model_kwargs={})))
    agent.update_target(tau)
    state = copy.deepcopy(agent.state_dict())
    wrapped = {f"module.{name}": value for name, value in state["model"].items()}
    for given in (state, {"model": wrapped}):
        other = made(VectorDqnAgent(ModelCls=LinearModel, model_kwargs={}))
        other.load_state_dict(given)
        assert flat(other.state_dict()["model"]) == flat(state["model"])


FEED_FORWARD = {"fc_sizes": 16}
RECURRENT = {
    **{"channels": [2], "kernel_sizes": [4], "strides": [4], "paddings": [0]},
    **{"fc_size": 8, "lstm_size": 6, "head_size": 8},
}


@pytest.mark.parametrize(
    ("AgentCls", "model_kwargs"),
    [
        (AtariDqnAgent, FEED_FORWARD),
        (AtariCatDqnAgent, FEED_FORWARD),
        (AtariQrDqnAgent, FEED_FORWARD),
        (AtariIqnAgent, FEED_FORWARD),
        (AtariR2d1Agent, RECURRENT),
        (AtariR2d1AlternatingAgent, RECURRENT),
    ],
)
def test_images(AgentCls, model_kwargs):
    agent = AgentCls(model_kwargs=model_kwargs)
    agent.initialize(EnvSpaces(IntBox(0, 256, (4, 52, 40), dtype="uint8"), IntBox(0, 6)))
    assert agent.env_model_kwargs == {"image_shape": (4, 52, 40), "output_size": 6}
    agent.sample_mode(0)
    image = torch.randint(256, (2, 4, 52, 40), dtype=torch.uint8)
    step = agent.step(image, torch.zeros(2, dtype=torch.int64), torch.zeros(2))
    assert step.action.shape == (2,)
    assert step.agent_info.get(0).shape[:2] == (2, 6)

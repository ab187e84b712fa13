"""Agents of finished runs in a loop without sampler and runner."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rlpyt
from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import AlternatingGenericLstmAgent, GenericFfAgent, GenericLstmAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.experiments.evaluation import load_snapshot
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from tests.accelerator import GPU, ROUNDING, SIMULATED, apart, on_each_device, present

OBSERVATIONS = spaces.Tuple([spaces.Box(-1, 1, (3,), np.float64), spaces.Discrete(4, start=1)])
ACTIONS = spaces.Dict({"turn": spaces.Discrete(3, start=-1), "gas": spaces.Box(0, 2, (2,))})


class Driving(gymnasium.Env):
    """Spaces that are converted for agents, and nothing behind them."""

    observation_space, action_space = OBSERVATIONS, ACTIONS


def saved(agent, env, directory):
    """Directory of a run of a program, which has a snapshot but no record of its roles."""
    own = EnvSpaces(
        GymSpaceWrapper(env.observation_space, name="obs"),
        GymSpaceWrapper(env.action_space, name="act"),
    )
    agent.initialize(own)
    for parameter in agent.parameters():
        torch.nn.init.normal_(parameter)
    torch.save({"itr": 7, "agent_state_dict": agent.state_dict()}, directory / "params.pkl")
    (directory / "params.json").write_text('{"name": "a program"}')
    return own


@pytest.mark.parametrize("AgentCls", [GenericLstmAgent, AlternatingGenericLstmAgent])
def test_a_recurrent_agent_acts_as_in_evaluation(AgentCls, tmp_path):
    agent, env = GenericLstmAgent(greedy_eval=True), Driving()
    own = saved(agent, env, tmp_path)
    loaded = rlpyt.load(tmp_path, AgentCls(greedy_eval=True), env)
    agent.eval_mode(7)
    prev_action = torchify_buffer(buffer_from_example(own.action.null_value(), 1))
    state, reward = None, 0.0
    for _ in range(3):
        observation = env.observation_space.sample()
        action, state = loaded.act(observation, state, reward)
        assert env.action_space.contains(action)
        inputs = buffer_from_example(own.observation.null_value(), 1)
        inputs[:] = own.observation.convert(observation)
        expected = agent.step(torchify_buffer(inputs), prev_action, torch.tensor([reward])).action
        assert action["turn"] == int(expected.turn) - 1
        np.testing.assert_array_equal(action["gas"], expected.gas[0])
        prev_action, reward = expected, 0.5
    assert loaded.agent.prev_rnn_state is None  # The state is only in the caller's hands.


def test_a_policy_draws_actions_unless_they_are_to_be_deterministic(tmp_path):
    env = Driving()
    saved(GenericFfAgent(), env, tmp_path)
    agent = rlpyt.load(tmp_path, GenericFfAgent(), env)
    observation = env.observation_space.sample()

    def different(**kwargs):
        return {str(agent.act(observation, **kwargs)[0]) for _ in range(5)}

    assert len(different()) > 1
    assert len(different(deterministic=True)) == 1
    torch.manual_seed(1)
    first = different()
    torch.manual_seed(1)
    assert different() == first


def test_random_actions_of_a_value_agent_are_left_out_if_deterministic(tmp_path):
    env = gymnasium.make_vec("CartPole-v1", num_envs=64)
    saved(MlpDqnAgent(), gymnasium.make("CartPole-v1"), tmp_path)
    agent = rlpyt.load(tmp_path / "params.pkl", MlpDqnAgent(eps_eval=1.0), env)
    observation = np.tile(env.reset(seed=1)[0][:1], (64, 1))
    assert len(set(agent.act(observation, deterministic=True)[0])) == 1
    assert len(set(agent.act(observation)[0])) == 2


def test_a_policy_is_exported_for_any_number_of_observations(tmp_path):
    env = gymnasium.make("Pendulum-v1")
    saved(GenericFfAgent(), env, tmp_path)
    agent = rlpyt.load(tmp_path, GenericFfAgent(), env)
    policy = agent.export(tmp_path / "policy.pt2").program.module()
    for B in (1, 5):
        observations = torch.randn(B, *env.observation_space.shape)
        action = agent.act(observations.numpy(), deterministic=True)[0]
        with torch.no_grad():
            exported = policy(observations)[0]
        np.testing.assert_allclose(exported, action, rtol=1e-5, atol=1e-5)


def test_a_network_that_treats_batches_differently_is_exported_for_all(tmp_path):
    env, kwargs = gymnasium.make("CartPole-v1"), {"model_kwargs": {"hidden_sizes": [1024, 1024]}}
    saved(MlpDqnAgent(**kwargs), env, tmp_path)
    agent = rlpyt.load(tmp_path, MlpDqnAgent(**kwargs), env)
    policy = agent.export(tmp_path / "policy.pt2").program.module()
    for B in (1, 64):
        observations = torch.randn(B, 4)
        _, q = policy(observations)
        expected = agent.agent.step(observations, torch.zeros(B, dtype=torch.long), torch.zeros(B))
        torch.testing.assert_close(q, expected.agent_info.q, rtol=1e-3, atol=1e-3)


class Branching(MlpDqnModel):
    """Network whose result depends on a branch on values."""

    def forward(self, observation, prev_action, prev_reward):
        q = super().forward(observation, prev_action, prev_reward)
        return q if observation.sum() > 0 else -q


class Noisy(MlpDqnModel):
    """Network that draws random numbers."""

    def forward(self, observation, prev_action, prev_reward):
        q = super().forward(observation, prev_action, prev_reward)
        return q + torch.randn_like(q)


@pytest.mark.parametrize(
    ("ModelCls", "reason"),
    [(Branching, "cannot be exported: .*torch.where"), (Noisy, "draws random numbers")],
)
def test_a_network_that_is_no_graph_is_refused(tmp_path, ModelCls, reason):
    env = gymnasium.make("CartPole-v1")
    saved(MlpDqnAgent(ModelCls=ModelCls), env, tmp_path)
    agent = rlpyt.load(tmp_path, MlpDqnAgent(ModelCls=ModelCls), env)
    with pytest.raises(ValueError, match=f"^MlpDqnAgent {reason}"):
        agent.export(tmp_path / "policy.pt2")


def actions_on(device, path):
    """Actions of a loaded agent, and the device that it acts on."""
    env = Driving()
    env.observation_space.seed(1)
    with present(GPU if device == GPU else SIMULATED):
        loaded = rlpyt.load(path, GenericFfAgent(), env, device=device)
        observations = [env.observation_space.sample() for _ in range(3)]
        actions = [loaded.act(x, deterministic=True)[0] for x in observations]
        return actions, str(loaded.agent.device)


@on_each_device
def test_an_agent_acts_on_any_device(tmp_path, device):
    saved(GenericFfAgent(), Driving(), tmp_path)
    expected, _ = apart(actions_on, None, tmp_path)
    for other in (device, torch.device("cpu")):
        actions, place = apart(actions_on, other, tmp_path)
        torch.testing.assert_close(actions, expected, rtol=0, atol=ROUNDING[device])
        assert place == str(other)


def test_what_does_not_fit_is_refused(tmp_path):
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(FileNotFoundError, match="snapshot"):
        rlpyt.load(tmp_path)
    saved(MlpDqnAgent(), env, tmp_path)
    with pytest.raises(ValueError, match="params.json"):
        rlpyt.load(tmp_path)
    with pytest.raises(TypeError, match=r"MlpDqnAgent is a class: pass an object"):
        rlpyt.load(tmp_path, MlpDqnAgent, env)
    with pytest.raises(ValueError, match="of an environment with other spaces"):
        rlpyt.load(tmp_path, MlpDqnAgent(), gymnasium.make("Acrobot-v1"))
    agent = rlpyt.load(tmp_path, MlpDqnAgent(), env)
    with pytest.raises(ValueError, match="device is 'cuda:99'.*leave it out"):
        rlpyt.load(tmp_path, MlpDqnAgent(), env, device=99)
    with pytest.raises(ValueError, match="observation"):
        agent.act(np.zeros((2, 3)))
    _, state = agent.act(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="state"):
        agent.act(np.zeros(4), state)
    with pytest.raises(ValueError, match="file"):
        agent.export(tmp_path / "policy.onxx")


def test_a_snapshot_that_would_run_code_is_refused(tmp_path):
    torch.save({"itr": 1, "agent_state_dict": print}, tmp_path / "params.pkl")
    with pytest.raises(ValueError, match="tensors and plain values"):
        load_snapshot(tmp_path / "params.pkl")

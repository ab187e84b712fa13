"""Recurrent PQN: sequences from the recorded state, across the ends of episodes."""

import pytest
import torch

from rlpyt.agents.dqn.atari.atari_pqn_agent import AtariPqnLstmAgent
from rlpyt.agents.dqn.mlp_agent import AlternatingMlpPqnLstmAgent, MlpPqnLstmAgent
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from tests.agents.parts import inputs, made
from tests.algos.pg.parts import LSTM, Setup
from tests.envs.doors import make_doors

GREEDY = {"eps_init": 0, "eps_final": 0}
LIMITED = {"id": "CartPole-v1", "max_episode_steps": 3}
CONV = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}


class Piecewise(MlpR2d1Model):
    """A model that does not take ``reset``."""

    def forward(self, observation, prev_action, prev_reward, state):
        return super().forward(observation, prev_action, prev_reward, state)


def cartpole(agent=None, recorded=False, **settings):
    agent = MlpPqnLstmAgent(**LSTM) if agent is None else agent
    return Setup(
        PQN(**settings), agent, gym.make, LIMITED, T=8, B=3, record_next_observation=recorded
    )


# --- The agent ------------------------------------------------------------------------------------


@pytest.mark.parametrize("AgentCls", [MlpPqnLstmAgent, AlternatingMlpPqnLstmAgent])
def test_agent(AgentCls):
    agent = made(AgentCls(**LSTM))
    agent.sample_mode(0)
    agent.distribution.set_epsilon(0.0)
    observation, action, reward = inputs(5, 3)
    steps = []
    for t in range(5):
        for _ in range(1 + agent.alternating):  # Both halves see the same.
            at = observation[t], action[t], reward[t]
            before = agent.prev_rnn_state
            value = agent.value(*at)
            assert agent.prev_rnn_state is before
            step = agent.step(*at)
            assert torch.equal(step.agent_info.value, value)
        steps.append(step)
    assert not steps[0].agent_info.prev_rnn_state.h.any()
    assert steps[4].agent_info.prev_rnn_state.h.shape == (3, 1, 4)
    q, after = agent(observation, action, reward, None)
    assert torch.allclose(q.max(-1).values, torch.stack([s.agent_info.value for s in steps]))
    assert torch.equal(q.argmax(-1), torch.stack([s.action for s in steps]))
    assert torch.allclose(after.h, agent.prev_rnn_state.h)
    assert not hasattr(agent, "target_model")


@pytest.mark.parametrize("AgentCls", [MlpPqnLstmAgent, AlternatingMlpPqnLstmAgent])
def test_layers_are_normalized(AgentCls):
    def n_norms(**kwargs):
        agent = made(AgentCls(model_kwargs={"hidden_sizes": [8, 8], **kwargs}))
        return [type(module).__name__ for module in agent.model.modules()].count("LayerNorm")

    assert n_norms() == 2
    assert n_norms(layer_norm=False) == 0


# --- Minibatches ----------------------------------------------------------------------------------


def catch():
    model_kwargs = {**CONV, "fc_size": 8, "lstm_size": 4, "head_size": 8}
    agent = AtariPqnLstmAgent(model_kwargs=model_kwargs, **GREEDY)
    env_kwargs = {"grid_shape": (5, 5), "img_shape": (20, 10), "num_img_obs": 2}
    return Setup(PQN(minibatches=2, epochs=1), agent, Catch, env_kwargs, T=6, B=3)


def doors():
    agent = MlpPqnLstmAgent(**LSTM, **GREEDY)
    return Setup(PQN(minibatches=3, epochs=1), agent, make_doors, T=8, B=4)


RUNS = {
    "vectors": lambda: cartpole(MlpPqnLstmAgent(**LSTM, **GREEDY), minibatches=2, epochs=1),
    "pieces": lambda: cartpole(
        MlpPqnLstmAgent(Piecewise, **LSTM, **GREEDY), epochs=1, minibatches=3
    ),
    "images": catch,
    "masks": doors,
}


@pytest.mark.parametrize("name", RUNS)
def test_the_first_minibatches_have_the_values_of_acting(name):
    run = RUNS[name]()
    run.sample(0)
    batch = run.sample(1)
    assert batch.env.done[:-1].any()
    assert batch.agent.agent_info.prev_rnn_state.h[0].any()
    run.algo.compute_returns = lambda samples: (samples.agent.agent_info.value, None)
    n_steps, errors = 0, []
    samples = run.algo.to_training_device(batch)
    for part in run.algo.divided(run.algo.prepare(samples)):
        found = run.algo.loss(part)[1]["tdAbsErr"]
        assert found.max() < 1e-5
        n_steps += found.numel()
        whole = part._replace(reset=torch.zeros_like(part.reset))
        uncut = run.algo.loss(whole)[1]["tdAbsErr"]
        errors.append(uncut.max().item())
    assert n_steps == batch.env.done.numel()
    assert max(errors) > 1e-4, "with states kept across ends"


def test_every_environment_once_in_each_epoch():
    run = cartpole(minibatches=2, epochs=3)
    batch = run.sample()
    batch.env.reward[:] = torch.arange(3)  # Of the environments.
    run.algo.discount = 0
    prepared = run.algo.prepare(run.algo.to_training_device(batch))
    for _ in range(3):
        columns = torch.cat([part.return_ for part in run.algo.divided(prepared)], dim=1)
        assert columns.shape == (8, 3)
        assert columns.sort(1).values.eq(torch.arange(3)).all()
    run.algo.optimize_agent(0, batch)
    assert run.algo.update_counter == 6


# --- The loss -------------------------------------------------------------------------------------


def naive_loss(agent, batch, recorded, bootstraps):
    """The mean loss of a batch, one step of one environment after the other."""
    env, actions = batch.env, batch.agent.action

    def run(observation, action, reward, state):
        q, state = agent(*(x[None, None] for x in (observation, action, reward)), state)
        return q[0, 0], state

    losses = []
    for b in range(actions.shape[1]):
        qs, last_values = [], {}
        state = [part[0, b, :, None] for part in batch.agent.agent_info.prev_rnn_state]
        action, reward = batch.agent.prev_action[0, b], env.prev_reward[0, b]
        for t in range(len(actions)):
            q, state = run(env.observation[t, b], action, reward, state)
            qs.append(q)
            action, reward = actions[t, b], env.reward[t, b]
            if env.done[t, b]:
                if recorded:
                    last_values[t] = run(env.next_observation[t, b], action, reward, state)[0].max()
                state, action, reward = None, torch.tensor(0), torch.tensor(0.0)
        return_ = value = batch.agent.bootstrap_value[0, b]
        for t in reversed(range(len(actions))):
            is_timeout = bootstraps and env.env_info.timeout[t, b]
            if not env.done[t, b]:
                further = 0.7 * return_ + 0.3 * value
            else:
                further = last_values[t] if recorded and is_timeout else 0
            return_, value = env.reward[t, b] + 0.9 * further, qs[t].max()
            if recorded or not is_timeout:
                losses.append((return_ - qs[t][actions[t, b]]) ** 2 / 2)
            else:
                return_ = value
    return torch.stack(losses).mean().item()


@pytest.mark.parametrize(
    ("seed", "recorded", "bootstraps"), [(0, False, True), (1, True, True), (2, True, False)]
)
def test_loss_of_a_naive_twin(seed, recorded, bootstraps):
    torch.manual_seed(seed)
    settings = {"discount": 0.9, "q_lambda": 0.7, "bootstrap_timelimit": bootstraps}
    run = cartpole(recorded=recorded, minibatches=1, epochs=1, **settings)
    run.sample(0)
    batch = run.sample(1)
    assert batch.env.env_info.timeout.any()
    with torch.no_grad():
        expected = naive_loss(run.agent, batch, recorded, bootstraps)
    assert run.algo.optimize_agent(1, batch).loss == [pytest.approx(expected, rel=1e-4)]

"""PQN: minibatches, schedules, time limits, layer normalization."""

import pytest
import torch

from rlpyt.agents.dqn.atari.atari_pqn_agent import AtariPqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpPqnAgent
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.runners.divergence import scale_learning_rates
from tests.algos.pg.parts import Setup

SMALL = {"model_kwargs": {"hidden_sizes": [8]}}
LIMITED = {"id": "CartPole-v1", "max_episode_steps": 3}


def cartpole(T=8, B=2, n_itr=10, recorded=False, **kwargs):
    return Setup(
        PQN(**kwargs), MlpPqnAgent(**SMALL), gym.make, LIMITED, T, B,
        n_itr=n_itr, record_next_observation=recorded,
    )  # fmt: skip


@pytest.mark.parametrize("n_valid", [0, 1, 3, 8])
def test_minibatches_of_the_steps_that_count(n_valid):
    # Without any it was an IndexError.
    run = cartpole(T=4, minibatches=2)
    batch = run.algo.prepare(run.sample())
    valid = torch.arange(8).reshape(4, 2) < n_valid
    parts = list(run.algo.divided(batch._replace(valid=valid)))
    assert [len(part.action) for part in parts] == [4, 4]
    counted = [a for part in parts for a in part.return_[part.valid > 0].tolist()]
    expected = batch.return_.flatten()[:n_valid].tolist()
    assert sorted(counted) == sorted(expected * 2 if n_valid == 1 else expected)


@pytest.mark.parametrize("recorded", [False, True])
def test_one_iteration(recorded):
    run = cartpole(minibatches=3, epochs=2, bootstrap_timelimit=True, recorded=recorded)
    batch = run.sample()
    value = batch.agent.agent_info.value
    assert batch.agent.bootstrap_value.shape == (1, 2)
    inputs = run.algo.prepare(batch)
    truncated = batch.env.env_info.timeout.bool()
    assert truncated.any()
    is_stand_in = inputs.return_[truncated] == value[truncated]
    assert bool(is_stand_in.all()) != recorded
    before = run.parameters()
    info = run.algo.optimize_agent(0, batch)
    assert run.algo.update_counter == 6 == len(info.loss) == len(info.gradNorm)
    assert run.parameters() != before
    # Values by which the agent acted: those of the network, of which no copy is kept.
    run.agent.sample_mode(1)
    inputs = (batch.env.observation[0], batch.agent.prev_action[0], batch.env.prev_reward[0])
    assert torch.equal(run.agent.value(*inputs), run.agent.step(*inputs).agent_info.value)


def test_epsilon_counts_the_steps_of_all_processes():
    run = cartpole(eps_steps=64)
    run.algo.initialize(
        run.agent, 10, run.sampler.batch_spec, True, examples=run.examples, world_size=2
    )
    assert list(run.agent._eps_itr_min_max) == [0, 64 // (8 * 2) // 2]


def test_schedules():
    run = cartpole(n_itr=4, learning_rate=0.1, eps_steps=32)
    rates, epsilons = [], []
    for itr in range(4):
        rates.append(run.algo.optimizer.param_groups[0]["lr"])
        run.train(itr, itr + 1)
        epsilons.append(run.agent.eps_sample)
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert epsilons == pytest.approx([1, 0.505, 0.01, 0.01])
    # Another run that began with this state followed the schedule of this one.
    state = run.algo.optim_state_dict()
    run = cartpole(n_itr=4, learning_rate=0.3, initial_optim_state_dict=state)
    run.train(0, 1)
    assert run.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.225)
    # The schedule of a run that goes back with a lower rate used to begin at the setting again.
    run = cartpole(n_itr=4, learning_rate=0.1)
    run.train(0, 1)
    assert scale_learning_rates(run.algo, 0.5) == pytest.approx([0.0375])
    run.train(1, 2)
    assert run.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    run = cartpole(learning_rate=0.1, linear_lr_schedule=False)
    run.train(0, 3)
    assert run.algo.optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("dueling", [False, True])
def test_layers_that_are_normalized_keep_their_scale(dueling):
    """Inputs a hundred times as large give nearly the same values."""
    convolution = {"channels": [4, 4], "kernel_sizes": [3, 3], "strides": [2, 1]}
    kwargs = {"output_size": 3, "dueling": dueling}
    for layer_norm in (True, False):
        kwargs["layer_norm"] = layer_norm
        torch.manual_seed(0)
        models = [
            MlpDqnModel(observation_shape=(2, 9, 9), hidden_sizes=[16, 16], **kwargs),
            AtariDqnModel((2, 9, 9), fc_sizes=16, paddings=[0, 0], **convolution, **kwargs),
        ]
        x = 100 * torch.randn(5, 2, 9, 9)
        for model in models:
            q, larger = model(x, None, None), model(100 * x, None, None)
            assert q.shape == (5, 3)
            assert torch.allclose(q, larger, atol=0.05) == layer_norm


def test_images():
    convolution = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}

    def make():
        agent = AtariPqnAgent(model_kwargs={**convolution, "fc_sizes": 16})
        return Setup(PQN(), agent, Catch, {"img_shape": (20, 10), "num_img_obs": 3})

    run = make()
    before = [p.clone() for p in run.agent.parameters()]
    run.train()
    assert not any(map(torch.equal, before, run.agent.parameters()))
    names = [type(module).__name__ for module in run.agent.model.modules()]
    assert names.count("GroupNorm") == names.count("LayerNorm") == 1
    # Its state is that of the model; that of a DQN agent, with a target network, fits too.
    state = run.agent.state_dict()
    other = make()
    other.agent.load_state_dict({"model": state, "target": other.agent.state_dict()})
    assert other.parameters() == run.parameters()

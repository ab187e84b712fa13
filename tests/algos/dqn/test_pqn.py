"""PQN: returns and loss by hand, minibatches, schedules, time limits, layer normalization."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlpyt.agents.dqn.atari.atari_pqn_agent import AtariPqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpPqnAgent
from rlpyt.algos.dqn.pqn import PQN, LossInputs
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.runners.divergence import scale_learning_rates
from tests.algos.pg.parts import Setup

SMALL: dict[str, Any] = {"model_kwargs": {"hidden_sizes": [8]}}
EnvInfo = namedtuple("EnvInfo", ["timeout"])
LIMITED = {"id": "CartPole-v1", "max_episode_steps": 3}


def cartpole(T: int = 8, B: int = 2, n_itr: int = 10, recorded: bool = False, **kwargs: Any) -> Any:
    return Setup(
        PQN(**kwargs), MlpPqnAgent(**SMALL), gym.make, LIMITED, T, B,
        n_itr=n_itr, record_next_observation=recorded,
    )  # fmt: skip


def test_loss_by_hand() -> None:
    algo = PQN()
    q = torch.tensor([[1.0, 5.0], [2.0, 0.0], [4.0, 3.0]], requires_grad=True)
    algo.agent = lambda *inputs: q
    action, return_ = torch.tensor([0, 1, 1]), torch.tensor([3.0, -1.0, 9.0])
    # The errors are 2, -1, 6; half their squares 2, 0.5, 18.
    for valid, expected in ((None, 20.5 / 3), (torch.tensor([True, True, False]), 1.25)):
        inputs = LossInputs((None, None, None), action, return_, valid, None, None)
        loss, values = algo.loss(inputs)
        assert loss.item() == pytest.approx(expected)
    assert values["tdAbsErr"].tolist() == [2, 1, 6]
    assert values["qMean"].item() == pytest.approx(4 / 3)
    loss.backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[-1, 0], [0, 0.5], [0, 0]]  # Only of actions taken, and valid.


def samples(timeout: Any = None, next_observation: Any = None) -> Any:
    """Four steps of one environment, whose second ends an episode."""
    env: dict[str, Any] = {
        "reward": torch.tensor([[1.0], [2.0], [3.0], [4.0]]),
        "done": torch.tensor([[0], [1], [0], [0]]).bool(),
        "env_info": EnvInfo(timeout),
        "_fields": ("reward", "done", "env_info"),
    }
    if next_observation is not None:
        env["_fields"] += ("next_observation",)
        env["next_observation"] = next_observation
    value = torch.tensor([[9.0], [8.0], [6.0], [4.0]])
    agent = SimpleNamespace(
        agent_info=SimpleNamespace(value=value), bootstrap_value=torch.tensor([[10.0]]), action=None
    )
    return SimpleNamespace(env=SimpleNamespace(**env), agent=agent)


class Echo:
    """An agent whose values are its observations."""

    recurrent = False

    def __call__(self, observation: Any, action: Any, reward: Any) -> Any:
        return observation


def test_targets_by_hand() -> None:
    timeout = torch.tensor([[0], [1], [0], [0]]).bool()
    algo = PQN(discount=0.5, q_lambda=0.25)
    return_, valid = algo.compute_returns(samples(timeout))
    assert return_[:, 0].tolist() == [4.25, 2, 5.625, 9]
    assert valid is None
    algo.bootstrap_timelimit = True
    return_, valid = algo.compute_returns(samples(timeout))
    assert return_[:, 0].tolist() == [5, 8, 5.625, 9]  # The second is not trained on.
    assert valid is not None
    assert valid[:, 0].tolist() == [True, False, True, True]
    # The last observation is worth 6, others are not looked at.
    last = torch.tensor([[[3.0, 3.0]], [[6.0, 2.0]], [[3.0, 3.0]], [[3.0, 3.0]]])
    algo.agent = Echo()
    return_, valid = algo.compute_returns(samples(timeout, last))
    assert return_[:, 0].tolist() == [1 + 0.5 * (0.25 * 5 + 0.75 * 8), 5, 5.625, 9]
    assert valid is None


@pytest.mark.parametrize("recorded", [False, True])
def test_one_iteration(recorded: bool) -> None:
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


def test_schedules() -> None:
    run = cartpole(n_itr=4, learning_rate=0.1, eps_steps=32)
    rates, epsilons = [], []
    for itr in range(4):
        rates.append(run.algo.optimizer.param_groups[0]["lr"])
        run.train(itr, itr + 1)
        epsilons.append(run.agent.eps_sample)
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert epsilons == pytest.approx([1, 0.505, 0.01, 0.01])
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
def test_layers_that_are_normalized_keep_their_scale(dueling: bool) -> None:
    """Inputs a hundred times as large give nearly the same values."""
    convolution = {"channels": [4, 4], "kernel_sizes": [3, 3], "strides": [2, 1]}
    kwargs: dict[str, Any] = {"output_size": 3, "dueling": dueling}
    for layer_norm in (True, False):
        kwargs["layer_norm"] = layer_norm
        torch.manual_seed(0)
        models: list[Any] = [
            MlpDqnModel(observation_shape=(2, 9, 9), hidden_sizes=[16, 16], **kwargs),
            AtariDqnModel((2, 9, 9), fc_sizes=16, paddings=[0, 0], **convolution, **kwargs),
        ]
        x = 100 * torch.randn(5, 2, 9, 9)
        for model in models:
            q, larger = model(x, None, None), model(100 * x, None, None)
            assert q.shape == (5, 3)
            assert torch.allclose(q, larger, atol=0.05) == layer_norm


def test_images() -> None:
    convolution = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}

    def make() -> Setup:
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

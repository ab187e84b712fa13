"""Discrete SAC: losses by a table, exploration and evaluation, networks, what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_discrete_agent import AtariDiscreteSacAgent, DiscreteSacAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.core.masks import mask_values
from rlpyt.core.records import EnvSpaces
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.replays.non_sequence.time_limit import SamplesFromReplayTL
from tests.agents.qpg.sac_parts import UNIT
from tests.algos.pg.parts import Setup

SETTINGS: dict[str, Any] = {"batch_size": 8, "min_steps_learn": 16, "replay_size": 128}
CARTPOLE = {"id": "CartPole-v1"}


def cartpole(
    AgentCls: Any = DiscreteSacAgent, EnvCls: Any = gym.make, env_kwargs: Any = CARTPOLE, **kw: Any
) -> Setup:
    algo = DiscreteSAC(**{**SETTINGS, "replay_ratio": 2, **kw})
    return Setup(algo, AgentCls(model_kwargs={"hidden_sizes": [8]}), EnvCls, env_kwargs)


# --- Losses ---------------------------------------------------------------------------------------


class TableAgent(DiscreteSacAgent):
    """The same policy and values of two actions in every state."""

    def log_pi(self, observation: Any, prev_action: Any, prev_reward: Any) -> torch.Tensor:
        return torch.tensor([[0.25, 0.75]]).log().repeat(len(observation), 1)

    def q(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        return self.table([2.0, 4.0]), self.table([3.0, 0.0])

    def target_q(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        return self.table([8.0, 12.0]), self.table([16.0, 4.0])

    def table(self, values: list[float]) -> torch.Tensor:
        return torch.tensor([values]).repeat(3, 1)


H = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))


def table_samples() -> Any:
    inputs = (torch.zeros(3, 4), torch.zeros(3, dtype=torch.long), torch.zeros(3))
    done = torch.tensor([False, True, True])
    timeout = torch.tensor([False, False, True])
    return SamplesFromReplayTL(
        agent_inputs=inputs,
        target_inputs=inputs,
        action=torch.tensor([0, 1, 1]),
        return_=torch.tensor([1.0, 1, 100]),
        done=done,
        done_n=done,
        timeout=timeout,
        timeout_n=timeout,
    )


def table_losses(**settings: Any) -> tuple[Any, Any]:
    run = cartpole(TableAgent, n_step_return=2, discount=0.5, **settings)
    return run.algo, run.algo.loss(table_samples())[0]


def test_table() -> None:
    _, losses = table_losses(fixed_alpha=0.5, reward_scale=3)
    # V(s') = 1/4 * 8 + 3/4 * 4 + H / 2; the third sample does not count.
    y = 3 + 0.25 * (5 + H / 2)
    assert losses.q1.item() == pytest.approx(((y - 2) ** 2 + (3 - 4) ** 2) / 4)
    assert losses.q2.item() == pytest.approx(((y - 3) ** 2 + (3 - 0) ** 2) / 4)
    assert losses.pi.item() == pytest.approx(-H / 2 - 0.25 * 2)
    assert losses.alpha is None


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({}, 0.98 * math.log(2)),
        ({"target_entropy_fraction": 0.5}, 0.5 * math.log(2)),
        ({"target_entropy": 0.3}, 0.3),
    ],
)
def test_temperature_rises_while_the_entropy_is_below_its_target(
    settings: dict[str, Any], target: float
) -> None:
    algo, losses = table_losses(**settings)
    gradient = torch.autograd.grad(losses.alpha, algo._log_alpha)[0].item()
    assert gradient == pytest.approx(H - target, rel=1e-5)


class MaskedAgent(TableAgent):
    """States of which the second allows only the second action."""

    def log_pi(self, observation: Any, prev_action: Any, prev_reward: Any) -> torch.Tensor:
        logits = super().log_pi(observation, prev_action, prev_reward)
        mask = torch.ones_like(logits)
        mask[1, 0] = 0
        return torch.log_softmax(mask_values(logits, mask), dim=-1)


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ({}, (0.98 * math.log(2), 0)),
        ({"target_entropy_fraction": 0.5}, (0.5 * math.log(2), 0)),
        ({"target_entropy": 0.3}, (0.3, 0.3)),
    ],
)
def test_masks_lower_the_target_of_the_entropy(
    settings: dict[str, Any], targets: tuple[float, float]
) -> None:
    run = cartpole(MaskedAgent, **settings)
    losses, _ = run.algo.loss(table_samples())
    gradient = torch.autograd.grad(losses.alpha, run.algo._log_alpha)[0].item()
    assert gradient == pytest.approx((H - targets[0] + 0 - targets[1]) / 2, rel=1e-5)


def test_greatest_entropy_is_that_of_the_allowed_actions() -> None:
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]])  # The last is of an end.
    log_pi = torch.log_softmax(mask_values(torch.randn(3, 4), mask), dim=-1)
    expected = [0.98 * math.log(n) for n in (3, 1, 4)]
    assert cartpole().algo.target_entropies(log_pi).tolist() == pytest.approx(expected)


def test_losses_are_expectations_and_reach_one_network_each() -> None:
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


def test_uniform_actions_at_first_then_the_policy_then_its_mode() -> None:
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


def test_images() -> None:
    conv = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0], "fc_sizes": 16}
    agent = AtariDiscreteSacAgent(model_kwargs=conv)
    algo = DiscreteSAC(**SETTINGS, replay_ratio=2)
    run = Setup(algo, agent, Catch, {"img_shape": (20, 10), "num_img_obs": 3})
    before = [p.clone() for p in run.agent.parameters()]
    run.train(0, 8)
    assert not any(map(torch.equal, before, run.agent.parameters()))


def test_networks_of_policy_and_critics_may_differ() -> None:
    agent = DiscreteSacAgent(model_kwargs={"hidden_sizes": [8]}, q_model_kwargs={"dueling": True})
    run = Setup(DiscreteSAC(**SETTINGS), agent, gym.make, CARTPOLE)
    assert [getattr(run.agent, name).dueling for name in agent.network_names] == [False, True, True]


# --- Refusals -------------------------------------------------------------------------------------


def test_continuous_actions() -> None:
    with pytest.raises(ValueError, match="DiscreteSacAgent needs one discrete action"):
        DiscreteSacAgent().initialize(UNIT)
    discrete = EnvSpaces(UNIT.observation, gym.make(**CARTPOLE).action_space)
    with pytest.raises(ValueError, match="SacAgent needs actions that are an array"):
        SacAgent().initialize(discrete)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"action_prior": "gaussian"}, "action_prior"),
        ({"reparameterize": False}, "reparameterize"),
        ({"target_entropy_fraction": 1.5}, "target_entropy_fraction"),
    ],
)
def test_settings(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        cartpole(**settings)


def test_an_agent_for_continuous_actions() -> None:
    with pytest.raises(ValueError, match="DiscreteSacAgent"):
        Setup(DiscreteSAC(**SETTINGS), SacAgent(), gym.make, {"id": "Pendulum-v1"})
    with pytest.raises(ValueError, match="SacAgent"):
        Setup(SAC(**SETTINGS), DiscreteSacAgent(), gym.make, CARTPOLE)

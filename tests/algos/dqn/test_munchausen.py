"""Munchausen Q-learning: its formulas, the loss of every algorithm that takes it, its cost."""

import math

import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent
from rlpyt.algos.dqn.munchausen import MunchausenIQN
from rlpyt.algos.losses import munchausen_bonus, soft_quantiles, soft_value
from tests.agents.parts import made
from tests.algos.parts import make_algo, run
from tests.reference.q_learning import munchausen_target
from tests.reference.quantiles import quantile_huber

LOG2, LOG4 = math.log(2), math.log(4)
# values, temperature, action; soft value, tau * log pi of the action
TABLE = [
    ([0.0, 0.0], 1.0, 0, LOG2, -LOG2),
    ([3.0, 3.0, 3.0, 3.0], 0.5, 2, 3 + 0.5 * LOG4, -0.5 * LOG4),
    ([0.0, math.log(3)], 1.0, 0, LOG4, -LOG4),  # Probabilities 1/4 and 3/4.
    ([0.0, math.log(3)], 1.0, 1, LOG4, math.log(3) - LOG4),
    ([100.0, 99.0], 0.03, 0, 100.0, 0.0),
    ([100.0, 99.0], 0.03, 1, 100.0, -1.0),  # As the gap of the values, if it is large.
    ([5.0, -math.inf], 0.03, 0, 5.0, 0.0),  # An action that is not allowed.
]


@pytest.mark.parametrize(("q", "tau", "action", "value", "log_pi"), TABLE)
def test_by_hand(q, tau, action, value, log_pi):
    values = torch.tensor([q])
    assert soft_value(values, tau).item() == pytest.approx(value)
    for clip in (-10.0, -0.4):
        bonus = munchausen_bonus(values[:, action], values, 0.5, tau, clip)
        assert bonus.item() == pytest.approx(0.5 * max(log_pi, clip), abs=1e-5)


def test_quantiles_by_hand():
    q = torch.tensor([[0.0, math.log(3)]])  # Probabilities 1/4 and 3/4.
    quantiles = torch.tensor([[[4.0, 8.0, 0.0], [0.0, 4.0, 8.0]]])
    entropy = LOG4 / 4 + (LOG4 - math.log(3)) * 3 / 4
    expected = [1 + entropy, 5 + entropy, 6 + entropy]
    assert soft_quantiles(q, quantiles, 1.0)[0].tolist() == pytest.approx(expected)
    # Their mean is the soft value of their means.
    quantiles = torch.randn(6, 4, 5)
    q = quantiles.mean(-1)
    torch.testing.assert_close(soft_quantiles(q, quantiles, 0.3).mean(-1), soft_value(q, 0.3))


def test_shapes_are_checked():
    q = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="q_taken"):
        munchausen_bonus(q[:, :1], q, 0.9, 0.03, -1.0)
    with pytest.raises(ValueError, match="quantiles"):
        soft_quantiles(q, torch.zeros(3, 4, 2), 0.03)


SETTINGS = {"munchausen_alpha": 0.9, "entropy_tau": 0.2, "munchausen_clip": -0.3}


def test_loss_like_its_naive_twin():
    agent = made(MlpIqnAgent(n_tau=6, model_kwargs={"hidden_sizes": [8]}))
    fractions_drawn = {"n_tau": 3, "n_target_tau": 4}
    algo = make_algo(
        MunchausenIQN, agent, **SETTINGS, **fractions_drawn, target_update_interval=1000
    )
    run(algo, 0, 5)
    samples = algo.replay_buffer.sample_batch(8)
    torch.manual_seed(4)
    loss, errors = algo.loss(samples)
    torch.manual_seed(4)  # Fractions are drawn in the same order.
    outputs, fractions = agent(*samples.agent_inputs, n_tau=3)
    q_now = agent.target(*samples.agent_inputs)[0].mean(-1)
    both = agent.target(*samples.target_inputs, n_tau=10)[0]
    q_next, values = both[..., :6].mean(-1), both[..., 6:]

    total = 0.0
    for i in range(8):
        action = int(samples.action[i])
        targets = [
            munchausen_target(
                samples.return_[i].item(),
                bool(samples.done_n[i]),
                action,
                q_now[i].tolist(),
                q_next[i].tolist(),
                values[i, :, j].tolist(),
                0.99,
                *SETTINGS.values(),
            )
            for j in range(values.shape[-1])
        ]
        quantiles, tau = outputs[i, action].tolist(), fractions[i].tolist()
        one_loss, error = quantile_huber(quantiles, tau, targets, 1.0)
        total += one_loss / 8
        assert errors[i].item() == pytest.approx(error, rel=1e-3, abs=1e-5)
    assert loss.item() == pytest.approx(total, rel=1e-3)

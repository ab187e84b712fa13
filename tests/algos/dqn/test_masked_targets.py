"""Targets of value-based algorithms are values of allowed actions only, by hand."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.iqn_agent import IqnAgent
from rlpyt.agents.dqn.pqn_agent import PqnAgent
from rlpyt.agents.dqn.qrdqn_agent import QrDqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import record

# The best actions of both networks are forbidden in the first row; the second is of an end.
Q, TARGET_Q = [9.0, 4.0, 5.0, 9.0], [1.0, 3.0, 2.0, 7.0]
MASK = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]])
NEXT = [3.0, 7.0, 7.0, 7.0]
DOUBLE_NEXT = [2.0, 1.0, 1.0, 7.0]


@record
class Observation(NamedTuple):
    state: Any
    action_mask: Any


class Table(torch.nn.Module):
    """The same outputs for every observation, which must not have a mask."""

    def __init__(self, kind="value", **kwargs):
        super().__init__()
        self.kind = kind
        self.q = torch.nn.Parameter(torch.tensor(Q))

    def forward(self, state, prev_action, prev_reward, *more):
        assert isinstance(state, torch.Tensor)
        q = self.q.expand(*prev_reward.shape, 4)
        if self.kind == "quantile":
            n = more[0].shape[-1] if more else 2
            return q[..., None] + torch.linspace(-1, 1, n)
        if self.kind == "atoms":  # Between 0 and 10.
            return torch.stack([1 - q / 10, q / 10], dim=-1)
        return (q, torch.zeros(1, state.shape[-2], 1)) if self.kind == "recurrent" else q


SPACES = EnvSpaces(
    Composite([FloatBox(-1, 1, (3,)), IntBox(0, 2, (4,))], Observation), IntBox(0, 4)
)


def with_agent(algo, AgentCls, kind, **kwargs):
    algo.agent = AgentCls(ModelCls=Table, model_kwargs={"kind": kind}, **kwargs)
    algo.agent.initialize(SPACES)
    algo.agent.target_model.q.data = torch.tensor(TARGET_Q)
    return algo


def inputs(*lead):
    observation = Observation(torch.zeros(*lead, 4, 3), MASK.expand(*lead, 4, 4))
    return observation, torch.zeros(*lead, 4, dtype=torch.long), torch.zeros(*lead, 4)


@pytest.mark.parametrize("double_dqn", [False, True])
class TestTargets:
    def test_dqn(self, double_dqn):
        algo = with_agent(DQN(double_dqn=double_dqn), DqnAgent, "value")
        expected = DOUBLE_NEXT if double_dqn else NEXT
        assert algo.next_value(inputs()).tolist() == expected

    def test_c51(self, double_dqn):
        settings = {"V_min": 0, "V_max": 10, "double_dqn": double_dqn}
        algo = with_agent(CategoricalDQN(**settings), CatDqnAgent, "atoms", n_atoms=2)
        z = torch.tensor([0.0, 10.0])
        p = algo.next_p(inputs(), z)
        expected = torch.tensor(DOUBLE_NEXT if double_dqn else NEXT)
        torch.testing.assert_close(p, torch.stack([1 - expected / 10, expected / 10], dim=-1))

    @pytest.mark.parametrize(("AlgoCls", "AgentCls"), [(QRDQN, QrDqnAgent), (IQN, IqnAgent)])
    def test_quantiles(self, AlgoCls, AgentCls, double_dqn):
        algo = with_agent(AlgoCls(double_dqn=double_dqn), AgentCls, "quantile")
        if AlgoCls is IQN:
            algo.n_target_tau = algo.agent.n_tau
        quantiles = algo.next_quantiles(inputs())
        expected = torch.tensor(DOUBLE_NEXT if double_dqn else NEXT)
        if AlgoCls is IQN and not double_dqn:  # The second half of one row of fractions.
            expected = (
                expected + torch.linspace(-1, 1, 2 * algo.agent.n_tau)[algo.agent.n_tau :].mean()
            )
        torch.testing.assert_close(quantiles.mean(-1), expected)

    @pytest.mark.parametrize("n", [1, 3])
    def test_r2d1_with_ends(self, n, double_dqn):
        settings = {"batch_T": 4, "warmup_T": 2, "n_step_return": n, "double_dqn": double_dqn}
        algo = with_agent(R2D1(**settings), R2d1Agent, "recurrent")
        algo.mid_batch_reset = True
        T = 6 + n
        observation, action, reward = inputs(T)
        done = torch.zeros(6, 4, dtype=torch.bool)
        done[3, 1] = True
        samples = SimpleNamespace(
            all_observation=observation,
            all_action=action,
            all_reward=reward,
            done=done,
            init_rnn_state=None,
            _fields=(),
        )
        q, next_value = algo.sequence_values(samples)
        assert q[:, 0, 1:3].tolist() == [[4, 5]] * 4
        assert next_value.tolist() == [DOUBLE_NEXT if double_dqn else NEXT] * 4


def test_loss_at_an_end_that_allows_nothing():
    algo = with_agent(DQN(discount=0.5), DqnAgent, "value")
    algo.prioritized_replay = False
    samples = SimpleNamespace(
        agent_inputs=inputs(),
        action=torch.tensor([1, 0, 0, 3]),
        return_=torch.ones(4),
        done_n=torch.tensor([False, True, True, False]),
        target_inputs=inputs(),
        _fields=(),
    )
    loss, errors = algo.loss(samples)
    # Targets are 1 + 3/2, 1, 1 and 1 + 7/2; predictions are 4, 9, 9 and 9.
    assert errors.tolist() == [1, 1, 1, 1]
    assert loss.item() == pytest.approx((1.0 + 7.5 + 7.5 + 4.0) / 4)
    loss.backward()
    assert torch.isfinite(algo.agent.model.q.grad).all()


def test_values_of_pqn():
    agent = PqnAgent(ModelCls=Table)
    agent.initialize(SPACES)
    assert agent.value(*inputs()).tolist() == [5, 9, 9, 9]
    assert agent.step(*inputs()).agent_info.value.tolist() == [5, 9, 9, 9]

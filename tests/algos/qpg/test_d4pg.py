"""D4PG: what differs from DDPG."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer, TlUniformReplayBuffer
from tests.agents.qpg.ddpg_parts import made
from tests.algos.qpg.ddpg_parts import (
    RANGE,
    SETTINGS,
    batch,
    examples,
    filled,
    initialized,
    make_algo,
)


def test_agent_is_told_the_range() -> None:
    algo = make_algo(D4PG, made(D4pgAgent, n_atoms=5), V_min=-4, V_max=4)
    assert algo.agent.z.tolist() == [-4, -2, 0, 2, 4]


def test_table() -> None:
    """Atoms 0, 1, 2; all the target's probability is at 2, which moves to R + 0.5 * 2."""
    algo = D4PG(V_min=0, V_max=2, discount=0.5, n_step_return=1)
    p = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    algo.agent = SimpleNamespace(
        n_atoms=3,
        p=lambda *inputs: p,
        target_p_at_mu=lambda *inputs: torch.tensor([[0.0, 0.0, 1.0]]).expand(2, 3),
    )
    samples = SimpleNamespace(
        agent_inputs=(),
        target_inputs=(),
        action=None,
        return_=torch.tensor([0.5, 7.0]),
        done_n=torch.tensor([False, True]),
    )
    # To 1.5, half way between 1 and 2; and to 7, beyond the range.
    target_p = algo.target_p(samples)
    torch.testing.assert_close(target_p, torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]))
    assert algo.opt_info_fields == ("muLoss", "qLoss", "muGradNorm", "qGradNorm", "edgeMass")
    loss = algo.q_loss(samples, torch.ones(2))
    assert algo._edge_mass is not None
    assert algo._edge_mass.item() == (0.5 + 1) / 2
    expected = -(0.5 * np.log(0.3) + 0.5 * np.log(0.5) + np.log(0.8)) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert algo.q_loss(samples, torch.tensor([0.0, 1.0])).item() == pytest.approx(-np.log(0.8))


def test_range_that_is_too_small_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    algo = make_algo(D4PG, V_min=-0.1, V_max=0.1)
    infos = [algo.optimize_agent(i, batch(np.random.default_rng(i))) for i in range(4)]
    assert len(infos[-1].edgeMass) == 4
    assert min(infos[-1].edgeMass) > 0.1
    assert capsys.readouterr().out.count("widen V_min, V_max, now -0.1, 0.1") == 1


def test_policy_climbs_the_expectation() -> None:
    algo = filled(make_algo(D4PG))
    samples = algo.sample_from_replay()
    q = algo.agent.q_at_mu(*samples.agent_inputs)
    valid = algo.valid(samples)
    expected = -(q * valid).sum() / valid.sum()
    torch.testing.assert_close(algo.mu_loss(samples, valid), expected)


@pytest.mark.parametrize(
    ("has_timeout", "prioritized_replay", "BufferCls"),
    [
        (True, False, TlUniformReplayBuffer),
        (True, True, TlPrioritizedReplayBuffer),
        (False, True, PrioritizedReplayBuffer),
    ],
)
def test_class_of_buffer(has_timeout: bool, prioritized_replay: bool, BufferCls: Any) -> None:
    algo = D4PG(**SETTINGS, **RANGE, prioritized_replay=prioritized_replay, pri_alpha=0.3)
    initialized(algo, examples=examples(has_timeout))
    assert type(algo.replay_buffer) is BufferCls
    if prioritized_replay:
        assert (algo.replay_buffer.alpha, algo.replay_buffer.beta) == (0.3, 1.0)
    for itr in range(4):
        info = algo.optimize_agent(itr, batch(np.random.default_rng(itr), has_timeout))
    assert len(info.qLoss) == 4

"""The gate in its shortest form: it fails on faults made on purpose, not on other seeds.

All run with ``RLPYT_LEARNING_SEEDS=0 pytest tests/learning``.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from rlpyt.algos.pg.ppo import PPO
from rlpyt.experiments import gate

SEEDS = (1000, 1001, 1002)  # None of the baseline's.


class ShiftedPPO(PPO):
    """PPO whose advantages are those of the next step."""

    def compute_returns(self, samples, done):
        return_, advantage = super().compute_returns(samples, done)
        return return_, torch.roll(advantage, -1, dims=0)


GENERIC = "rlpyt.agents.pg.generic.GenericFfAgent"
SHIFTED = {"roles": {"algo": f"{__name__}.ShiftedPPO", "agent": GENERIC}}
CONSTANT = {"algo": {"target_update_interval": 10**9}}
FASTER = {"algo": {"learning_rate": 5e-2}}
variant = partial(pytest.param, marks=pytest.mark.variant)


@pytest.mark.parametrize(
    ("task", "changes", "is_worse"),
    [
        variant("ppo_cartpole", {}, False, id="other seeds"),
        variant("dqn_cartpole", {}, False, id="other seeds, with replay"),
        variant("dqn_cartpole", FASTER, True, id="rate x 10"),
        variant("ppo_cartpole", SHIFTED, True, id="advantages of the next step"),
        variant("dqn_cartpole", CONSTANT, True, id="constant targets"),
        variant("sac_pendulum", {}, False, id="other SAC seeds"),
        variant("sac_pendulum", CONSTANT, True, id="SAC, constant targets"),
    ],
)
def test_the_gate_fails_on_faults_only(task, changes, is_worse, tmp_path):
    for _ in gate.train(tmp_path, SEEDS, [task], changes):
        pass
    ((line, *_), _) = gate.compare(tmp_path)
    assert line.is_worse == is_worse, gate.table([line])

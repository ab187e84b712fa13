"""The gate in its shortest form: it fails on faults made on purpose, not on other seeds.

All run with ``RLPYT_LEARNING_SEEDS=0 pytest tests/learning``.
"""

from functools import partial

import pytest
import torch

from rlpyt.algos.pg.ppo import PPO
from rlpyt.experiments.gate import compare, table
from tests.learning import gate

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
    gate.train(tmp_path, SEEDS, [task], changes)
    ((line, *_), _) = compare(tmp_path, gate.BASELINE)
    assert line.is_worse == is_worse, table([line])


def test_short_runs_are_trained_once(tmp_path, monkeypatch):
    quick = ("ppo", "CartPole-v1", "batch_T=16", "hidden_sizes=8", "epochs=1", "threads=1")
    monkeypatch.setitem(gate.TASKS, "ppo_cartpole", (512, quick))
    words = [str(tmp_path), "--tasks", "ppo_cartpole", "--seeds", "2", "--seed", "7"]
    assert gate.main(words) in (0, 1)
    assert sorted(path.name for path in (tmp_path / "ppo_cartpole").iterdir()) == ["run_7", "run_8"]
    monkeypatch.setattr(gate, "runner_call", None)  # Nothing is trained before the refusal.
    with pytest.raises(ValueError, match="run_7"):
        gate.main([*words[:1], "--tasks", "sac_pendulum", "ppo_cartpole", *words[3:]])


def test_a_renewed_baseline_keeps_nothing_of_the_old_one(tmp_path):
    for n_runs in (3, 2):
        runs = tmp_path / str(n_runs)
        for seed in range(n_runs):
            directory = runs / "task" / f"run_{100 + seed}"
            directory.mkdir(parents=True)
            (directory / "progress.csv").write_text(f"{gate.STEPS},ReturnAverage\n10,1.23456\n")
        gate.keep(runs, tmp_path / "baseline")
    files = sorted((tmp_path / "baseline" / "task").rglob("*.csv"))
    assert [file.parent.name for file in files] == ["run_0", "run_1"]
    assert files[0].read_text().split() == [f"{gate.STEPS},ReturnAverage", "10,1.235"]

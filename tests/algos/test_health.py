"""Columns on the health of a run: what they measure, and that they change nothing."""

import csv
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN, values_of_best
from rlpyt.algos.health import Health, data_columns, network_columns
from rlpyt.core.records import AgentInputs
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from tests.determinism import dqn, pg
from tests.determinism.test_runs import CASES, run
from tests.golden.record import MORE
from tests.selection import FULL

Batch = namedarraytuple("Batch", ["agent_inputs", "action", "return_", "done_n"])


class Agent:
    """Half of the first layer's units are dead, and a tanh is saturated."""

    recurrent = False

    def __init__(self):
        first = torch.nn.Linear(3, 8)
        first.bias.data[:4] = -100
        second = torch.nn.Linear(8, 2)
        second.bias.data[0] = 100
        self.model = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.Tanh())
        self.model.append(torch.nn.Dropout(0.5))
        self.target_model = torch.nn.ReLU()

    def __call__(self, observation, prev_action, prev_reward):
        return self.model(observation)


@pytest.fixture
def algo():
    agent = Agent()
    return SimpleNamespace(
        agent=agent,
        knows_time_limits=True,
        discount=0.9,
        run_networks=partial(values_of_best, agent),
    )


@pytest.fixture
def batch():
    observation = torch.randn(16, 3) * torch.tensor([1.0, 10.0, 0.1])
    return_ = torch.tensor([0.0, 3.0] * 8)
    return Batch(AgentInputs(observation, None, None), None, return_, torch.zeros(16))


def test_units_with_one_output_are_dead(algo, batch):
    found = network_columns(algo, batch)
    hidden = torch.relu(algo.agent.model[0](batch.agent_inputs.observation))
    always_zero = sum(bool((unit == 0).all()) for unit in hidden.T)
    assert found["deadUnits.model.1"] == always_zero / 8 >= 0.5
    assert found["deadUnits.model.3"] == 0.5
    columns = batch.agent_inputs.observation.T
    largest = max(math.sqrt(sum(x * x for x in column.tolist()) / 16) for column in columns)
    assert found["inputScale"] == pytest.approx(largest, rel=1e-5)
    assert found["inputSpread"] == max(column.max() - column.min() for column in columns)
    assert found["activationScale"] == pytest.approx(hidden.square().mean().sqrt().item())
    assert sorted(found) == [
        "activationScale",
        "deadUnits.model.1",
        "deadUnits.model.3",
        "inputScale",
        "inputSpread",
        "valueScale",
    ]


def test_units_at_their_bounds_are_dead(algo, batch):
    algo.agent.model[2].weight.data *= 1e6
    assert network_columns(algo, batch)["deadUnits.model.3"] == 1


def test_networks_are_left_as_they_were(algo, batch):
    model = algo.agent.model
    model[0].eval()
    state = torch.get_rng_state()
    network_columns(algo, batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model] == [False, True, True, True, True]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model)


def test_scales_of_rewards_leave_out_zeros(algo, batch):
    found = data_columns(algo, batch)
    assert found["rewardScale"] == 3
    assert found["bootstrapsTimeLimits"] == 1
    assert found["discount"] == 0.9
    assert found["batchSize"] == 16


def test_entropy_is_weighed_by_rewards_or_advantages(algo, batch):
    algo._alpha, algo.reward_scale = torch.tensor([6.0]), 4
    assert data_columns(algo, batch)["entropyWeight"] == 6 / (3 * 4)
    algo.entropy_loss_coeff = 0.1
    on_policy = SimpleNamespace(_fields=("advantage",), advantage=torch.tensor([2.0, -2]))
    on_policy.return_ = batch.return_
    assert data_columns(algo, on_policy)["entropyWeight"] == pytest.approx(0.05)


def test_an_agent_that_cannot_be_measured_is_logged_once(algo, batch, monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "log", lines.append)
    del algo.agent.model[2]
    algo.run_update = lambda update, *batch: update(*batch)
    health = Health()
    health.is_due = True
    for _ in range(2):
        assert health.of_update(algo, len, batch) == len(batch)
        health.row(SimpleNamespace(clip_grad_norm=None, agent=SimpleNamespace(distribution=0)), {})
    assert [line for line in lines if "fewer columns" in line] == lines[:1]


# --- In runs --------------------------------------------------------------------------------------

MEASURED = {"dqn": dqn.cartpole, "ppo": MORE["ppo"], "td3": CASES["td3"], "crossq": CASES["crossq"]}
if FULL:
    MEASURED |= {name: CASES[name] for name in ("ppo lstm", "droq")}


def rows_of(directory):
    with open(directory / "run_0" / "progress.csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", MEASURED)
def test_measurements_change_no_number(name, tmp_path, monkeypatch, capsys):
    measured = run(MEASURED[name], MinibatchRl, tmp_path / "measured")
    row = rows_of(tmp_path / "measured")[-1]
    ratio = "qUpdateRatio" if name == "td3" else "q1UpdateRatio"
    ratio = "updateRatio" if {"dqn", "ppo"} & set(name.split()) else ratio
    assert 0 < float(row[ratio]) < 0.2
    assert any(column.startswith("deadUnits.") for column in row)
    frozen = [float(row[column]) for column in row if column.endswith("rozenLayers")]
    assert set(frozen) == {0.0}  # Delayed updates are found too.
    assert "inputScale" not in capsys.readouterr().out
    monkeypatch.setattr(Health, "begins", lambda self, update: False)
    unmeasured = run(MEASURED[name], MinibatchRl, tmp_path / "unmeasured")
    for a, b in zip(*(torch.utils._pytree.tree_leaves(x) for x in (measured, unmeasured))):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_one_update_before_a_row_is_measured(tmp_path, monkeypatch):
    measured = []
    of_update = Health.of_update

    def count(self, algo, update, *batch):
        measured.append(algo._itr)
        return of_update(self, algo, update, *batch)

    monkeypatch.setattr(Health, "of_update", count)
    run(MEASURED["ppo"], MinibatchRl, tmp_path)  # 160 steps; a row each 40, an iteration is 20.
    assert measured == [0, 2, 4, 6]
    monkeypatch.setattr("rlpyt.runners.minibatch_rl.HEALTH_ITRS", 1)
    run(MEASURED["ppo"], MinibatchRl, tmp_path / "later")
    assert measured[4:] == [1, 3, 5, 7]


def test_evaluated_runs_log_training_returns(tmp_path):
    run(pg.cartpole, MinibatchRlEval, tmp_path)
    returns = [float(row["TrainingReturn"]) for row in rows_of(tmp_path)]
    returns = [x for x in returns if not math.isnan(x)]
    assert returns
    assert all(5 < x < 200 for x in returns)


def test_a_target_network_that_stays_lags_by_all_updates(tmp_path, monkeypatch):
    def lags(name):
        run(dqn.cartpole, MinibatchRl, tmp_path / name)
        values = (float(row["targetLag"]) for row in rows_of(tmp_path / name))
        return [lag for lag in values if not math.isnan(lag)]

    assert set(lags("sound")) == {dqn.SETTINGS["target_update_interval"]}
    monkeypatch.setattr(DqnAgent, "update_target", lambda self, tau=1: None)
    *_, before, last = lags("unmoved")
    assert last == before + 10  # Updates in a row.


def test_layers_without_gradients_are_frozen(tmp_path):
    def make(RunnerCls, **kwargs):
        runner = MEASURED["ppo"](RunnerCls, **kwargs)
        runner.agent.initialize = partial(frozen, runner.agent.initialize, runner.agent)
        return runner

    def frozen(initialize, agent, *args, **kwargs):
        initialize(*args, **kwargs)
        for parameter in list(agent.model.parameters())[::2]:
            parameter.requires_grad_(False)

    run(make, MinibatchRl, tmp_path)
    assert float(rows_of(tmp_path)[-1]["frozenLayers"]) == 0.5


class OwnUpdate(DQN):
    """Takes steps without ``run_update``, as updates written for rlpyt 0.1.2."""

    def _apply_optimization(self, samples_from_replay, opt_info):
        self._finish_update(self.update_networks(samples_from_replay), opt_info)


def test_a_subclass_with_its_own_update_has_fewer_columns(tmp_path):
    def make(RunnerCls, **kwargs):
        runner = dqn.cartpole(RunnerCls, **kwargs)
        runner.algo.__class__ = OwnUpdate
        return runner

    run(make, MinibatchRl, tmp_path)
    assert "updateRatio" not in rows_of(tmp_path)[-1]


@pytest.mark.slow
def test_compiled_updates_are_measured(tmp_path):
    run(partial(dqn.cartpole, compile={"backend": "eager"}), MinibatchRl, tmp_path)
    assert 0 < float(rows_of(tmp_path)[-1]["updateRatio"]) < 0.2

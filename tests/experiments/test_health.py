"""Rules about what is wrong with a run: of the runs in docs/evidence, and of logs that have it."""

from pathlib import Path

import numpy as np
import pytest

from rlpyt.experiments.health import PAGE, RULES, Watch, findings, report
from rlpyt.experiments.health_log import Log, read_log
from rlpyt.experiments.results.runs import read_rows, write_rows
from rlpyt.utils.logging import logger
from tests.experiments.parts import invoke, refused

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "evidence" / "data"
ALL = sorted(DATA.glob("*/*_seed*.csv"))
DEAD = DATA / "ppo_pong_higher_rate" / "pong_seed1.csv"
# Runs that docs/evidence/index.md describes as failures too.
UNREWARDED = {
    *(DATA / "ppo_classic" / f"MountainCar-v0_seed{seed}.csv" for seed in range(5)),
    DATA / "ppo_rnd_classic" / "MountainCar-v0_seed0.csv",
}
FALLEN = {DATA / "a2c_1M_normalized" / "Walker2d-v5_seed1.csv"}
# Controls that find no reward, and a task in which few runs find one.
CONTROLS = {
    *(DATA / "hindsight_lock_without" / f"Lock_seed{seed}.csv" for seed in (1, 2, 3, 4)),
    *(DATA / "rnd_chain_without" / f"Chain_seed{seed}.csv" for seed in (1, 3, 4)),
}
RARE = {*DATA.glob("rnd_deep_sea*/*"), DATA / "hindsight_lock_without" / "Lock_seed0.csv"}
HEALTHY = set(ALL) - UNREWARDED - CONTROLS - RARE - FALLEN - {DEAD}


def names(file):
    return [finding.name for finding in findings(Log(read_rows(file)))]


def test_the_dead_seed_is_named_within_100000_steps_and_its_sibling_is_not():
    rows = [row for row in read_rows(DEAD) if float(row["CumSteps"]) <= 1e5]
    finding = findings(Log(rows))[0]
    assert finding.name == "dead network"
    assert finding.since == 49152
    assert names(DEAD)[0] == "dead network"
    assert names(DEAD.with_name("pong_seed0.csv")) == []


@pytest.fixture(scope="module")
def healthy():
    return {file: Log(read_rows(file)) for file in HEALTHY}


def test_no_healthy_run_is_accused(healthy):
    assert len(healthy) > 230
    assert [(file, found) for file, log in healthy.items() for found in findings(log)] == []


def test_no_healthy_run_counts_as_failed(healthy):
    # Two on Acrobot did: the deviation of their first returns is large.
    games = ("boxing", "breakout", "chopper_command", "gopher")
    as_random = {DATA / "atari_100k_der" / f"{game}_seed0.csv" for game in games}
    assert {file for file, log in healthy.items() if log.has_failed} == as_random


def test_failed_runs_are_named():
    assert {names(file)[0] for file in UNREWARDED} == {"rewards never differ"}
    assert all("rewards never differ" in names(file) for file in CONTROLS)
    assert {tuple(names(file)) for file in FALLEN} == {("policy collapsed",)}


@pytest.mark.slow
def test_no_healthy_run_is_accused_on_the_way():
    """Two runs that fell and rose again are accused in between, as is no other."""
    accused = set()
    for file in HEALTHY:
        rows = read_rows(file)
        for n in {2, 3, 4, *(len(rows) * k // 8 for k in range(1, 9))}:
            log = Log(rows[:n], {"runner.n_steps": float(rows[-1]["CumSteps"])})
            accused |= {(file.parent.name, file.name) for _ in findings(log)}
    assert accused <= {
        ("a2c_1M_normalized", "Hopper-v5_seed0.csv"),
        ("dqn_classic", "CartPole-v1_seed2.csv"),
    }


# --- Logs that have it ------------------------------------------------------------------------

N = 10
SOUND = {
    "CumSteps": np.arange(1, N + 1) * 1000,
    "ReturnAverage": np.linspace(20, 200, N),
    "ReturnStd": np.full(N, 10.0),
    "ReturnMax": np.linspace(30, 220, N),
    "ReturnMin": np.linspace(10, 180, N),
    "DiscountedReturnMax": np.linspace(30, 90, N),
    "DiscountedReturnMin": np.linspace(10, 80, N),
    "NonzeroRewardsAverage": np.linspace(20, 200, N),
    "LengthAverage": np.linspace(20, 200, N),
    "LengthMedian": np.linspace(20, 190, N),
    "LengthMax": np.linspace(30, 220, N),
    "entropyAverage": np.linspace(0.69, 0.3, N),
    "entropyShare": np.linspace(1.0, 0.43, N),
    "approxKLAverage": np.linspace(5e-3, 1e-7, N),
    "updateRatio": np.linspace(3e-3, 1e-6, N),
    "relativeRate": np.linspace(0.02, 0, N),
    "returnScale": np.linspace(3, 4, N),
    "valueScale": np.linspace(2, 4, N),
    "inputScale": np.full(N, 1.2),
    "deadUnits.model.1": np.linspace(0, 0.6, N),
    "explainedVarianceAverage": np.linspace(0.1, 0.9, N),
    "bootstrapsTimeLimits": np.full(N, 1.0),
    "CumUpdates": np.arange(1, N + 1) * 500,
    "ReplayRatio": np.full(N, 4.0),
    "discount": np.full(N, 0.99),
    "batchSize": np.full(N, 64),
    "replayAge": np.linspace(500, 5000, N),
    "targetLag": np.full(N, 200),
    "entropyWeight": np.full(N, 0.02),
    "inputSpread": np.full(N, 3.0),
    "activationScale": np.linspace(0.3, 5, N),
    "frozenLayers": np.zeros(N),
}
LOW = {"ReturnAverage": np.full(N, 20.0)}
REPLAY = {"entropyAverage": np.nan, "entropyShare": np.nan, "returnScale": np.nan}
FAILED = {**LOW, "ReturnMin": 12.0, "ReturnMax": 30.0, "LengthMax": [*range(30, 30 + N)]}
FAULTS = [
    ("too few updates", {**FAILED, "CumUpdates": 0, "ReplayRatio": np.nan}),
    ("too few updates", {**FAILED, "ReplayRatio": 0.01}),
    ("episodes of the wrong length", {**FAILED, "LengthMedian": 5, "LengthMax": 5}),
    (
        "episodes of the wrong length",
        {name: np.nan for name in SOUND if name.startswith(("Length", "Return", "Discounted"))},
    ),
    ("rewards never differ", {"ReturnAverage": -200.0, "ReturnStd": 0.0}),
    ("observations never differ", {"inputSpread": 0.0, "deadUnits.model.1": 1.0}),
    ("learning rate too low", {**FAILED, "updateRatio": 5e-5, "clippedGradients": 1.0}),
    ("learning rate too low", {"approxKLAverage": 1e-9}),
    ("frozen layers", {"frozenLayers": np.nan, "piFrozenLayers": 0.5, "qFrozenLayers": 0}),
    ("target network lags", {"targetLag": np.arange(N) * 500}),
    ("target network lags", {**FAILED, "targetLag": 1}),
    ("discount of the wrong size", {**FAILED, "discount": 0}),
    ("discount of the wrong size", {**FAILED, "discount": 1}),
    ("too little data", {**FAILED, "batchSize": 1}),
    ("too little data", {**FAILED, "replayAge": 60}),
    ("entropy outweighs rewards", {**FAILED, "entropyWeight": 10, "entropyShare": 0.999}),
    ("weights of the wrong scale", {"activationScale": 5000.0}),
    ("weights of the wrong scale", {"activationScale": 1e-6}),
    ("exploration ended too early", {**FAILED, "actionNoise": 0}),
    ("exploration never ends", {**FAILED, "epsilon": 0.95}),
    ("exploration never ends", {**FAILED, "entropyShare": 0.99}),
    ("return falls", {"ReturnAverage": [20, 15, 12, 11, 10, 9, 9, 9, 9, 9]}),
    (
        "values explain nothing",
        {**FAILED, "explainedVarianceAverage": 0.02, "deadUnits.model.1": 0},
    ),
    ("rewards of the wrong scale", {"returnScale": 3000.0}),
    ("rewards of the wrong scale", {**REPLAY, "rewardScale": 1e-4}),
    ("normalization missing", {"inputScale": 250.0}),
    (
        "learning rate too high",
        {"approxKLAverage": [np.inf] + [0.0] * (N - 1), "updateRatio": 1e-3},
    ),
    ("learning rate too high", {"relativeRate": 0.15}),
    ("learning rate too high", {"updateRatio": 0.1}),
    ("learning rate too low", {"updateRatio": 1e-7}),
    ("dead network", {"deadUnits.model.1": 0.95}),
    ("values diverge", {**REPLAY, "qMeanAverage": np.geomspace(1, 1e5, N)}),
    ("values diverge", {"valueScale": np.geomspace(1, 1e5, N)}),
    ("values diverge", {**REPLAY, "qMeanAverage": 600.0}),
    ("exploration ended too early", {**REPLAY, **LOW, "epsilon": 0.0}),
    (
        "policy collapsed",
        {**LOW, "entropyShare": [0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.01, 0]},
    ),
    ("exploration ended too early", {"entropyShare": np.geomspace(0.5, 1e-3, N)}),
    ("policy collapsed", {"ReturnAverage": [20, 60, 110, 150, 200, 190, 22, 21, 20, 20]}),
    ("evaluation unlike training", {"TrainingReturn": np.linspace(200, 900, N)}),
    (
        "time limit taken for an end",
        {"LengthMedian": 200, "LengthMax": 200, "bootstrapsTimeLimits": 0},
    ),
]


def written(file, changes=()):
    columns = {name: np.broadcast_to(x, N) for name, x in {**SOUND, **dict(changes)}.items()}
    write_rows(file, columns, zip(*columns.values()))
    return file


# What is close to a fault, and none.
SOUND_TOO = [
    {},
    {"ReturnStd": 0.0},  # The environment is deterministic.
    {"alphaUpdateRatio": 1.0},  # The temperature is no network.
    {"valueScale": np.linspace(6, 12, N)},
    {**REPLAY, "qMeanAverage": 600.0, "NonzeroRewardsAverage": 1.0},
    {**FAILED, "ReturnAverage": np.linspace(20, 17, N)},
    {**FAILED, "TrainingReturn": 35.0},
    {"LengthMedian": 199, "LengthMax": 199, "bootstrapsTimeLimits": 0},
]


@pytest.mark.parametrize("changes", SOUND_TOO)
def test_a_sound_log_has_no_findings(changes, tmp_path):
    assert names(written(tmp_path / "progress.csv", changes)) == []


@pytest.mark.parametrize(("name", "changes"), FAULTS)
def test_a_fault_is_named_first(name, changes, tmp_path):
    assert names(written(tmp_path / "progress.csv", changes))[0] == name


def test_every_rule_has_a_fault_and_a_section():
    rules = {rule.__name__.replace("_", " ") for rule in RULES}
    assert rules == {name for name, _ in FAULTS}
    page = (ROOT / PAGE).read_text().lower()
    assert [name for name in rules if f"## {name}\n" not in page] == []


def test_values_have_the_scale_of_rewards(tmp_path):
    rows = read_rows(written(tmp_path / "progress.csv", {**REPLAY, "qMeanAverage": 600.0}))
    assert findings(Log(rows, {"algo.reward_scale": 10})) == []


@pytest.mark.parametrize(
    ("holds", "known", "since"),
    [
        ([1, 1, 1], [1, 1, 1], 10),
        ([0, 1, 1], [1, 1, 1], 20),
        ([1, 0, 1], [1, 1, 1], None),  # One row is too few.
        ([1, 0, 1], [1, np.nan, 1], 10),
        ([1, 1, 0], [1, 1, 1], None),
    ],
)
def test_since_when_a_symptom_holds(holds, known, since):
    log = Log([{"CumSteps": steps} for steps in ("10", "20", "30")])
    assert log.since(np.array(holds) == 1, np.array(known)) == since


@pytest.mark.parametrize(
    ("gain", "spread", "has_learned"),
    [
        (10, [8, *[1] * 8], True),  # More than half of the first deviation, 4.
        (3, [8, *[1] * 8], False),
        (3, [0, *[9] * 8], False),  # Half of the mean one is 4 too.
        (3, [2, *[1] * 8], True),
    ],
)
def test_learning_is_a_rise_of_the_last_third(gain, spread, has_learned):
    returns = [*[0] * 6, *[gain] * 3]
    rows = [{"ReturnAverage": str(x), "ReturnStd": str(y)} for x, y in zip(returns, spread)]
    assert Log(rows).has_learned == has_learned


def test_a_transient_symptom_is_no_finding(tmp_path):
    changes = {"deadUnits.model.1": [0.95] * 9 + [0.5]}
    assert names(written(tmp_path / "progress.csv", changes)) == []


OF_FAILURES = [changes for _, changes in FAULTS if changes.keys() >= FAILED.keys()]


@pytest.mark.parametrize("changes", OF_FAILURES)
def test_some_faults_count_only_in_runs_that_are_over_and_have_not_learned(changes, tmp_path):
    fault = {name: x for name, x in changes.items() if name not in {*FAILED, "CumUpdates"}}
    assert names(written(tmp_path / "learned.csv", fault)) == []
    rows = read_rows(written(tmp_path / "failed.csv", changes))
    assert findings(Log(rows, {"runner.n_steps": 10 * N * 1000})) == []


def test_a_run_that_learned_nothing_is_told_without_a_cause(tmp_path):
    text = report(written(tmp_path / "progress.csv", FAILED))
    assert "0 findings" in text
    assert "NOTHING LEARNED: the mean return was 20 at first, and is 20" in text
    assert "NOTHING" not in report(written(tmp_path / "progress.csv"))


def test_the_report_has_ten_lines_at_most_and_says_what_the_log_lacks(tmp_path):
    changes = {name: value for _, fault in FAULTS for name, value in fault.items()}
    text = report(written(tmp_path / "progress.csv", changes))
    assert len(text.splitlines()) <= 10
    assert "not in this log" not in text
    output = invoke("diagnose", DEAD)
    assert "DEAD NETWORK since 49,152 steps" in output
    assert f"{PAGE}#dead-network" in output
    assert "not in this log: deadUnits, updateRatio, inputScale, timeLimits" in output


def test_a_run_without_rows_is_refused(tmp_path):
    (tmp_path / "progress.csv").touch()
    assert "has no rows" in refused("diagnose", tmp_path)
    (tmp_path / "run_0").mkdir()
    (tmp_path / "progress.csv").rename(tmp_path / "run_0" / "progress.csv")
    assert f"such as {tmp_path / 'run_0'}" in refused("diagnose", tmp_path)
    assert len(read_log(DEAD).steps) == 37


def test_watch_warns_once(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "get_snapshot_dir", lambda: str(tmp_path))
    monkeypatch.setattr(logger, "log", lines.append)
    watch = Watch()
    written(tmp_path / "progress.csv", {"inputScale": 250.0})
    for itr in range(2):
        watch.on_log(None, itr, [])
    assert [line.startswith("WARNING: NORMALIZATION MISSING") for line in lines] == [True]

"""Tables of docs/evidence: scores of a run by each metric, beside published figures of the same."""

import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STEPS, SECONDS = "Diagnostics/CumSteps", "Diagnostics/CumTime (s)"


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values())])


@pytest.fixture
def collect(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("collect", ROOT / "docs/evidence/collect.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DATA", tmp_path / "data")
    monkeypatch.setattr(module, "plot_learning_curves", lambda *args, **kwargs: None)
    return module


def test_metrics_of_a_setting(collect, tmp_path):
    runs = tmp_path / "runs/minatar_ppo/MinAtar-Breakout-v0"
    steps = [4.4e6, 4.6e6, 4.8e6, 5e6]
    for seed, returns in enumerate([[0, 9, 10, 14], [0, 11, 12, 13]]):
        columns = {STEPS: steps, "ReturnAverage": returns, SECONDS: steps}
        write(runs / f"seed{seed}/run_0/progress.csv", **columns)
    write(runs / "seed1/run_0/params_evaluation.csv", Return=[20, 31])
    collect.take_in(tmp_path / "runs")
    assert len(collect.draw_and_tabulate(tmp_path / "data/minatar_ppo")) == 2
    table = (tmp_path / "data/minatar_ppo/table.md").read_text()
    cells = [[cell.strip() for cell in row.split("|")] for row in table.splitlines()[2:]]
    assert [(row[2], row[3], row[5]) for row in cells] == [
        ("last 100 episodes", "2", "13.5"),
        ("T", "2", "11.5"),
        ("G", "1", "25.5"),
    ]
    assert [row[7] for row in cells] == [
        "-",
        "10 (DQN of Young and Tian, v0, 30 seeds)",
        "25.9 ± 2.6 (PPO with learning rate 1e-3, v0, 3 seeds)",
    ]


def test_runs_with_evaluation_have_no_training_return(collect, tmp_path):
    file = tmp_path / "Hopper-v5_seed0.csv"
    write(file, **{"Diagnostics/CumEvalTime": [1], STEPS: [1], "ReturnAverage": [2]})
    steps, returns = collect.read_columns(file, STEPS, "ReturnAverage")
    assert collect.scores(file, steps, returns) == {"last evaluation": 2}

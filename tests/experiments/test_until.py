"""Seeds are added to two settings until they differ; finished runs are not repeated."""

import json
import shutil

import numpy as np
import pytest

from rlpyt.experiments import until
from rlpyt.experiments.results.runs import read_rows, write_rows
from rlpyt.experiments.start import library_code
from rlpyt.experiments.until import Setting, compare_until
from tests.experiments.parts import invoke, refused

PPO = ["ppo", "CartPole-v1", "batch_T=10", "batch_B=4", "minibatches=2", "epochs=1", "threads=1"]


FIRST = {"new": 4, "old": 0}  # Seeds.


def train(directory, *words, seed=0, run_id=0):
    log = ["--log-dir", directory, "--run-id", run_id, "--seed", seed]
    invoke("train", *PPO, "log_interval_steps=40", *words, "--steps", 80, *log)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    train(directory / "new", "learning_rate=1e-3", seed=4)
    train(directory / "old", seed=0)
    return directory


@pytest.fixture
def settings(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "settings")


@pytest.fixture
def trained(monkeypatch):
    """The seeds that are trained; the runs have scores by setting."""
    seeds = []

    def train_run(setting, seed):
        run_dir = setting.runs.get(seed, setting.directory / f"run_{seed}")
        if not (run_dir / "progress.csv").exists():
            seeds.append((setting.directory.name, seed))
        scores = {"new": 200.0, "old": 100.0}
        rows = [(steps, scores[setting.directory.name] + seed) for steps in (40, 80)]
        write_rows(run_dir / "progress.csv", ("Diagnostics/CumSteps", "ReturnAverage"), rows)
        return run_dir

    monkeypatch.setattr(Setting, "train", train_run)
    return seeds


def test_seeds_are_added_one_by_one_until_the_test_decides(settings, trained):
    lines = []
    verdict = compare_until(settings / "new", settings / "old", tell=lines.append)
    assert verdict == "better"
    # The first run of each has seed 4 and 0; a later call has the same order.
    assert trained == [(name, seed + i) for i in range(1, 5) for name, seed in FIRST.items()]
    for name, seed in FIRST.items():
        setting = Setting(settings / name)
        setting.runs |= {seed + i: settings for i in range(1, 5)}
        assert [setting.seed(i) for i in range(5)] == [*range(seed, seed + 5)]
    assert len(lines) == 5
    assert lines[-1].startswith("5 seeds each: better in 1.00 of all pairs; decides at 1.00")


def test_worse_runs_are_the_exit_code(settings, trained):
    with pytest.raises(AssertionError, match="worse"):
        invoke("compare", settings / "old", settings / "new", "--until", 0.95, "--max-seeds", 8)


def test_a_run_is_trained_with_the_recorded_settings_and_only_once(settings):
    setting = Setting(settings / "new")
    run_dir = setting.train(1)
    record = json.loads((run_dir / "params.json").read_text())
    assert record["algo"]["learning_rate"] == 1e-3
    assert (record["seed"], record["code"]) == (1, library_code())
    rows = (run_dir / "progress.csv").read_text()
    again = Setting(settings / "new")
    assert sorted(again.runs) == [1, 4]
    assert again.train(1) == run_dir
    assert (run_dir / "progress.csv").read_text() == rows
    assert number_of_steps(run_dir) == 80
    # Its run equals one of `rlpyt train`.
    train(settings / "equal", "learning_rate=1e-3", seed=1)
    by_command, by_until = (
        [row["lossAverage"] for row in read_rows(path / "progress.csv")]
        for path in (settings / "equal" / "run_0", run_dir)
    )
    assert by_command == by_until


def number_of_steps(run_dir):
    return float(read_rows(run_dir / "progress.csv")[-1]["CumSteps"])


def test_other_code_is_refused(settings, monkeypatch):
    setting = Setting(settings / "old")
    monkeypatch.setattr(until, "library_code", lambda: "other")
    assert setting.train(0).name == "run_0"  # It is finished.
    with pytest.raises(ValueError, match="another version"):
        setting.train(1)


def test_mixed_directories_are_refused(settings):
    assert "other settings" in refused("compare", settings, settings / "old", "--until", 0.95)
    train(settings / "old", seed=0, run_id=1)
    with pytest.raises(ValueError, match="one seed"):
        Setting(settings / "old")
    with pytest.raises(ValueError, match="run_0 is a run, .*: give the directory above"):
        Setting(settings / "new" / "run_0")
    with pytest.raises(ValueError, match="has no run"):
        Setting(settings / "old" / "run_0" / "nothing")
    words = ("compare", settings / "new", settings / "old", "--until", 0.95)
    assert "leave out --paired" in refused(*words, "--paired")


def test_runs_of_other_environments_are_refused(settings):
    # Their scores were compared.
    file = settings / "old" / "run_0" / "params.json"
    file.write_text(file.read_text().replace("CartPole-v1", "Acrobot-v1"))
    with pytest.raises(ValueError, match=r"has the environment CartPole-v1, .* has Acrobot-v1"):
        compare_until(settings / "new", settings / "old")


def test_runs_of_other_lengths_are_refused(settings):
    # The longer ones were judged where the shorter ones end.
    file = settings / "old" / "run_0" / "params.json"
    file.write_text(file.read_text().replace('"n_steps": 80', '"n_steps": 8000'))
    with pytest.raises(ValueError, match="80 steps, those of .* 8,000: compare runs of one"):
        compare_until(settings / "new", settings / "old")


def test_scores_need_a_number_in_each_run(settings, trained):
    with pytest.raises(ValueError, match="has no column"):
        compare_until(settings / "new", settings / "old", y="GameScoreAverage")
    assert np.isfinite(number_of_steps(settings / "new" / "run_0"))

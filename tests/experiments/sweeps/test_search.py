"""Grids, random draws, and trials of Optuna that are real processes."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from rlpyt.experiments.sweeps import run
from rlpyt.experiments.sweeps.affinity import encode_affinity
from rlpyt.experiments.sweeps.run import read_status
from rlpyt.experiments.sweeps.search import run_search
from rlpyt.experiments.sweeps.spaces import Choice, Integer, Real, grid_variants, random_variants
from rlpyt.experiments.sweeps.variant import load_variant
from tests.forked import fork
from tests.waiting import wait_until

CODE = encode_affinity(1, cpu_per_run=1, hyperthread_offset=0, n_socket=1, set_affinity=False)
SPACE = {("algo", "x"): Real(-1.0, 1.0), ("algo", "kind"): Choice([[0], [1, 2]])}
# The return is 100 - x ** 2, and at each row closer to that.
SCRIPT = """
    import json, os, sys, time
    code, log_dir, run_ID = sys.argv[1:4]
    variant = json.load(open(os.path.join(log_dir, "variant_config.json")))
    assert variant["algo"]["kind"] in ([0], [1, 2]) and variant["runner"] == {"n_steps": 5}
    if os.path.exists(os.path.join(log_dir, "broken")):
        raise RuntimeError("broken")
    run_dir = os.path.join(log_dir, "run_" + run_ID)
    os.makedirs(run_dir, exist_ok=True)
    x = variant["algo"]["x"]
    with open(os.path.join(run_dir, "progress.csv"), "w") as file:
        print("CumSteps,Diagnostics/Score", file=file)
        print("0," + ("nan" if run_ID == "0" else "50"), file=file)  # Not all runs have a value.
        for step in range(1, 4):
            print(f"{step},{100 - x ** 2 - (3 - step) + int(run_ID)}", file=file, flush=True)
            time.sleep(0.5 if os.path.exists(os.path.join(log_dir, "slow")) else 0)
"""


@pytest.fixture
def optuna():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def search(tmp_path, script, n_trials, **kwargs):
    return run_search(
        script,
        CODE,
        str(tmp_path / "s"),
        kwargs.pop("space", SPACE),
        n_trials,
        **{"metric": "Score", "base": {"runner": {"n_steps": 5}}, **kwargs},
    )


def test_grid():
    variants, log_dirs = grid_variants(
        {("algo", "lr"): [0.1, 0.01], ("model", "sizes"): [[4, 4]], ("env", "id"): ["a/b", "c"]}
    )
    assert len(variants) == 4
    assert variants[1] == {"algo": {"lr": 0.1}, "model": {"sizes": [4, 4]}, "env": {"id": "c"}}
    assert log_dirs[0] == "lr_0.1/sizes_[4,4]/id_a-b"


def test_random_draws():
    space = {
        ("algo", "lr"): Real(1e-4, 1e-1, log=True),
        ("algo", "n"): Integer(1, 8, log=True),
        ("algo", "m"): Integer(3, 4),
        ("model", "kind"): Choice(["a", None]),
    }
    variants, log_dirs = random_variants(space, 2000, seed=3, base={"algo": {"fixed": 1}})
    assert log_dirs[:2] == ["draw_0000", "draw_0001"]
    assert random_variants(space, 2, 3, {"algo": {"fixed": 1}})[0] == variants[:2]
    assert random_variants(space, 2, 4)[0] != variants[:2]
    kinds = {("model", "kind"): Choice(["a", None]), ("algo", "m"): Integer(3, 4)}
    few, few_dirs = random_variants(kinds, 20, seed=0)  # Each once: all have the same seeds.
    assert len(few) == len(few_dirs) == 4
    assert all(few.count(variant) == 1 for variant in few)
    lrs = np.array([v["algo"]["lr"] for v in variants])
    assert lrs.min() >= 1e-4
    assert lrs.max() <= 1e-1
    # A third of the draws in each decade; 0.04 is four standard deviations.
    assert np.mean(lrs < 1e-3) == pytest.approx(1 / 3, abs=0.04)
    assert np.mean(lrs < 1e-2) == pytest.approx(2 / 3, abs=0.04)
    assert {v["algo"]["n"] for v in variants} == set(range(1, 9))
    # Each has the part of the scale that is rounded to it.
    is_one = [v["algo"]["n"] == 1 for v in variants]
    assert np.mean(is_one) == pytest.approx(np.log(1.5 / 0.5) / np.log(8.5 / 0.5), abs=0.04)
    assert {v["algo"]["m"] for v in variants} == {3, 4}
    assert {v["model"]["kind"] for v in variants} == {"a", None}
    assert {v["algo"]["fixed"] for v in variants} == {1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Real(2, 1), "low=2 .*high=1"),
        (lambda: Integer(0, 3, log=True), "low=0"),
        (lambda: Real(1, float("inf")), "high=inf"),
        (lambda: Choice([]), "values"),
    ],
)
def test_impossible_distributions(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_trials(script, tmp_path, optuna):
    study = search(tmp_path, script, 3, runs_per_setting=2, pruner=optuna.pruners.NopPruner())
    assert len(study.trials) == 3
    for trial in study.trials:
        value = 100 - trial.params["algo.x"] ** 2 + 0.5  # Mean of the two runs.
        assert trial.state.name == "COMPLETE"
        assert trial.value == pytest.approx(value)
        assert trial.intermediate_values == pytest.approx({1: value - 2, 2: value - 1, 3: value})
    assert len(list((tmp_path / "s").glob("trial_*/run_*/progress.csv"))) == 6


def test_a_misspelt_metric_ends_the_search_with_its_first_trial(script, tmp_path, optuna):
    script.write_text(script.read_text().replace("Diagnostics/Score", "ReturnAverage,Score"))
    with pytest.raises(ValueError, match="metric='Scoer' .*'Score'"):
        search(tmp_path, script, 5, metric="Scoer")
    assert len(list((tmp_path / "s").glob("trial_*/run_0/progress.csv"))) == 1


def test_a_trial_without_a_finished_episode_has_failed(script, tmp_path, optuna):
    """Its table has no column of returns."""
    column = '"CumSteps," + ("Return" if x > 0 else "Steps")'
    script.write_text(script.read_text().replace('"CumSteps,Diagnostics/Score"', column))
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = search(tmp_path, script, 6, metric="Return", sampler=sampler)
    states = {trial.params["algo.x"] > 0: trial.state.name for trial in study.trials}
    assert states == {True: "COMPLETE", False: "FAIL"}


def test_a_search_whose_trials_have_no_number_is_no_success(tmp_path, script, optuna):
    script.write_text(script.read_text().replace("range(1, 4)", "()"))
    with pytest.raises(ValueError, match="metric='Score'"):
        search(tmp_path, script, 2)
    with pytest.raises(ValueError, match="another sweep, with search"):
        search(tmp_path, script, 2, space={**SPACE, ("algo", "x"): Real(0, 1)})


def test_a_killed_search_goes_on(script, tmp_path, optuna):
    """Of four trials one finished, one failed, one was killed with its launcher, one is new."""
    log_dirs = [tmp_path / "s" / f"trial_000{n}" for n in range(4)]
    for n, marker in ((1, "broken"), (2, "slow")):
        log_dirs[n].mkdir(parents=True)
        (log_dirs[n] / marker).touch()
    launcher = fork(search, tmp_path, script, 3, output=tmp_path / "output")
    wait_until(lambda: list(log_dirs[2].glob("run_0/progress.csv")))
    launcher.kill()
    launcher.join()
    again = search(tmp_path, script, 4)
    assert [read_status(str(log_dir), 0).attempt for log_dir in log_dirs] == [1, 1, 2, 1]
    states = [trial.state.name for trial in again.trials]
    assert states == ["COMPLETE", "FAIL", "FAIL", "COMPLETE", "COMPLETE"]
    drawn = [load_variant(log_dir)["algo"]["x"] for log_dir in log_dirs]
    drawn.insert(2, drawn[2])  # The trial that was killed is there twice.
    assert [trial.params["algo.x"] for trial in again.trials] == drawn
    assert len(again.trials[3].intermediate_values) == 3
    (log_dirs[1] / "broken").unlink()
    retried = search(tmp_path, script, 4, retry_failed=True)
    assert [read_status(str(log_dir), 0).attempt for log_dir in log_dirs] == [1, 2, 2, 1]
    assert [trial.params["algo.x"] for trial in retried.trials[:5]] == drawn
    assert retried.trials[5].state.name == "COMPLETE"
    assert retried.trials[5].params == retried.trials[1].params
    (tmp_path / "s" / "optuna.log").unlink()
    with pytest.raises(ValueError, match=r"optuna\.log"):
        search(tmp_path, script, 4)


def test_a_trial_that_finished_after_its_launcher_has_its_value(script, tmp_path, optuna):
    # As jobs of SLURM do. It had failed, without a value.
    log_dir = tmp_path / "s" / "trial_0000"
    log_dir.mkdir(parents=True)
    (log_dir / "slow").touch()
    launcher = fork(search, tmp_path, script, 1, output=tmp_path / "output")
    wait_until(lambda: list(log_dir.glob("run_0/progress.csv")))
    launcher.kill()
    launcher.join()
    wait_until(lambda: not run.is_alive(str(log_dir), 0))
    status = read_status(str(log_dir), 0)
    run.write_status(str(log_dir), 0, replace(status, state=run.FINISHED))
    with (log_dir / "run_0" / "progress.csv").open("a") as file:
        print("3,42", file=file)
    again = search(tmp_path, script, 1)
    assert read_status(str(log_dir), 0).attempt == 1
    assert [trial.state.name for trial in again.trials] == ["FAIL", "COMPLETE"]
    assert again.trials[1].value == 42


def test_pruning(script, tmp_path, optuna):
    """The second trial is slow, and rejected at its first value; later launches skip it."""

    class RejectSecond(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return trial.number == 1 and trial.last_step is not None

    (tmp_path / "s" / "trial_0001").mkdir(parents=True)
    (tmp_path / "s" / "trial_0001" / "slow").touch()
    study = search(tmp_path, script, 3, pruner=RejectSecond())
    assert [t.state.name for t in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert read_status(str(tmp_path / "s" / "trial_0001"), 0).state == run.PRUNED
    rows = (tmp_path / "s" / "trial_0001" / "run_0" / "progress.csv").read_text().splitlines()
    assert len(rows) < 5
    # As if the launcher had been killed before it wrote the state.
    run.write_status(str(tmp_path / "s" / "trial_0001"), 0, run.RunStatus(run.INTERRUPTED, 1))
    again = search(tmp_path, script, 3)
    assert [t.state.name for t in again.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert read_status(str(tmp_path / "s" / "trial_0001"), 0).attempt == 1


def test_bad_input(script, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'rlpyt\[optuna\]'"):
        search(tmp_path, script, 1)
    monkeypatch.undo()
    pytest.importorskip("optuna")
    with pytest.raises(ValueError, match="n_trials=0"):
        search(tmp_path, script, 0)
    with pytest.raises(KeyError, match="kind"):
        search(tmp_path, script, 1, config={"algo": {"x": 0}, "runner": {"n_steps": 1}})
    assert not (tmp_path / "s").exists()

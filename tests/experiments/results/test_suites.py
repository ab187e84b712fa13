"""Runs on a suite, beside published scores of the same tasks."""

import csv
import json

import numpy as np
import pytest

from rlpyt.experiments.results.pictures import _style, draw_aggregates
from rlpyt.experiments.results.runs import STEPS, LoggedRun
from rlpyt.experiments.results.suites import AGGREGATES, SuiteComparison, load_suite
from tests.experiments.parts import invoke

DER = "DER (van Hasselt et al. 2019)"
SUITE = load_suite("atari_100k")


def write(directory, score, end=100_000):
    """Log of a run: random actions before, ``score`` after training."""
    directory.mkdir(parents=True)
    with (directory / "progress.csv").open("w", newline="") as file:
        rows = [(STEPS, "GameScoreAverage"), (0, -5), (end, score)]
        csv.writer(file).writerows(rows)
    return directory / "progress.csv"


def read(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_atari_100k_has_the_published_aggregates():
    """Agarwal et al. 2021 give the same median, mean and IQM for these scores."""
    assert len(SUITE.ranges) == 26
    scaled = [
        np.array([(SUITE.published[DER][task] - low) / (high - low)])
        for task, (low, high) in SUITE.ranges.items()
    ]
    found = [float(AGGREGATES[name](scaled)) for name in ("mean", "median", "IQM")]
    assert found == pytest.approx([0.285, 0.161, 0.142], abs=5e-4)


def test_the_score_is_the_evaluation_after_the_last_step(tmp_path):
    runs = [
        LoggedRun(write(tmp_path / f"run_{n}", score), "a", "boxing")
        for n, score in enumerate((0.1, 6.1, 12.1))
    ]
    runs.append(LoggedRun(write(tmp_path / "run_3", 99, end=90_000), "a", "boxing"))
    comparison = SuiteComparison(runs, SUITE, n_resamples=50)
    assert comparison.scores["boxing", "a"].tolist() == [0.1, 6.1, 12.1]
    values = {
        name: found.value for (name, label), found in comparison.aggregates.items() if label == "a"
    }
    assert values == pytest.approx({"IQM": 0.5, "median": 0.5, "mean": 0.5, "optimality gap": 0.5})
    der = (0.2 - 0.1) / 12
    assert comparison.aggregates["mean", DER].value == pytest.approx(der)
    assert np.isnan(comparison.aggregates["mean", DER].low)
    assert comparison.aggregates["mean", "a"].low < 0.5
    above = {label: (found.value > 0).sum() for label, found in comparison.profiles.items()}
    assert above["a"] > above[DER] > 0
    assert "Left out, ends at 90,000" in comparison.table()
    assert "are of 1 of 26 tasks; without runs: alien, amidar" in comparison.table()


@pytest.mark.parametrize("n_runs", [1, 3])
def test_without_intervals_the_scale_of_a_picture_begins_at_zero(n_runs, tmp_path):
    pytest.importorskip("matplotlib")
    runs = [LoggedRun(write(tmp_path / f"run_{n}", 6.1 + n), "a", "boxing") for n in range(n_runs)]
    figure = draw_aggregates(SuiteComparison(runs, SUITE._replace(published={}), n_resamples=50))
    begins = [axes.get_xlim()[0] <= 0 for axes in figure.axes]
    assert begins == [n_runs == 1] * len(AGGREGATES)


def test_a_label_has_its_colour_although_another_lacks_a_task(tmp_path):
    pytest.importorskip("matplotlib")
    games = {"a": ("boxing",), "b": ("boxing", "pong")}
    runs = [
        LoggedRun(write(tmp_path / label / game, 6.1), label, game)
        for label, played in games.items()
        for game in played
    ]
    comparison = SuiteComparison(runs, SUITE._replace(published={}), n_resamples=50)
    axes = draw_aggregates(comparison).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b"]
    assert axes.lines[0].get_color() == _style(comparison, "b")["color"]


def test_the_command_draws_runs_beside_published_scores(tmp_path):
    pytest.importorskip("matplotlib")
    for game, score in (("boxing", 12.1), ("pong", -20.7)):  # As a human, and as at random.
        params = write(tmp_path / "runs" / game / "run_0", score).with_name("params.json")
        params.write_text(json.dumps({"env": {"game": game}}))
    out = tmp_path / "out"
    words = [f"ours={tmp_path / 'runs'}", "--suite", "atari_100k", "--output", out]
    assert "human-normalized score" in invoke("plot", *words)
    assert (out / "aggregates.png").exists()
    found = {(row["statistic"], row["label"]): row for row in read(out / "aggregates.csv")}
    assert found.keys() == {(name, label) for name in AGGREGATES for label in ("ours", DER)}
    assert float(found["optimality gap", "ours"]["value"]) == pytest.approx(0.5)
    assert found["IQM", "ours"]["low"] == "nan"  # Of one run.
    assert {row["label"] for row in read(out / "profiles.csv")} == {"ours", DER}


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="there is no suite 'atari': choose one of atari_100k"):
        load_suite("atari")
    runs = [LoggedRun(write(tmp_path / "run_0", 1), "a", "chess")]
    with pytest.raises(ValueError, match="score_ranges lacks the task 'chess'"):
        SuiteComparison(runs, SUITE)

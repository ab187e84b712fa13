import csv
from functools import partial

import numpy as np
import pytest

from rlpyt.experiments.results import comparison
from rlpyt.experiments.results.comparison import ALL_TASKS
from rlpyt.experiments.results.runs import STEPS, LoggedRun

Comparison = partial(comparison.Comparison, n_resamples=200)


@pytest.fixture
def run(tmp_path):
    """Write a run whose values are given, one every ten steps."""
    count = iter(range(100))

    def write(label, values, task="", steps=None):
        path = tmp_path / f"{next(count)}.csv"
        steps = 10 * np.arange(1, len(values) + 1) if steps is None else steps
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([(STEPS, "ReturnAverage"), *zip(steps, values)])
        return LoggedRun(path, label, task)

    return write


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_curves_and_scores_of_one_task(run):
    runs = [run("a", [0, 2, 4]), run("a", [2, 2, 2]), run("b", [5, 5, 5])]
    found = Comparison(runs, score_fraction=0.5)
    curve = found.curves["", "a"]
    assert curve.x.tolist() == [10, 20, 30]
    assert curve.estimate.value.tolist() == [1, 2, 3]
    assert curve.estimate.low.tolist() == [0, 2, 2]
    assert curve.estimate.high.tolist() == [2, 2, 4]
    assert found.scores["", "a"].tolist() == [3, 2]  # Means over the steps 20 and 30.
    assert found.summary["", "a"].value == 2.5
    assert found.improvements["b"].value == 1
    assert list(found.improvements) == ["b"]
    assert not found.notes


def test_curves_end_where_the_shortest_run_ends(run):
    runs = [run("a", [0, 1, 2, 3]), run("a", [4, 4], steps=[8, 24]), run("b", [1, 1, 1, 9])]
    found = Comparison(runs, score_fraction=0.1)
    curve = found.curves["", "a"]
    assert curve.x.tolist() == [10, 20, 24]
    np.testing.assert_allclose(curve.estimate.value, [2, 2.5, 2.7])
    assert found.curves["", "b"].x.tolist() == [10, 20, 30, 40]
    # Scores are compared after equally many steps: at 24, between the rows of a.
    np.testing.assert_allclose(found.scores["", "a"], [1.4, 4])
    assert found.scores["", "b"] == [1]
    (note,) = found.notes
    assert "at 24 of 40" in note
    assert str(runs[1].csv_file) in note
    longer = Comparison(runs, min_steps=30)
    assert longer.scores["", "b"] == [9]
    assert longer.notes == [f"Left out, ends at 24: {runs[1].csv_file}"]
    assert not Comparison([run("a", range(n)) for n in (19, 20)]).notes


def test_curves_have_400_points_at_most_and_one_at_least(run):
    x = Comparison([run("a", range(1000))]).curves["", "a"].x
    assert (len(x), x[0], x[-1]) == (400, 10, 10_000)
    # The second begins where the first has ended.
    curve = Comparison([run("a", [1, 2]), run("a", [6, 7], steps=[30, 40])]).curves["", "a"]
    assert (curve.x.tolist(), curve.estimate.value.tolist()) == ([20], [4])


def test_a_score_is_of_the_last_part_without_its_first_step(run):
    assert Comparison([run("a", [1, 3])], score_fraction=0.5).scores["", "a"] == [3]


def test_runs_without_values_are_left_out(run):
    runs = [run("a", [1]), run("a", []), run("a", ["nan", "nan"])]
    found = Comparison(runs)
    assert found.n_runs("", "a") == 1
    assert len(found.notes) == 2
    assert "Left out, without a row yet" in found.notes[0]
    assert "Left out, without a number in ReturnAverage" in found.notes[1]
    with pytest.raises(ValueError, match="(?s)y='ReturnAverage'.*Left out"):
        Comparison(runs[1:])
    begun = run("a", [1])  # No episode has ended, so there is no such column.
    text = begun.csv_file.read_text()
    begun.csv_file.write_text(text.replace("ReturnAverage", "lossAverage"))
    (note,) = Comparison([runs[0], begun]).notes
    assert note == f"Left out, without a number in ReturnAverage: {begun.csv_file}"
    with pytest.raises(ValueError, match="no column 'ReturnAverage'"):
        Comparison([begun])


def test_a_single_run_has_no_interval(run):
    found = Comparison([run("a", [1, 2]), run("b", [1, 3]), run("b", [1, 4])])
    assert np.isnan(found.curves["", "a"].estimate.low).all()
    assert np.isfinite(found.curves["", "b"].estimate.low).all()
    assert np.isnan(found.improvements["b"].low)
    lines = found.table().splitlines()
    assert [line for line in lines if "none: one run only" in line and " 1 " in line]


def test_profiles_of_equal_scores_have_a_readable_axis(run):
    found = Comparison([run("a", [500, 500]), run("a", [500, 500])])
    assert found.thresholds[[0, -1]].tolist() == [450, 550]
    assert Comparison([run("a", [0, 0])]).thresholds[[0, -1]].tolist() == [-0.1, 0.1]


def test_numbers_of_a_table_keep_what_matters(run):
    # Large scores lost digits, the level was 100%, and nothing said which task counts more.
    runs = [run("a", [value], "large") for value in (-10119.3, 10220, 10321)]
    runs += [run("a", [value], "small") for value in (0.123456, 0.2)]
    text = Comparison(runs, confidence=0.999).table()
    assert "-10119 to 10321" in text
    assert "0.1235 to 0.2" in text
    assert "99.9% interval" in text
    assert "IQM and mean of a: tasks count by their number of runs" in text
    assert "tasks count" not in Comparison(runs[1:]).table()


def test_tasks_are_brought_to_one_scale(run):
    runs = [
        *(run("a", [0, value], "small") for value in (1, 2)),
        *(run("b", [0, value], "small") for value in (3, 5)),
        *(run("a", [0, value], "large") for value in (100, 200)),
        *(run("b", [0, value], "large") for value in (300, 500)),
    ]
    found = Comparison(runs)
    assert found.tasks == ["large", "small"]
    value = found.summary[ALL_TASKS, "a"].value
    assert value == (0 + 0 + 0.25 + 0.25) / 4 * 2 / 2  # Sorted 0, 0, 1/4, 1/4: the middle two.
    assert found.summary[ALL_TASKS, "b"].value == 0.75
    assert found.curves[ALL_TASKS, "b"].estimate.value.tolist() == [-0.25, 0.75]
    assert found.improvements["b"] == (1, 1, 1)
    assert found.profiles["a"].value[0] == 1
    assert found.profiles["a"].value[-1] == 0
    given = Comparison(runs, score_ranges={"small": (0, 10), "large": (0, 1000)})
    assert given.summary[ALL_TASKS, "b"].value == pytest.approx(0.4)
    with pytest.raises(ValueError, match="score_ranges .*'small' .*'smal'"):
        Comparison(runs, score_ranges={"smal": (0, 10), "large": (0, 1)})


def test_labels_without_runs_of_a_task_are_not_compared_over_all(run):
    runs = [run(label, [1, 2], task) for label, task in (("a", "x"), ("b", "x"), ("b", "y"))]
    found = Comparison(runs)
    assert found.complete_labels == ["b"]
    assert found.baseline == "b"
    assert ("x", "a") in found.curves
    assert (ALL_TASKS, "a") not in found.curves
    assert found.notes == ["Not compared over all tasks, since runs are missing: a"]
    neither = Comparison(runs[:1] + runs[2:])
    assert not neither.profiles
    assert not neither.improvements


def test_smoothing_changes_curves_and_no_scores(run):
    runs = [run("a", [0, 4, 8])]
    found = Comparison(runs, smooth=2)
    assert found.curves["", "a"].estimate.value.tolist() == [0, 2, 6]
    assert found.scores["", "a"] == [8]


def test_csv_files(run, tmp_path):
    runs = [run("a", [1, 2]), run("a", [3, 4]), run("b", [5, 6])]
    files = Comparison(runs, statistic="mean").write_csv(tmp_path / "out")
    assert {path.name for path in files} == {
        f"{name}.csv" for name in ("scores", "summary", "curves", "profiles", "improvement")
    }
    out = tmp_path / "out"
    assert [row["score"] for row in read(out / "scores.csv")] == ["2.0", "4.0", "6.0"]
    row = read(out / "curves.csv")[1]
    assert row == {
        "task": "", "label": "a", "runs": "2", STEPS: "20.0", "mean": "3.0", "low": "2.0",
        "high": "4.0",
    }  # fmt: skip
    assert read(out / "improvement.csv")[0]["low"] == "nan"
    assert len(read(out / "profiles.csv")) == 2 * 200


def test_refusals(run):
    runs = [run("a", [1]), run("b", [2])]
    with pytest.raises(ValueError, match="statistic='iqr'"):
        Comparison(runs, statistic="iqr")
    with pytest.raises(ValueError, match="baseline='c' must be one of a, b"):
        Comparison(runs, baseline="c")
    with pytest.raises(ValueError, match="score_fraction=10"):
        Comparison(runs, score_fraction=10)
    with pytest.raises(ValueError, match="did you mean 'ReturnAverage'"):
        Comparison(runs, y="ReturnAvg")

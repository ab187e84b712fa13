import csv
import json

import numpy as np
import pytest

from rlpyt.experiments.results.runs import (
    STEPS,
    files_of_runs,
    find_runs,
    moving_mean,
    read_columns,
    read_curve,
    read_rows,
)


@pytest.fixture
def write(tmp_path):
    def write_csv(name, *rows):
        with open(tmp_path / name, "w", newline="") as file:
            csv.writer(file).writerows(rows)
        return tmp_path / name

    return write_csv


NAN = float("nan")


@pytest.mark.parametrize(
    ("rows", "names", "expected"),
    [
        ([["a", "b", "c"], [1, 2.5, 3], [4, 5, 6]], ["c", "a"], [[3, 6], [1, 4]]),
        # They were mistaken for more columns, and blanks in a key for underscores.
        (
            [["a, b", "my key", 'q"'], ["x, y", 1, 2], [3, "nan", 4]],
            ["a, b", "my key", 'q"'],
            [[NAN, 3], [1, NAN], [2, 4]],
        ),
        (
            [["a"], *([no_number] for no_number in (" ", "True", "None", "1.0.0"))],
            ["a"],
            [[NAN] * 4],
        ),
        ([["a", "b"], [1], [2, 3]], ["b"], [[NAN, 3]]),
        # With a tensorboard writer.
        ([[STEPS, "Return/Average"], [10, 2]], ["ReturnAverage", "Return/Average"], [[2], [2]]),
    ],
)
def test_columns(write, rows, names, expected):
    columns = read_columns(write("progress.csv", *rows), *names)
    assert columns.dtype == np.float64
    np.testing.assert_array_equal(columns, expected)


def test_rows_by_the_last_part_of_their_names(write, tmp_path):
    path = write("progress.csv", [STEPS, "Return/Average"], [100, 1], [200, 2.5])
    assert read_rows(path) == [
        {"CumSteps": "100", "ReturnAverage": "1"},
        {"CumSteps": "200", "ReturnAverage": "2.5"},
    ]
    assert read_rows(tmp_path / "none.csv") == []


def test_half_a_row_at_the_end_is_left_out(write):
    """A crash may leave it, and half a number counted as one."""
    path = write("progress.csv", ["a", "b"], [1, 2])
    whole = path.read_bytes()
    for half in (b"3", b"3,4", b"3,\xff", bytes(9)):
        path.write_bytes(whole + half)
        assert read_columns(path, "a").tolist() == [[1]]
        assert [row["a"] for row in read_rows(path)] == ["1"]


@pytest.mark.parametrize("rows", [[], [["a", "b"]]], ids=["empty", "header"])
def test_a_run_that_has_just_begun(write, rows):
    with pytest.raises(ValueError, match=r"progress\.csv' has no rows yet"):
        read_columns(write("progress.csv", *rows), "a")


@pytest.mark.parametrize(
    ("name", "names"),
    [("RetrunAverage", "'ReturnAverage'"), ("cumsteps", "'Diagnostics/CumSteps'")],
)
def test_a_missing_column_with_the_closest_names(write, name, names):
    path = write("progress.csv", [STEPS, "ReturnAverage", "loss"], [1, 2, 3])
    with pytest.raises(ValueError, match=f"no column '{name}' .did you mean {names}") as caught:
        read_columns(path, name)
    assert "its columns are Diagnostics/CumSteps, ReturnAverage, loss" in str(caught.value)
    with pytest.raises(ValueError, match="no column 'xyz'; its columns"):
        read_columns(path, "xyz")


def test_before_an_episode_has_ended_there_is_no_return(write):
    path = write("progress.csv", [STEPS, "Diagnostics/CumCompletedTrajs"], [10, 0])
    with pytest.raises(ValueError, match="'ReturnAverage', and no episode has ended yet"):
        read_columns(path, "ReturnAverage")


def test_curve_without_what_is_no_number(write):
    rows = [["x", "y"], [1, ""], [2, 5], [3, "inf"], ["", 4], [4, 6]]
    assert read_curve(write("progress.csv", *rows), "y", "x").tolist() == [[2, 4], [5, 6]]
    nothing = write("other.csv", ["x", "y"], [1, "nan"])
    assert read_curve(nothing, "y", "x").shape == (2, 0)


def test_repeated_rows_of_a_continued_run_count_once(write):
    xs, ys = [1, 2, 3, 4, 3, 4, 4, 5], [1, 2, -3, -4, 3, -4, 4, 5]
    path = write("progress.csv", ["x", "y"], *zip(xs, ys))
    assert read_curve(path, "y", "x").tolist() == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]


def test_moving_mean():
    values = np.array([1.0, 3, 5, 10])
    assert moving_mean(values, 1).tolist() == [1, 3, 5, 10]
    assert moving_mean(values, 3).tolist() == [1, 2, 3, 6]
    with pytest.raises(ValueError, match="smooth=0 must be a number of rows"):
        moving_mean(values, 0)


@pytest.fixture
def make_run(tmp_path):
    def make(path, **params):
        directory = tmp_path / path
        directory.mkdir(parents=True)
        (directory / "progress.csv").write_text("x\n1\n")
        (directory / "params.json").write_text(json.dumps(params))
        return directory

    return make


def named(runs):
    return [(run.label, run.task) for run in runs]


def test_tree_of_a_sweep(make_run, tmp_path):
    for env, game in (("car", "Car-v0"), ("pole", "Pole-v1")):
        for rate in (0.1, 0.2):
            for run in (0, 1):
                make_run(f"sweep/{env}/fast/lr_{rate}/run_{run}", env={"id": game}, lr=rate)
    runs = find_runs([tmp_path / "sweep"])
    expected = [(f"lr_{rate}", game) for game in ("Car-v0", "Pole-v1") for rate in (0.1, 0.2)]
    assert named(runs) == [pair for pair in expected for _ in range(2)]
    assert runs[3].csv_file == tmp_path / "sweep/car/fast/lr_0.2/run_1/progress.csv"
    by = find_runs([tmp_path / "sweep"], by=["lr"], task="lr")
    assert named(by)[:4] == [("lr=0.1", "0.1")] * 2 + [("lr=0.2", "0.2")] * 2


def test_two_sweeps(make_run, tmp_path):
    for sweep in ("old", "new"):
        for env in ("car", "pole"):
            make_run(f"{sweep}/{env}/run_0", env_id=env)
    pairs = [("old", "car"), ("old", "pole"), ("new", "car"), ("new", "pole")]
    assert named(find_runs([tmp_path / "old", str(tmp_path / "new")])) == pairs
    mine = find_runs([f"my runs={tmp_path / 'old'}", f"b={tmp_path / 'new'}"])
    assert named(mine) == [("my runs", "car"), ("my runs", "pole"), ("b", "car"), ("b", "pole")]


def test_an_algorithm_is_a_label_though_each_has_its_own_task(make_run, tmp_path):
    """The runs of both used to count as one setting."""
    for algo, env in (("ppo", "CartPole-v1"), ("a2c", "MinAtar/Breakout-v1")):
        make_run(f"apart/{algo}/{env.split('/')[-1].lower()}/run_0", env_id=env)
        make_run(f"together/{algo}_{env[:4]}/run_0", env_id=env)
    assert [run.label for run in find_runs([tmp_path / "apart"])] == ["a2c", "ppo"]
    assert [run.label for run in find_runs([tmp_path / "together"])] == ["a2c_MinA", "ppo_Cart"]


def test_given_names_stay_though_each_has_its_own_task(make_run, tmp_path):
    for env in ("pong", "breakout"):
        make_run(f"{env}/run_0", env_id=env)
    runs = find_runs([f"DQN={tmp_path / 'pong'}", f"PPO={tmp_path / 'breakout'}"])
    assert named(runs) == [("DQN", "pong"), ("PPO", "breakout")]


def test_seeds_as_directories_are_no_settings(make_run, tmp_path):
    for seed in (0, 1):
        make_run(f"sac/seed{seed}/run_0")
    assert named(find_runs([tmp_path / "sac"])) == [("sac", "")] * 2
    assert named(find_runs([tmp_path / "sac/seed1/run_0"])) == [("sac", "")]


def test_directories_that_overlap_give_each_run_once(make_run, tmp_path):
    make_run("a/run_0")
    make_run("a/run_1")
    assert len(find_runs([tmp_path / "a", tmp_path / "a/run_0"])) == 2


def test_logs_inside_of_a_run_are_no_further_runs(make_run, tmp_path):
    # They counted as seeds.
    make_run("a/run_0")
    inside = make_run("a/run_0/divergence_5/reproduction/run_0")
    (run,) = find_runs([tmp_path])
    assert run.csv_file == tmp_path / "a/run_0/progress.csv"
    assert files_of_runs(tmp_path, "params.json") == [tmp_path / "a/run_0/params.json"]
    assert len(find_runs([inside.parent])) == 1


def test_settings_of_different_depth(make_run, tmp_path):
    make_run("sweep/a/run_0")
    make_run("sweep/b/c/run_0")
    assert [run.label for run in find_runs([tmp_path / "sweep"])] == ["a", "b/c"]


def test_a_run_without_parameters(make_run, tmp_path):
    (make_run("a/run_0") / "params.json").unlink()
    (make_run("b/run_0") / "params.json").write_text("{")
    assert named(find_runs([tmp_path])) == [("a", ""), ("b", "")]


def test_environments_that_are_classes_are_tasks(make_run, tmp_path):
    # They were one task without a name.
    for name in ("EnvA", "EnvB"):
        make_run(f"{name}/run_0", env={}, roles={"env": f"my.module.{name}"})
    make_run("other/run_0", env={}, roles={"env": "gym"})
    tasks = [run.task for run in find_runs([tmp_path])]
    assert tasks == ["my.module.EnvA", "my.module.EnvB", ""]


def test_refusals(make_run, tmp_path):
    make_run("a/run_0", algo={"learning_rate": 1})
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="progress.csv"):
        find_runs([tmp_path / "a", empty])
    (empty / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"empty' has no run: .*only notes\.txt"):
        find_runs([empty])
    with pytest.raises(ValueError, match="missing'"):
        find_runs([tmp_path / "missing"])
    with pytest.raises(ValueError, match=r"notes\.txt' is a file"):
        find_runs([empty / "notes.txt"])
    with pytest.raises(ValueError, match="directories is empty"):
        find_runs([])
    with pytest.raises(ValueError, match="'learning_rat' .*algo.learning_rate'"):
        find_runs([tmp_path / "a"], by=["learning_rat"])

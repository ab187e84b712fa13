import csv

import numpy as np
import pytest

from rlpyt.utils.logging import curves
from rlpyt.utils.logging.curves import STEPS, plot_learning_curves, read_columns


@pytest.fixture
def write(tmp_path):
    def write_csv(name, *rows):
        with open(tmp_path / name, "w", newline="") as file:
            csv.writer(file).writerows(rows)
        return tmp_path / name

    return write_csv


def test_columns_in_the_order_asked_for(write):
    path = write("progress.csv", ["a", "b", "c"], [1, 2.5, 3], [4, 5, 6])
    columns = read_columns(path, "c", "a")
    assert columns.dtype == np.float64
    assert columns.tolist() == [[3, 6], [1, 4]]
    assert read_columns(str(path), "b").tolist() == [[2.5, 5]]


def test_keys_and_fields_with_commas_and_blanks(write):
    """They were mistaken for more columns, and blanks in a key for underscores."""
    path = write("progress.csv", ["a, b", "my key", 'q"'], ["x, y", 1, 2], [3, "nan", 4])
    columns = read_columns(path, "a, b", "my key", 'q"')
    np.testing.assert_array_equal(columns, [[np.nan, 3], [1, np.nan], [2, 4]])


@pytest.mark.parametrize("field", ["", "True", "None", "1.0.0"])
def test_what_is_no_number_is_nan(write, field):
    path = write("progress.csv", ["a", "b"], [1, field])
    assert np.isnan(read_columns(path, "b")).all()


def test_fields_missing_at_the_end_of_a_row_are_nan(write):
    path = write("progress.csv", ["a", "b"], [1], [2, 3])
    np.testing.assert_array_equal(read_columns(path, "b"), [[np.nan, 3]])


@pytest.mark.parametrize("rows", [[], [["a", "b"]]], ids=["empty", "header"])
def test_a_run_which_has_just_begun(write, rows):
    with pytest.raises(ValueError, match=r"progress\.csv' has no rows yet"):
        read_columns(write("progress.csv", *rows), "a")


def test_a_missing_column_is_named(write):
    path = write("progress.csv", ["a", "b c"], [1, 2])
    with pytest.raises(ValueError, match=r"progress\.csv has no column 'd', only a, b c"):
        read_columns(path, "a", "d")


def test_mean_as_far_as_all_runs_reach():
    long = np.array([[0.0, 10, 20, 30], [0, 1, 2, 3]])
    short = np.array([[0.0, 8, 16, 24], [4, 4, 4, 4]])
    for runs, points in (([long, short], [0, 10, 20]), ([short, long], [0, 8, 16, 24])):
        x, y = curves._mean_curve(runs)
        assert x.tolist() == points
        np.testing.assert_allclose(y, (4 + x / 10) / 2)


def test_picture(write, tmp_path):
    pytest.importorskip("matplotlib")
    header = [STEPS, "ReturnAverage"]
    one = write("one.csv", header, [0, 1], [10, 2], [20, 3])
    two = write("two.csv", header, [0, 2], [10, 4])
    picture = tmp_path / "picture.png"
    plot_learning_curves({"both": [one, two], "single": [two]}, picture, title="Return")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 10_000

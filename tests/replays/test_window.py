"""Rows that may be sampled: values by hand."""

import numpy as np
import pytest

from rlpyt.replays._window import Window, runs


def valid(window):
    first, n_rows = window.newest_valid(window.T)
    return sorted((np.arange(first, first + n_rows) % window.T).tolist())


@pytest.mark.parametrize(
    ("first", "n_rows", "expected"),
    [
        (2, 3, [(2, 5)]),
        (5, 3, [(5, 8)]),
        (6, 4, [(6, 8), (0, 2)]),
        (-1, 3, [(7, 8), (0, 2)]),
        (8, 8, [(0, 8)]),
        (3, 8, [(3, 8), (0, 3)]),
        (3, 0, []),
    ],
)
def test_runs(first, n_rows, expected):
    assert runs(first, n_rows, T=8) == expected


@pytest.mark.parametrize(
    ("advances", "off_forward", "expected"),
    [
        ([4], 1, [1]),
        ([3], 1, []),
        ([6, 6], 1, [3, 4, 5, 6, 7, 8, 9]),
        ([10], 1, [1, 2, 3, 4, 5, 6, 7]),
        ([8], 3, [3, 4, 5]),
        ([8, 3], 3, [4, 5, 6, 7, 8]),
        ([8, 3, 4], 3, [0, 1, 2, 8, 9]),
    ],
)
def test_valid_rows_of_two_step_returns(advances, off_forward, expected):
    window = Window(T=10, B=4, off_backward=2, off_forward=off_forward)
    for n_rows in advances:
        window.advance(n_rows)
    assert valid(window) == expected


def test_newest_valid_rows():
    window = Window(T=10, B=1, off_backward=2, off_forward=1)
    window.advance(10)
    window.advance(2)
    assert window.newest_valid(3) == (-3, 3)
    assert window.newest_valid(100) == (-7, 7)


def test_a_window_without_room_is_refused():
    with pytest.raises(ValueError, match="size at least 20 "):
        Window(T=4, B=4, off_backward=3, off_forward=1)
    window = Window(T=5, B=4, off_backward=3, off_forward=1)
    with pytest.raises(ValueError, match="T=5 rows of B=4"):
        window.set_margins(3, 2)
    assert window.off_forward == 1


def test_more_rows_than_there_are_do_not_fit():
    window = Window(T=5, B=4, off_backward=3, off_forward=1)
    window.check_fits(5)
    with pytest.raises(ValueError, match="size at least 24"):
        window.check_fits(6)

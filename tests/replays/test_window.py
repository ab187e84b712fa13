"""Rows that may be sampled: values by hand."""

import pytest

from rlpyt.replays._window import Window, runs


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

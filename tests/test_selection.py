"""The selections of ``selection`` cover their tables, and are smaller."""

import itertools

import pytest

from tests.contracts import test_matrix as matrix
from tests.selection import covering, pairs_of

TABLES = {
    "synchronous": (matrix.SYNC_ALGOS, matrix.SAMPLERS, matrix.SYNC_RUNNERS),
    "asynchronous": (matrix.ASYNC_ALGOS, matrix.ASYNC_SAMPLERS, matrix.ASYNC_RUNNERS),
    "four axes": (range(3), range(4), range(2), range(3)),
}


@pytest.mark.parametrize("axes", TABLES.values(), ids=TABLES)
def test_every_pair_occurs(axes):
    cells = list(itertools.product(*axes))
    chosen = covering(cells)
    for i, j in itertools.combinations(range(len(axes)), 2):
        expected = set(itertools.product(axes[i], axes[j]))
        assert {(cell[i], cell[j]) for cell in chosen} == expected
    assert set(chosen) <= set(cells)
    assert len(set(chosen)) == len(chosen) < 0.6 * len(cells)


def test_two_axes_are_not_thinned():
    cells = list(itertools.product("abc", range(4)))
    assert covering(cells) == cells


def test_aspects_may_be_ones_own():
    cells = [(1, "a"), (1, "b"), (2, "b"), (3, "a")]
    assert covering(cells, set) == [(1, "a"), (2, "b"), (3, "a")]


def test_pairs_have_their_places():
    assert pairs_of("aab") == {((0, "a"), (1, "a")), ((0, "a"), (2, "b")), ((1, "a"), (2, "b"))}
    assert not pairs_of("ab") & pairs_of("ba")

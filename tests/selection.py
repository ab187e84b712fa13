"""Which cells of a large table are tested: all with ``RLPYT_FULL=1``, else enough to cover it."""

import itertools
import os

FULL = os.environ.get("RLPYT_FULL") == "1"


def pairs_of(cell):
    """Any two coordinates of a cell, with their positions."""
    return set(itertools.combinations(enumerate(cell), 2))


def covering(cells, aspects=pairs_of):
    """A few of the cells that together have every aspect that all of them have.

    Always takes the cell with most of what is still missing, of equal ones the first, so that the
    same cells are chosen in every process.

    Args:
        aspects: gives the set of what one cell tests.
    """
    aspects_of = {cell: aspects(cell) for cell in cells}
    missing = set().union(*aspects_of.values())
    chosen = []
    while missing:
        best = max(aspects_of, key=lambda cell: len(aspects_of[cell] & missing))
        chosen.append(best)
        missing -= aspects_of[best]
    return sorted(chosen, key=list(aspects_of).index)


def selected(cells, aspects=pairs_of):
    """All cells if the whole table was asked for, else :func:`covering` ones."""
    return list(cells) if FULL else covering(cells, aspects)


def each_once(*values):
    """Cells that have each value in its place, if it hardly matters which of them meet."""
    return selected(itertools.product(*values), aspects=lambda cell: set(enumerate(cell)))

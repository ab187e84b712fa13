"""Every algorithm beside an independent oracle, and the page that tells of it."""

from pathlib import Path

import pytest

from tests.oracles.comparing import LOSS_LIMIT, PARAMETER_LIMIT
from tests.oracles.mutations import MUTATIONS
from tests.oracles.registry import ORACLES

PAGE = Path(__file__).parents[2] / "docs" / "oracles.md"


@pytest.mark.parametrize("name", ORACLES)
def test_equal(name):
    assert ORACLES[name].run().agrees()


def table(name):
    """The rows of a table of the page, without its head."""
    text = PAGE.read_text().partition(f"<!-- {name} -->\n\n")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]


def test_page_tells_what_was_compared():
    """Its numbers may be those of another processor."""
    rows = table("oracles")
    assert [tuple(row[:3]) for row in rows] == [entry.labels() for entry in ORACLES.values()]
    for *_, moved, apart, _, losses in rows:
        assert float(apart) < PARAMETER_LIMIT * float(moved)
        assert float(losses) <= LOSS_LIMIT


def test_page_tells_what_was_made_worse():
    found = {name: set(algorithms.split("; ")) for name, algorithms in table("mutations")}
    assert found == {
        name: {ORACLES[oracle].algorithm for oracle in oracles}
        for name, (_, oracles) in MUTATIONS.items()
    }

"""Every algorithm beside an independent oracle, and the page that tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracles.comparing import LOSS_LIMIT, PARAMETER_LIMIT
from tests.oracles.registry import ORACLES

PAGE = Path(__file__).parents[2] / "docs" / "oracles.md"


@pytest.mark.parametrize("name", ORACLES)
def test_equal(name: str) -> None:
    assert ORACLES[name].run().agrees()


def test_page_tells_what_was_compared() -> None:
    """Its numbers may be those of another processor."""
    table = PAGE.read_text().partition("<!-- oracles -->")[2]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    found = {tuple(row[:3]): row[3:] for row in ([x.strip("| ") for x in row] for row in rows[1:])}
    assert list(found) == [entry.labels() for entry in ORACLES.values()]
    for moved, differ, _, losses in found.values():
        assert float(differ) <= PARAMETER_LIMIT * float(moved)
        assert float(losses) <= LOSS_LIMIT

"""Compares every algorithm with its oracle, and fills the tables in ``docs/oracles.md``.

    python docs/_ext/oracle_table.py

The comparisons are those of ``tests/oracles``, where a test compares the page with them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "oracles.md"
TABLE = re.compile(r"(<!-- (oracles|mutations) -->\n)\n(?:\|.*\n)*\n?")


def digit(x: float) -> str:
    """Return a number with one digit."""
    mantissa, exponent = f"{x:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}" if x else "0"


def comparisons() -> Iterable[Sequence[str]]:
    """Yield the rows of the comparisons, made now."""
    from tests.oracles.registry import ORACLES

    yield "algorithm", "oracle", "settings", "weights moved", "differ by", "losses", "differ by"
    for entry in ORACLES.values():
        found = entry.run()
        moved, apart, losses = found.moved(), found.parameters(), found.relative()
        yield *entry.labels(), digit(moved), digit(apart), ", ".join(found.losses), digit(losses)


def mutations() -> Iterable[Sequence[str]]:
    """Yield the rows of what is made worse, and which comparisons must fail."""
    from tests.oracles.mutations import MUTATIONS
    from tests.oracles.registry import ORACLES

    yield "what is made worse", "comparisons that must fail"
    for name, (_, oracles) in MUTATIONS.items():
        algorithms = dict.fromkeys(ORACLES[oracle].algorithm for oracle in oracles)
        yield name, "; ".join(algorithms)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, of which the first is the head, in Markdown."""
    head, *lines = (f"| {' | '.join(row)} |\n" for row in rows)
    return "".join([head, "|---" * (head.count("|") - 1) + "|\n", *lines])


TABLES = {"oracles": comparisons, "mutations": mutations}

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    text = PAGE.read_text()
    PAGE.write_text(TABLE.sub(lambda m: f"{m[1]}\n{table(TABLES[m[2]]())}\n", text))

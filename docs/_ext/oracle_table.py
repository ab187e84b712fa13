"""Compares every algorithm with its oracle, and fills the table in ``docs/oracles.md``.

    python docs/_ext/oracle_table.py

The comparisons are those of ``tests/oracles``, which also compare the page with them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "oracles.md"
TABLE = re.compile(r"(<!-- oracles -->\n)\n(?:\|.*\n)*\n?")
HEAD = "algorithm", "oracle", "settings", "weights moved", "and differ by", "losses", "differ by"


def digit(x: float) -> str:
    """Return a number with one digit."""
    mantissa, exponent = f"{x:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}" if x else "0"


def table() -> str:
    """Return the table, from comparisons made now."""
    from tests.oracles.registry import ORACLES

    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for entry in ORACLES.values():
        found = entry.run()
        numbers = digit(found.moved()), digit(found.parameters()), digit(found.relative())
        row = (*entry.labels(), *numbers[:2], entry.losses, numbers[2])
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    text = PAGE.read_text()
    PAGE.write_text(TABLE.sub(lambda match: f"{match[1]}\n{table()}\n", text))

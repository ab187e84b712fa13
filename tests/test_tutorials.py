"""The notebooks of the tutorials hold their pages, whose programs ``test_documentation`` runs."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from tests.test_documentation import programs

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
SCRIPT = runpy.run_path(str(TUTORIALS / "notebooks.py"))
PAGES = SCRIPT["pages_with_notebook"]()


def test_every_notebook_has_a_page() -> None:
    assert {page.stem for page in PAGES} == {file.stem for file in TUTORIALS.glob("*.ipynb")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_notebook_is_its_page(page: Path) -> None:
    """If not, ``python docs/tutorials/notebooks.py`` writes it."""
    text = page.with_suffix(".ipynb").read_text()
    assert text == SCRIPT["notebook"](page.read_text())
    code = ["".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
    assert code == [program.strip() for program in programs(page)]

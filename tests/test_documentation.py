"""The programs in README and documentation run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlpyt.utils.logging import context

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def programs(page: Path) -> list[str]:
    """The Python blocks of a page, each preceded by empty lines so that errors name its line."""
    text = page.read_text()
    blocks = re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in blocks]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if programs(page)], ids=lambda page: page.name
)
def test_programs_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path / "data"))
    scope: dict[str, Any] = {"__name__": "__main__"}
    for program in programs(page):
        exec(compile(program, str(page), "exec", dont_inherit=True), scope)


def links(page: Path) -> list[str]:
    """The relative links of a page."""
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in links(page) if not (page.parent / link).exists()]
    assert not missing

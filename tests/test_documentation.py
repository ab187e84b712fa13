"""The programs in README and documentation run as they are printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlpyt.experiments.command import main
from rlpyt.utils.logging import context

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *(p for p in sorted(DOCS.rglob("*.md")) if "_build" not in p.parts)]


def name(page: Path) -> str:
    """The path of a page in the repository."""
    return str(page.relative_to(ROOT))


def programs(page: Path) -> list[str]:
    """The Python blocks of a page, each preceded by empty lines so that errors name its line."""
    text = page.read_text()
    blocks = re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in blocks]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if programs(page)], ids=name)
def test_programs_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path / "data"))
    if '"runs/cartpole/run_0"' in "".join(programs(page)):
        words = ["ppo", "CartPole-v1", "--steps", "256", "--log-dir", "runs/cartpole"]
        CliRunner().invoke(main, ["train", *words], catch_exceptions=False)
    if "onnxruntime" in "".join(programs(page)):
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    scope: dict[str, Any] = {"__name__": "__main__"}
    for program in programs(page):
        exec(compile(program, str(page), "exec", dont_inherit=True), scope)


def links(page: Path) -> list[str]:
    """The relative links of a page."""
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in links(page) if not (page.parent / link).exists()]
    assert not missing


def test_tables_of_algorithms_are_those_of_the_classes() -> None:
    """If not, ``python docs/_ext/algorithm_tables.py`` writes them."""
    tables = runpy.run_path(str(DOCS / "_ext" / "algorithm_tables.py"))
    texts = {page: page.read_text() for page in tables["PAGES"].glob("*.md")}
    assert [name(page) for page, text in texts.items() if tables["filled"](text) != text] == []

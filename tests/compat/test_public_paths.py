"""What may be imported from ``rlpyt.experiments``: the names on the page about extending."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"


def public():
    """Full names in the table; a name without a module is in that of the name before it."""
    section = PAGE.read_text().partition("## What stays")[2]
    rows = [line for line in section.splitlines() if line.startswith("|") and "`rlpyt" in line]
    names, module = [], ""
    for name in re.findall("`([^`]+)`", "".join(rows)):
        if "." in name:
            module = name.rpartition(".")[0]
        names.append(name if "." in name else f"{module}.{name}")
    return names


@pytest.mark.parametrize("name", public())
def test_public_names_can_be_imported(name):
    module, _, attribute = name.rpartition(".")
    if not hasattr(import_module(module), attribute):
        import_module(name)


def test_documents_and_examples_import_public_names_only():
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[a-d]*/*.md")]
    files += [*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
    files += [*(ROOT / "docs" / "tutorials").glob("*.md"), ROOT / "README.md"]
    used = set()
    for file in files:
        for module, names in re.findall(
            r"^from (rlpyt\.experiments[\w.]*) import ([\w, ]+)$", file.read_text(), re.MULTILINE
        ):
            used |= {f"{module}.{name.strip()}" for name in names.split(",")}
    assert used
    assert used <= set(public())

"""Write the notebooks of the tutorials from their pages: ``python docs/tutorials/notebooks.py``.

A page that links to a notebook of its name has one. A test compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

PAGES = Path(__file__).parent


def pages_with_notebook() -> list[Path]:
    """Return the pages that link to their notebook."""
    pages = sorted(PAGES.glob("*.md"))
    return [page for page in pages if f"({page.stem}.ipynb)" in page.read_text()]


def cells(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and content of each cell: a Python block, or the text up to the next one."""
    for i, part in enumerate(re.split(r"```python\n(.*?)```\n", text, flags=re.DOTALL)):
        if i % 2 == 0:
            part = re.sub(r".*\.ipynb\).*\n\n?", "", part)  # The link to the notebook.
            part = re.sub(r"\{py:\w+\}`~?([\w.]+)`", r"`\1`", part)  # References of the site.
        if part.strip():
            yield ("code" if i % 2 else "markdown"), part.strip()


def notebook(text: str) -> str:
    """Return the notebook of a page, without outputs."""
    found = []
    for i, (kind, content) in enumerate(cells(text)):
        cell = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}}
        if kind == "code":
            cell.update({"execution_count": None, "outputs": []})
        found.append({**cell, "source": content.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all notebooks."""
    for page in pages_with_notebook():
        page.with_suffix(".ipynb").write_text(notebook(page.read_text()))


if __name__ == "__main__":
    main()

"""The commands of the README, what ``.ci/run`` runs, and what the package requires."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

import rlpyt

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def command_lines() -> list[str]:
    """The lines of the README's shell blocks."""
    blocks = re.findall(r"```bash\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def test_readme_commands_set_up_their_own_environments() -> None:
    environments = re.findall(r"^python3 -m venv (\S+) && ", "\n".join(command_lines()), re.M)
    assert environments == [".venv", ".venv-test"]


def test_readme_counts_the_tests() -> None:
    (count,) = re.findall(r"over ([\d,]+) tests", README.read_text())
    texts = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    n_tests = sum(len(re.findall(r"^ *def test_", text, re.M)) for text in texts)
    assert 0 < n_tests - int(count.replace(",", "")) < 200


def test_version_and_date_are_the_same_everywhere() -> None:
    changes, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    ((version, date),) = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", changes, re.M)[:1]
    assert version == rlpyt.__version__
    assert f'version: {version}\ndate-released: "{date}"\n' in citation


def test_readme_counts_the_pythons() -> None:
    minors = re.findall(r"Python :: 3\.(\d+)", (ROOT / "pyproject.toml").read_text())
    assert f"Python 3.{minors[0]} to 3.{minors[-1]}" in README.read_text()


TOOL = """#!/bin/sh
echo "${0##*/} $*" >> calls
[ "${0##*/}" = "$BROKEN" ] && echo "the reason" && exit 3
exit 0
"""
PYTHON = f"""#!/bin/sh
mkdir -p .venv-test/bin
for tool in pip python mypy sphinx-build ruff; do
    printf '%s' '{TOOL}' > .venv-test/bin/$tool
    chmod +x .venv-test/bin/$tool
done
"""


@pytest.mark.parametrize("broken", ["", "pip", "python", "mypy", "sphinx-build", "ruff"])
def test_ci_runs_the_command_of_the_readme_and_the_checks(broken: str, tmp_path: Path) -> None:
    """In an environment whose tools only note their arguments, and one of them fails."""
    (command,) = (line for line in command_lines() if ".venv-test" in line)
    checkout = tmp_path / "checkout"
    for name in ("README.md", ".ci/run"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text((ROOT / name).read_text())
    stale = checkout / ".venv-test" / "stale"
    stale.mkdir(parents=True)
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text(PYTHON)
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", str(checkout / ".ci" / "run")],
        env={**os.environ, "PATH": path, "BROKEN": broken},
        capture_output=True,
        text=True,
    )
    assert result.stdout.splitlines()[0] == f"+ {command}"
    assert (result.returncode != 0) == bool(broken), "a failing step must fail the whole"
    assert ("the reason" in result.stdout) == bool(broken)
    assert not stale.exists(), "the virtual environment was not a new one"
    calls = [line.split()[0] for line in (checkout / "calls").read_text().splitlines()]
    tests = ["pip", "python"] if broken != "pip" else ["pip"]
    assert calls[: len(tests)] == tests
    assert sorted(calls[len(tests) :]) == ["mypy", "ruff", "ruff", "sphinx-build"]


def requirement_names() -> dict[str, bool]:
    """Every distribution that rlpyt asks for -> whether it does without any extra."""
    return {
        re.split(r"[^\w-]", requirement)[0].lower(): "extra ==" not in requirement
        for requirement in metadata.requires("rlpyt") or []
    }


def test_every_requirement_is_pinned() -> None:
    text = "".join((ROOT / f"constraints{kind}.txt").read_text() for kind in ("", "-gpu"))
    pinned = re.findall(r"^([\w-]+)==\d[\w.]*(?: ; |$)", text, re.M)
    assert len(pinned) == len(set(pinned))
    assert requirement_names().keys() - {"rlpyt"} <= set(pinned)


def test_links_of_the_description_work_outside_of_the_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setuptools = pytest.importorskip("setuptools")
    given: dict[str, str] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **kwargs: given.update(kwargs))
    runpy.run_path(str(ROOT / "setup.py"))
    links = re.findall(r"\]\(([^)]+)\)", given["long_description"])
    assert any(f"/v{rlpyt.__version__}/docs/" in link for link in links)
    assert not [link for link in links if not link.startswith(("https://", "#"))]


def test_every_dependency_is_explained() -> None:
    table = (ROOT / "docs" / "dependencies.md").read_text()
    explained = re.findall(r"^\| `([\w-]+)`", table, re.M)
    assert {name for name, always in requirement_names().items() if always} <= set(explained)

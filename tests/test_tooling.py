"""Lint, format, types and documentation are tests, so that one command checks everything."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import rlpyt

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def run(*arguments: str, seconds: float = 600) -> None:
    """Run a module of this Python in the repository; what it printed is the failure's message."""
    command = [sys.executable, "-m", *arguments]
    # Warnings are errors in the tests; what the tools warn of themselves is not ours to mend.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert result.returncode == 0, f"{' '.join(arguments)}\n{result.stdout}"


def test_lint() -> None:
    run("ruff", "check", ".")


def test_format() -> None:
    run("ruff", "format", "--check", ".")


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_types() -> None:
    run("mypy")


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_documentation_builds_without_warnings(tmp_path: Path) -> None:
    """Every page is read and every reference resolved; HTML and source would double the time."""
    doctrees, site = tmp_path / "doctrees", tmp_path / "site"
    dummy = ("-b", "dummy", "-W", "--keep-going", "-q", "-E", "-d", str(doctrees))
    run("sphinx", *dummy, "-t", "without_source", "docs", str(site))


def command_lines() -> list[str]:
    """The lines of the README's shell blocks."""
    blocks = re.findall(r"```bash\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def test_readme_commands_set_up_their_own_environments() -> None:
    environments = re.findall(r"^python3 -m venv (\S+) && ", "\n".join(command_lines()), re.M)
    assert environments == [".venv", ".venv-test"]


def test_ci_runs_the_test_command_of_the_readme(tmp_path: Path) -> None:
    """With a ``python3`` that only repeats its arguments, ``.ci/run`` shows what it would run."""
    (command,) = (line for line in command_lines() if ".venv-test" in line)
    checkout = tmp_path / "checkout"
    for name in ("README.md", ".ci/run"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text((ROOT / name).read_text())
    stale = checkout / ".venv-test" / "stale"
    stale.mkdir(parents=True)
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "python3 $*"\nexit 3\n')
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", str(checkout / ".ci" / "run")],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert result.stdout.splitlines() == [f"+ {command}", "python3 -m venv .venv-test"]
    assert result.returncode == 3, "a failing step must fail the whole"
    assert not stale.exists(), "the virtual environment was not a new one"


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

"""Checks in environments of their own: the matrix of tests, lint, the site, the package.

    nox                                     # the matrix, with the Pythons that this machine has
    nox -s "tests(3.12-newest)"             # one cell of it
    nox -s "tests(3.10-oldest)" -- tests/replays -m "not slow"
    nox -s lint docs package
    nox -s gate                             # before a release: whether it learns as it did

Each Python is tested with the newest dependencies, and the oldest Python also with the oldest ones.
Both lists come from ``pyproject.toml``: classifiers, and lower limits of dependencies.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nox

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
OLDEST = [
    re.sub(r">=([\d.]+)$", r"==\1.*", requirement)
    for requirement in PROJECT["project"]["dependencies"]
]

nox.options.sessions = ["tests"]


@nox.session
@nox.parametrize(
    ("python", "dependencies"),
    [
        *(nox.param(python, "newest", id=f"{python}-newest") for python in PYTHONS),
        nox.param(PYTHONS[0], "oldest", id=f"{PYTHONS[0]}-oldest"),
    ],
)
def tests(session: nox.Session, dependencies: str) -> None:
    """Run the tests, or those that the arguments select."""
    if dependencies == "oldest":
        session.install("-e", ".[atari,test]", *OLDEST)
    else:
        session.install("-e", ".[all,test]")
    arguments = session.posargs or ["-n", "3", "--dist", "worksteal"]
    session.run("python", "-m", "pytest", *arguments)


@nox.session
def gate(session: nox.Session) -> None:
    """Train the tasks of the gate, and compare them with its baseline."""
    session.install("-e", ".")
    runs = Path(session.create_tmp(), "runs")
    shutil.rmtree(runs, ignore_errors=True)
    session.run("python", "-m", "tests.learning.gate", str(runs), *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and types."""
    session.install("-c", "constraints.txt", "-e", ".[all,dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site."""
    session.install("-c", "constraints.txt", "-e", ".[all,dev]")
    session.run("sphinx-build", "-W", "docs", "docs/_build")


@nox.session
def package(session: nox.Session) -> None:
    """Build the archive of the source and from it the wheel, check both, and use the wheel."""
    session.install("build", "twine")
    dist = Path("dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    files = sorted(map(str, dist.iterdir()))
    session.run("twine", "check", "--strict", *files)
    (wheel,) = dist.glob("*.whl")
    session.install(f"{wheel}[plot]")
    session.chdir(session.create_tmp())  # Where no source is.
    session.run("rlpyt", "--version")
    session.run("rlpyt", "train", "ppo", "CartPole-v1", "--steps", "2048", "--log-dir", "run")
    session.run("rlpyt", "export", "run/run_0", "policy.pt2")
    sweep = ("ppo", "CartPole-v1", "learning_rate=1e-3,3e-4", "--steps", "2048")
    session.run("rlpyt", "sweep", *sweep, "--log-dir", "grid")
    session.run("rlpyt", "plot", "grid", "--output", "figures")

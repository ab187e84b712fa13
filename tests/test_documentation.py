"""The programs in README and documentation run as they are printed; commands can be typed so."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import shutil
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import metadata
from importlib.util import find_spec, module_from_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.distributed.run import get_args_parser

from rlpyt.envs.toy import TMaze
from rlpyt.experiments.command import main
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.sweeps import pools
from rlpyt.experiments.train import configuration
from rlpyt.utils.logging import context
from tests.experiments.parts import invoke
from tests.selection import FULL

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *(p for p in sorted(DOCS.rglob("*.md")) if "_build" not in p.parts)]
LONGEST = 250  # Steps of a run.
STEPS = re.compile(r"\b((?:n_|\w*interval_)?steps|min_steps_learn)=(\d[\d.e]*)")
REACHED = re.compile(r"^assert .* >= .*$", re.MULTILINE)  # What only the whole run reaches.


def name(page: Path) -> str:
    """The path of a page in the repository."""
    return str(page.relative_to(ROOT))


def programs(page: Path) -> list[str]:
    """The Python blocks of a page, each preceded by empty lines so that errors name its line."""
    text = page.read_text()
    blocks = re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in blocks]


def shortened(page: Path) -> list[str]:
    """The programs of a page, with runs of at most ``LONGEST`` steps; whole with ``RLPYT_FULL=1``.

    Intervals, and the steps before learning, become shorter by the same factor.
    """
    lengths = [float(value) for name, value in STEPS.findall("".join(programs(page)))]
    factor = LONGEST / max(lengths, default=1)
    if factor >= 1 or FULL:
        return programs(page)
    return [
        STEPS.sub(
            lambda found: f"{found[1]}={round(factor * float(found[2]))}", REACHED.sub("", program)
        )
        for program in programs(page)
    ]


def with_programs() -> list[Any]:
    """Pages with programs; a sweep, and memory with three networks, with ``RLPYT_FULL=1``."""
    full = {DOCS / name: pytest.mark.full for name in ("sweeps.md", "algorithms/sac_lstm.md")}
    marks = {page: full.get(page, pytest.mark.slow) for page in PAGES if programs(page)}
    return [pytest.param(page, marks=mark, id=name(page)) for page, mark in marks.items()]


@pytest.mark.parametrize("page", with_programs())
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
    for program in shortened(page):
        exec(compile(program, str(page), "exec", dont_inherit=True), scope)


def links(page: Path) -> list[str]:
    """The relative links of a page."""
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    return [link for link in found if "://" not in link]


def test_links_lead_somewhere() -> None:
    found = [(page, link) for page in PAGES for link in links(page)]
    assert [(name(page), link) for page, link in found if not (page.parent / link).exists()] == []


def test_tables_of_algorithms_are_those_of_the_classes() -> None:
    """If not, ``python docs/_ext/algorithm_tables.py`` writes them."""
    tables = runpy.run_path(str(DOCS / "_ext" / "algorithm_tables.py"))
    texts = {page: page.read_text() for page in tables["PAGES"]}
    assert [name(page) for page, text in texts.items() if tables["filled"](text) != text] == []


# --- Commands -------------------------------------------------------------------------------------

COMMAND_PAGES = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    ROOT / "rlpyt" / "experiments" / "command.py",
    *sorted((ROOT / "examples").glob("*.py")),
]
# Beginnings of commands that are not tried, and why.
NOT_TRIED = {
    "git clone": "needs the network",
    "python3 -m venv": "prepares for pip",
    "source ": "belongs to the shell",
    "cd ": "belongs to the shell",
    "'head=$(scontrol'": "needs SLURM",
    "ray start ": "starts a cluster",
    **dict.fromkeys(("ruff ", "mypy", "sphinx-build "), "checks, which .ci/run does"),
    "rlpyt sweep atari_100k/der --suite": "starts the emulators of 26 games",
    "rlpyt plot DER=runs/der --suite": "needs runs of games",
    "python cleanrl/": "belongs to CleanRL",
    "python docs/zoo/make.py": "trains for hours",
}
# What may stand before the program.
BEFORE = r"^((srun|[A-Z_]+=\S*) )*(\.venv[\w-]*/bin/)?(python -m (?=pytest))?"
# Commands in the text.
PROGRAMS = r"(?:[A-Z_]+=\S+ )*(?:rlpyt \w+ |python \S+\.py|torchrun |pytest |pip install )[^`\n]*"
# Words that stand for others there; such commands are not whole.
PLACEHOLDERS = r"\.\.\.|<|\b(N|ENV|RUNS|BASELINE|DIRECTORIES|TABLE/ENTRY|name=value)\b"


def lines(page: Path) -> list[str]:
    """The shell lines of a page: in blocks, in the text, in the docstrings of a module."""
    text = page.read_text()
    if page.suffix == ".py":
        return re.findall(r"^    ((?:rlpyt|python|torchrun) .+)$", text, flags=re.MULTILINE)
    blocks = "".join(re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL))
    inline = re.findall(f"`({PROGRAMS})`", text)
    whole = [line for line in inline if not re.search(PLACEHOLDERS, line)]
    optional = [re.sub(r"\[(--[^]]+)\]", r"\1", line) for line in whole]
    return [*blocks.replace("\\\n", " ").splitlines(), *optional]


def commands(page: Path) -> list[str]:
    """The commands of a page, one program each, without variables of the environment."""
    found = []
    for line in lines(page):
        for is_end, words in groupby(shlex.split(line, comments=True), "&&".__eq__):
            command = re.sub(BEFORE, "", shlex.join(words))
            found += [] if is_end else [command]
    return found


COMMANDS = dict.fromkeys(command for page in COMMAND_PAGES for command in commands(page))


def try_rlpyt(words: list[str]) -> None:
    """Do what ``rlpyt`` does before it trains; what is quick, do as a whole."""
    name, *rest = words
    if name == "sweep":
        invoke(*words, "--dry-run")
    elif name in ("list", "evaluate", "plot", "compare", "diagnose") and "--until" not in words:
        invoke(*words)
    else:
        given = main.commands[name].make_context(name, rest).params
        if name in ("train", "doctor") and given.get("origin") is None:
            config = configuration(given["what"], given["arguments"], given["steps"])
            runner_call(config).make()


class Parsed(Exception):
    """Ends a script that has parsed its arguments."""


def try_python(words: list[str]) -> None:
    """Run a script of the repository, or a module, until it has parsed its arguments."""
    if words[0] == "-m":
        words = [find_spec(words[1]).origin, *words[2:]]
    script, *arguments = ROOT / words[0], *words[1:]
    parse_args = argparse.ArgumentParser.parse_args

    def parse(parser: argparse.ArgumentParser, *_: Any) -> None:
        parse_args(parser, arguments)
        raise Parsed

    if "parse_args" not in script.read_text():
        assert not arguments
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(script.parent)
        patch.setattr(argparse.ArgumentParser, "parse_args", parse)
        with pytest.raises(Parsed):
            runpy.run_path(str(script), run_name="__main__")


def try_torchrun(words: list[str]) -> None:
    given = get_args_parser().parse_args(words)
    try_python([given.training_script, *given.training_script_args])


def try_pytest(words: list[str]) -> None:
    """Find the files, and in them the words that select tests."""
    paths = [ROOT / word for word in words if word.startswith("tests/")]
    assert all(path.exists() for path in paths)
    files = [file for path in paths for file in (path, *path.rglob("*.py")) if file.is_file()]
    text = "".join(file.read_text() for file in files)
    expression = words[words.index("-k") + 1] if "-k" in words else ""
    names = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    assert not [name for name in names if name not in text]


def try_pip(words: list[str]) -> None:
    """Find the constraints, and the extras."""
    assert "-c" not in words or (ROOT / words[words.index("-c") + 1]).is_file()
    extras = ",".join(re.findall(r"(?:\.|rlpyt|whl)\[([\w,]+)\]", " ".join(words)))
    assert set(extras.split(",")) <= {"", *metadata("rlpyt").get_all("Provides-Extra", [])}


TRY = {
    "rlpyt": try_rlpyt,
    "python": try_python,
    "torchrun": try_torchrun,
    "pytest": try_pytest,
    "pip": try_pip,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a short run."""
    directory = tmp_path_factory.mktemp("ppo")
    words = ["batch_T=16", "batch_B=4", "minibatches=2", "hidden_sizes=8", "threads=1"]
    invoke("train", "ppo", "CartPole-v1", *words, "--steps", 256, "--log-dir", directory)
    return directory / "run_0"


@pytest.fixture
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with GPUs and a cluster, and a module of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(pools, "make_pool", lambda kind, code, *job: pools.LocalSlots(code))
    for name in ("my", "my.module"):
        monkeypatch.setitem(sys.modules, name, module_from_spec(ModuleSpec(name, None)))
    vars(sys.modules["my.module"])["MyEnv"] = TMaze
    monkeypatch.syspath_prepend(ROOT / "docs" / "evidence")  # A page begins with cd.
    if find_spec("matplotlib") is not None:  # Files of pictures would take most of the time.
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)


@pytest.mark.usefixtures("_machine")
@pytest.mark.filterwarnings("ignore:.*already in registry")  # A benchmark runs more than once.
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if not c.startswith(tuple(NOT_TRIED))], ids=str
)
def test_commands_can_be_typed(command: str, run: Path) -> None:
    for place in map(Path, re.findall(r"\bRUN\b|\b(?:runs|data)/[\w/]+", command)):
        is_run = place.name in ("RUN", "run_0")
        shutil.copytree(run, place if is_run else place / "run_0", dirs_exist_ok=True)
    program, *words = shlex.split(command)
    try:
        TRY[program](words)
    except (AssertionError, ValueError) as error:
        if "pip install 'rlpyt[" not in str(error):
            raise
        pytest.skip(str(error))

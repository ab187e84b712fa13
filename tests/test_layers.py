"""A module imports only from layers above its own, so every part can be read and changed alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Layer -> the layers it may import besides itself. ``experiments`` may import everything.
HELPERS = {"utils", "core", "returns"}
RUN = {"utils", "core", "processes"}
MAY_IMPORT: dict[str, set[str]] = {
    "utils": set(),
    "processes": {"utils"},
    "core": {"utils"},
    "returns": {"utils"},
    "checkpoints": {"processes", "utils"},
    "spaces": HELPERS,
    "distributions": HELPERS,
    "models": HELPERS,
    "envs": {"spaces", "core", "checkpoints", "utils"},
    "agents": {"models", "distributions", *RUN},
    "replays": {"returns", "checkpoints", *RUN},
    "algos": {"replays", "returns", "distributions", "models", "core", "utils"},
    "samplers": {"distributions", *RUN},
    "runners": {"checkpoints", "distributions", *RUN},
}
# Paths of rlpyt 0.1.2 that hand on what lives elsewhere now. Nothing inside imports them.
OLD_PATHS = {
    "rlpyt.algos.utils",
    "rlpyt.envs.gym_schema",
    "rlpyt.spaces.gym_wrapper_schema",
    "rlpyt.utils.array",
    "rlpyt.utils.launching.affinity",
    "rlpyt.utils.launching.exp_launcher",
    "rlpyt.utils.launching.variant",
    "rlpyt.utils.logging.tabulate",
    "rlpyt.utils.shmemarray",
    "rlpyt.utils.synchronize",
}
ROLES = ("agents", "algos", "envs", "models", "replays", "samplers")


def modules(*packages: str) -> list[Path]:
    """The files of ``packages`` of rlpyt, or all of rlpyt's."""
    folders = [ROOT / "rlpyt" / name for name in packages] or [ROOT / "rlpyt"]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def dotted_name(path: Path) -> str:
    """``rlpyt/utils/seed.py`` is ``rlpyt.utils.seed``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """Every node of the syntax tree, which takes a second for the whole library."""
    return list(ast.walk(ast.parse(source)))


def imported_layers(source: str, module: str) -> Iterator[str]:
    """Every layer that ``source`` imports: at the top, inside functions, only for types."""
    package = module.rsplit(".", 1)[0].split(".")
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            # ``from rlpyt import envs`` names its layer only in the alias.
            names = [f"{prefix}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "rlpyt" and len(parts) > 1:
                yield parts[1]


def imported_modules(source: str) -> set[str]:
    """Every ``x`` of ``import x`` and ``from x import ...``, and ``x.y`` of ``from x import y``."""
    names = set()
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def violations(source: str, module: str) -> list[str]:
    """The layers below or beside its own that a module imports."""
    layer = module.split(".")[1]
    if layer not in MAY_IMPORT or module in OLD_PATHS:
        return []
    allowed = MAY_IMPORT[layer] | {layer, "__version__"}
    return sorted(set(imported_layers(source, module)) - allowed)


def defined_classes(*packages: str) -> set[str]:
    """The names of all public classes that ``packages`` define."""
    return {
        node.name
        for path in modules(*packages)
        for node in nodes_of(path.read_text())
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def identifiers(source: str) -> set[str]:
    """Every name and attribute that the code of ``source`` mentions (comments and strings not)."""
    nodes = nodes_of(source)
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def test_imports_only_from_above() -> None:
    found = {
        name: layers
        for path in modules()
        if (layers := violations(path.read_text(), name := dotted_name(path)))
    }
    assert not found, f"modules with layers they may not import: {found}"


def test_nothing_inside_imports_an_old_path() -> None:
    found = {
        dotted_name(path): old
        for path in [*modules(), *(ROOT / "examples").glob("*.py")]
        if (old := imported_modules(path.read_text()) & OLD_PATHS)
    }
    assert not found, f"import what these old paths name: {found}"


def test_no_files_import_each_other() -> None:
    sources = {dotted_name(path): path.read_text() for path in modules()}
    imports = {name: imported_modules(sources[name]) & sources.keys() for name in sources}
    assert circle(imports) == []
    assert circle({**imports, "rlpyt.core.records": {"rlpyt.agents.base"}})


def circle(imports: dict[str, set[str]]) -> list[str]:
    """The modules of a circle of imports, the first one again at its end; empty without one."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_old_paths_exist() -> None:
    assert {dotted_name(path) for path in modules()} >= OLD_PATHS


def test_every_package_has_a_layer() -> None:
    packages = {path.parent.name for path in (ROOT / "rlpyt").glob("*/__init__.py")}
    assert packages <= MAY_IMPORT.keys() | {"experiments"}


def test_runners_name_no_concrete_role() -> None:
    roles = defined_classes(*ROLES)
    assert "SerialSampler" in roles, "the search for classes finds nothing"
    for path in modules("runners"):
        named = identifiers(path.read_text()) & roles
        assert not named, f"{path.relative_to(ROOT)} names {', '.join(sorted(named))}"


def test_packages_hold_only_a_docstring() -> None:
    for path in (ROOT / "rlpyt").rglob("__init__.py"):
        if path == ROOT / "rlpyt" / "__init__.py":
            continue
        body = ast.parse(path.read_text()).body
        code = [node for node in body if not (isinstance(node, ast.Expr) and is_text(node.value))]
        assert not code, f"{path.relative_to(ROOT)} holds code: import by full module path instead"


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import rlpyt, sys; print([name for name in sys.modules if 'rlpyt.' in name])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n"


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a string, as a docstring is."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize(
    ("source", "layers"),
    [
        ("import rlpyt.agents.base", ["agents"]),
        ("import numpy, rlpyt.envs.gym as gym", ["envs"]),
        ("from rlpyt.samplers.serial.sampler import SerialSampler", ["samplers"]),
        ("from rlpyt import algos", ["algos"]),
        ("from ..replays import base", ["replays"]),
        ("from .. import replays", ["replays"]),
        ("if TYPE_CHECKING:\n    from rlpyt.models.mlp import MlpModel", ["models"]),
        ("def f():\n    from rlpyt.spaces.base import Space", ["spaces"]),
        ("import rlpyt.agents.base\nfrom rlpyt.algos import base", ["agents", "algos"]),
        ("from rlpyt.core.records import AgentInputs\nfrom rlpyt.utils import seed", []),
        ("from rlpyt.runners.base import BaseRunner\nfrom .base import BaseRunner", []),
        ("from rlpyt import __version__", []),
    ],
)
def test_finds_wrong_imports(source: str, layers: list[str]) -> None:
    assert violations(source, "rlpyt.runners.example") == layers

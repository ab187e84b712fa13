"""Writes one page per package: every public module, with the names it takes from private ones."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

import rlpyt

PAGES = Path(__file__).resolve().parents[1] / "api"


def public_modules(package: str) -> Iterator[ModuleType]:
    """The modules of a package and of those inside it whose names do not start with ``_``."""
    root = importlib.import_module(package)
    found = [root, *(importlib.import_module(m.name) for m in walk(root))]
    return (module for module in found if not is_private(module.__name__))


def walk(package: ModuleType) -> Iterator[pkgutil.ModuleInfo]:
    """Every module below ``package``; a module that does not import fails the build."""

    def fail(name: str) -> None:
        raise ImportError(f"the documentation needs every module, but {name} does not import")

    return pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=fail)


def is_private(module: str) -> bool:
    """Whether a part of the dotted name starts with ``_``."""
    return any(part.startswith("_") for part in module.split("."))


def reexported(module: ModuleType) -> set[str]:
    """The names that a module hands on, written ``from ... import X as X``."""
    imports = (node for node in ast.parse(inspect.getsource(module)).body)
    aliases = (a for node in imports if isinstance(node, ast.ImportFrom) for a in node.names)
    return {alias.name for alias in aliases if alias.asname == alias.name}


def names_from_private_modules(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Pairs (directive, name) of what ``module`` hands on from private modules."""
    names = reexported(module)
    for name, value in vars(module).items():
        described = inspect.isclass(value) or inspect.isfunction(value)
        if name in names and described and is_private(value.__module__):
            yield ("autoclass" if inspect.isclass(value) else "autofunction"), name


def section(module: ModuleType, seen: set[Any]) -> Iterator[str]:
    """The part of a page that describes one module; ``seen`` are the objects described before."""
    name = module.__name__
    title = re.sub(r"_(?=\.|$)", r"\_", name)  # Or it would be a reference, as of ``async_``.
    yield from ("", title, "-" * len(title), "", f".. automodule:: {name}", "")
    for directive, member in names_from_private_modules(module):
        if (value := getattr(module, member)) not in seen:
            seen.add(value)
            yield from (f".. {directive}:: {name}.{member}", "")


def page(package: str) -> str:
    """The page of one package of rlpyt."""
    title = f"rlpyt.{package}"
    lines = [title, "=" * len(title), ""]
    seen: set[Any] = set()
    for module in public_modules(title):
        is_empty_package = hasattr(module, "__path__") and not (module.__doc__ or "").strip()
        if not is_empty_package:
            lines.extend(section(module, seen))
    return "\n".join(lines)


def write_pages(app: Sphinx) -> None:
    """Write ``api/<package>.rst``, and touch only what has changed."""
    PAGES.mkdir(exist_ok=True)
    packages = [m.name for m in pkgutil.iter_modules(rlpyt.__path__) if m.ispkg]
    for old in PAGES.glob("*.rst"):
        if old.stem not in packages:
            old.unlink()
    for package in packages:
        path, text = PAGES / f"{package}.rst", page(package)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}

"""Reads ``signatures.txt``: every public name of rlpyt 0.1.2, with its bases and parameters.

The file lists modules at column 0, functions, classes and values two columns in, methods four
columns in. Values that did not fit their line end in the middle.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """One line: where a name lives (``"Class.method"`` for a method) and what is said of it."""

    path: str  # "rlpyt/utils/seed.py"; its ``name`` is "" for the module itself.
    name: str
    kind: str  # "module", "class", "function" or "value".
    text: str

    @property
    def module(self):
        """The name to import the module by."""
        return self.path.removesuffix(".py").replace("/", ".")

    @property
    def key(self):
        """What ``retired.txt`` calls it."""
        return f"{self.path}:{self.name}" if self.name else self.path


def read_signatures():
    """Every entry of the file, in its order."""
    path = owner = ""
    for line in (FOLDER / "signatures.txt").read_text().splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            path = text
            yield Entry(path, "", "module", text)
        elif indent == 4:
            yield Entry(path, f"{owner}.{text.split('(')[0]}", "function", f"def {text}")
        elif text.startswith("class "):
            owner = text.removeprefix("class ").split("(")[0]
            yield Entry(path, owner, "class", text)
        elif text.startswith("def "):
            yield Entry(path, text.removeprefix("def ").split("(")[0], "function", text)
        else:
            names, value = text.split(" = ", 1)
            for name in names.strip("()").split(", "):
                yield Entry(path, name, "value", value if name == names else "...")


def read_retired():
    """The keys that were removed; a ``#`` starts a comment."""
    lines = (FOLDER / "retired.txt").read_text().splitlines()
    return [key for key in (line.split("#")[0].strip() for line in lines) if key]


def base_names(text):
    """The last names of the bases in ``class X(a.B, C)``; those made by a call are left out."""
    (definition,) = ast.parse(f"{text}: ...").body
    assert isinstance(definition, ast.ClassDef)
    return [ast.unparse(base).split(".")[-1] for base in definition.bases if not is_call(base)]


def is_call(node):
    """Whether an expression calls something, as ``namedtuple("BatchSpec", "T B")`` does."""
    return isinstance(node, ast.Call)


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function besides ``self``, ``*args`` and ``**kwargs``."""

    positional: list[str]
    keyword_only: list[str]
    defaults: dict[str, Any]  # Source text where listed, the value where the function exists.
    is_open: bool  # Takes ``*args`` or ``**kwargs``: whatever its parent takes.
    has_kwargs: bool


def listed_parameters(text):
    """Those of a line such as ``def f(self, x, *args, y=None)``."""
    (definition,) = ast.parse(f"{text}: ...").body
    assert isinstance(definition, ast.FunctionDef)
    arguments = definition.args
    names = [argument.arg for argument in arguments.args]
    defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    keyword_only = [argument.arg for argument in arguments.kwonlyargs]
    defaults |= {k: d for k, d in zip(keyword_only, arguments.kw_defaults, strict=True) if d}
    sources = {name: ast.unparse(value) for name, value in defaults.items()}
    is_open = bool(arguments.vararg or arguments.kwarg)
    return Parameters(
        without_self(names), keyword_only, sources, is_open, arguments.kwarg is not None
    )


def actual_parameters(function):
    """Those of a function of this library."""
    parameters = inspect.signature(function).parameters.values()
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return Parameters(
        without_self([p.name for p in parameters if p.kind in positional_kinds]),
        [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY],
        {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty},
        any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def without_self(names):
    """Drop the parameter that Python fills itself, whatever it is called."""
    return names[1:] if names and names[0] in ("self", "cls") else names

"""Command-line arguments declared beside the constructors which take them, for ``argparse``.

A constructor is decorated with one ``arg`` per parameter; ``add_args(cls)(parser)`` adds their
options, and ``new_from_args(cls)(parsed, *args)`` builds the object.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_ARGS = "_autoargs_info"
_PREFIX = "_autoargs_prefix"


@dataclass(frozen=True)
class _Arg:
    type: Callable[[str], Any] | None
    help: str | None
    nargs: Any
    mapper: Callable[[Any], Any] | None
    choices: Any
    prefix: bool


def arg(
    name: str,
    type: Callable[[str], Any] | None = None,
    help: str | None = None,
    nargs: Any = None,
    mapper: Callable[[Any], Any] | None = None,
    choices: Any = None,
    prefix: bool = True,
) -> Callable[[Function], Function]:
    """Decorate a constructor: its parameter ``name`` can be given on the command line.

    Args:
        name: of the parameter.
        type: converts the text; ``bool`` reads t/f, true/false, yes/no, 1/0.
        help: for the parser.
        nargs: for the parser.
        mapper: applied to the parsed value.
        choices: for the parser.
        prefix: put the class's prefix before the option's name.
    """
    converter = _t_or_f if type is bool else type

    def decorate(function: Function) -> Function:
        infos = {name: _Arg(converter, help, nargs, mapper, choices, prefix), **_get_info(function)}
        setattr(function, _ARGS, infos)
        return function

    return decorate


def prefix(prefix_: str) -> Callable[[Function], Function]:
    """Decorate a constructor: its options begin with ``prefix_``."""

    def decorate(function: Function) -> Function:
        setattr(function, _PREFIX, prefix_)
        return function

    return decorate


def inherit(base_func: Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorate a constructor: it has the options of ``base_func`` beside its own, which win."""

    def decorate(function: Function) -> Function:
        setattr(function, _ARGS, {**_get_info(base_func), **_get_info(function)})
        if not hasattr(function, _PREFIX):
            setattr(function, _PREFIX, getattr(base_func, _PREFIX, ""))
        return function

    return decorate


def add_args(_: Any) -> Callable[[argparse.ArgumentParser], None]:
    """A function which adds the options of a class (or decorated function) to a parser."""

    def add(parser: argparse.ArgumentParser) -> None:
        for name, info in _get_info(_).items():
            parser.add_argument(
                "--" + _option(_, name, info),
                type=info.type or str,
                help=info.help,
                nargs=info.nargs,
                choices=info.choices,
            )

    return add


def new_from_args(_: Any) -> Callable[..., Any]:
    """A function which builds an object from parsed arguments: ``(parsed_args, *args, **kwargs)``.

    Options which were not given keep the constructor's default; ``kwargs`` win over options.
    """

    def build(parsed_args: argparse.Namespace, *args: Any, **kwargs: Any) -> Any:
        return _(*args, **{**get_all_parameters(_, parsed_args), **kwargs})

    return build


def get_all_parameters(cls: Any, parsed_args: argparse.Namespace) -> dict[str, Any]:
    """The declared parameters of ``cls`` which were given, by name, mapped."""
    params = {}
    for name, info in _get_info(cls).items():
        value = getattr(parsed_args, _option(cls, name, info), None)
        if value is not None:
            params[name] = info.mapper(value) if info.mapper else value
    return params


def _option(cls: Any, name: str, info: _Arg) -> str:
    return (_get_prefix(cls) if info.prefix else "") + name


def _get_prefix(cls: Any) -> str:
    prefix_: str = getattr(_constructor(cls), _PREFIX, "")
    return prefix_


def _get_info(cls_or_fn: Any) -> dict[str, _Arg]:
    infos: dict[str, _Arg] = getattr(_constructor(cls_or_fn), _ARGS, {})
    return infos


def _constructor(cls_or_fn: Any) -> Any:
    is_class = isinstance(cls_or_fn, type)
    return cls_or_fn.__init__ if is_class else cls_or_fn


def _t_or_f(s: str) -> bool:
    text = s.lower()
    if text in ("t", "true", "y", "yes", "1"):
        return True
    if text in ("f", "false", "n", "no", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{s!r} is neither true nor false: use t or f")

"""Kept for programs written against rlpyt 0.1.2; nothing here uses it, and calls raise."""

from __future__ import annotations

from typing import Any, NoReturn


def _retired() -> NoReturn:
    raise NotImplementedError(
        "rlpyt.utils.logging.autoargs declared command-line arguments of a framework that is gone: "
        "use argparse"
    )


def arg(
    name: str,
    type: Any = None,
    help: str | None = None,
    nargs: Any = None,
    mapper: Any = None,
    choices: Any = None,
    prefix: bool = True,
) -> Any:
    """Raise ``NotImplementedError``."""
    _retired()


def prefix(prefix_: str) -> Any:
    """Raise ``NotImplementedError``."""
    _retired()


def add_args(_: Any) -> Any:
    """Raise ``NotImplementedError``."""
    _retired()


def new_from_args(_: Any) -> Any:
    """Raise ``NotImplementedError``."""
    _retired()


def inherit(base_func: Any) -> Any:
    """Raise ``NotImplementedError``."""
    _retired()


def get_all_parameters(cls: Any, parsed_args: Any) -> Any:
    """Raise ``NotImplementedError``."""
    _retired()

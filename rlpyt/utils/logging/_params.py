"""Parameters of a run as JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

from rlpyt.utils.files import make_parent, replacing
from rlpyt.utils.logging.autoargs import get_all_parameters


def write_params(path: str | os.PathLike[str], params: Mapping[str, Any]) -> None:
    """Write parameters as JSON, and whatever JSON has no word for as the name of its type."""
    with replacing(make_parent(path), encoding="utf-8") as file:
        json.dump(stub_to_json(params), file, indent=2, default=lambda value: type(value).__name__)


def stub_to_json(stub_sth: Any) -> Any:
    """A copy of nested dicts (with text as keys), lists, tuples and sets as JSON has them.

    Other values stay as they are.
    """
    if isinstance(stub_sth, Mapping):
        return {str(key): stub_to_json(value) for key, value in stub_sth.items()}
    if isinstance(stub_sth, (list, tuple, set, frozenset)):
        return [stub_to_json(value) for value in stub_sth]
    return stub_sth


class MyEncoder(json.JSONEncoder):
    """JSON with classes, functions and enum members as their full names."""

    def default(self, o: Any) -> Any:
        if isinstance(o, Enum):
            return {"$enum": f"{_full_name(type(o))}.{o.name}"}
        if isinstance(o, type):
            return {"$class": _full_name(o)}
        if isinstance(o, (FunctionType, BuiltinFunctionType)):
            return {"$function": _full_name(o)}
        return super().default(o)


def log_parameters(
    log_file: str | os.PathLike[str], args: argparse.Namespace, classes: Mapping[str, Any]
) -> None:
    """Write command-line arguments as JSON, with a section for the parameters of each class.

    Args:
        log_file: JSON file; missing directories are made.
        args: parsed arguments.
        classes: by name of the section; see ``autoargs``. ``None`` has no section.
    """
    params = _given(args)
    for name, cls in classes.items():
        if cls is not None:
            params[name] = {"_name": cls.__name__, **get_all_parameters(cls, args)}
    _write(log_file, params)


def log_parameters_lite(log_file: str | os.PathLike[str], args: argparse.Namespace) -> None:
    """Write command-line arguments as JSON; missing directories are made."""
    _write(log_file, _given(args))


def log_variant(log_file: str | os.PathLike[str], variant_data: Any) -> None:
    """Write a variant as JSON; missing directories are made."""
    _write(log_file, variant_data)


def _write(log_file: str | os.PathLike[str], data: Any) -> None:
    with replacing(make_parent(log_file), encoding="utf-8") as file:
        json.dump(stub_to_json(data), file, indent=2, sort_keys=True, cls=MyEncoder)


def _given(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if value is not None}


def _full_name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"

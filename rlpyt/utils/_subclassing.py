"""What users' subclasses define by themselves, and the library therefore knows nothing about."""

from __future__ import annotations

import inspect
from typing import Any


def overrides(obj: Any, *names: str) -> bool:
    """Whether a class outside of this library defines one of the methods ``names`` of ``obj``."""
    return class_overrides(type(obj), *names)


def class_overrides(cls: type, *names: str) -> bool:
    """The same of a class."""
    own_classes = (C for C in cls.__mro__ if not _is_of_library(C))
    return any(name in vars(C) for C in own_classes for name in names)


def names_parameter(obj: Any, method: str, parameter: str) -> bool:
    """Whether ``method`` of ``obj`` names ``parameter``; ``**kwargs`` do not count.

    Who overrides a method without naming a parameter of later versions does not know what it means.
    """
    return parameter in inspect.signature(getattr(type(obj), method)).parameters


def library_method(obj: Any, name: str) -> Any:
    """The method ``name`` which ``obj`` had if no class outside of this library defined it."""
    cls = next(C for C in type(obj).__mro__ if _is_of_library(C) and name in vars(C))
    return getattr(cls, name).__get__(obj)


def _is_of_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "rlpyt"

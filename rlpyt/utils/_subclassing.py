"""What users' subclasses define by themselves, and the library therefore knows nothing about."""

from __future__ import annotations

from typing import Any


def overrides(obj: Any, *names: str) -> bool:
    """Whether a class outside of this library defines one of the methods ``names`` of ``obj``."""
    own_classes = (C for C in type(obj).__mro__ if not _is_of_library(C))
    return any(name in vars(C) for C in own_classes for name in names)


def library_method(obj: Any, name: str) -> Any:
    """The method ``name`` which ``obj`` had if no class outside of this library defined it."""
    cls = next(C for C in type(obj).__mro__ if _is_of_library(C) and name in vars(C))
    return getattr(cls, name).__get__(obj)


def _is_of_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "rlpyt"

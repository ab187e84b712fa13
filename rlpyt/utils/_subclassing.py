"""What users' subclasses define by themselves, and the library therefore knows nothing about."""

from __future__ import annotations

from typing import Any


def overrides(obj: Any, *names: str) -> bool:
    """Whether a class outside of this library defines one of the methods ``names`` of ``obj``."""
    own_classes = (C for C in type(obj).__mro__ if C.__module__.partition(".")[0] != "rlpyt")
    return any(name in vars(C) for C in own_classes for name in names)

"""Constructor arguments: storage as attributes, and conversion to whole numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any


def save__init__args(
    values: dict[str, Any],
    underscore: bool = False,
    overwrite: bool = False,
    subclass_only: bool = False,
) -> None:
    """Store constructor arguments as attributes: ``save__init__args(locals())`` in ``__init__``.

    Every local variable that is a positional parameter of an ``__init__`` in the class hierarchy is
    stored with its present value, unless the object has an attribute of that name, set earlier. An
    attribute or property of the class is never replaced. Keyword-only parameters are not stored.

    Args:
        values: result of ``locals()`` in the constructor, which contains ``self``.
        underscore: whether to store ``arg`` as ``_arg``.
        overwrite: whether to replace attributes that the object already has.
        subclass_only: whether to omit the parameters of base classes.
    """
    self = values["self"]
    classes: list[Any] = [type(self)] if subclass_only else type(self).mro()
    for cls in classes:
        for name in _positional_names(cls.__init__):
            attribute = "_" + name if underscore else name
            if name in values and (overwrite or not _is_taken(self, attribute)):
                setattr(self, attribute, values[name])


def _is_taken(instance: Any, name: str) -> bool:
    """Return whether ``name`` is stored or cannot be; a fallback ``__getattr__`` does not count."""
    try:
        object.__getattribute__(instance, name)
        return True
    except AttributeError:
        of_class = getattr(type(instance), name, None)
        if of_class is None:  # Parameters and modules of torch.nn.Module are listed by dir() alone.
            return name in dir(instance)
        return isinstance(of_class, property) and of_class.fset is None


@lru_cache(maxsize=1024)
def _positional_names(init: Callable[..., None]) -> tuple[str, ...]:
    """Return the positional parameters after ``self`` of the function that ``init`` wraps."""
    try:
        parameters = list(inspect.signature(init).parameters.values())
    except ValueError:  # Some constructors written in C.
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters[1:] if p.kind in positional)


def whole_number(name: str, value: Any, at_least: int = 1, rounds_down: bool = True) -> int:
    """Return ``value`` as an integer; scripts write 1e6 as well.

    Args:
        name: name of the argument.
        value: number that was given for it.
        at_least: smallest number to accept.
        rounds_down: whether a fraction is rounded down; False refuses it.

    Raises:
        ValueError: if ``value`` is too small, a refused fraction, or something else.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = at_least - 1
    if number < at_least:
        raise ValueError(f"{name} is {value!r}: make it at least {at_least}")
    if not rounds_down and number != value:
        raise ValueError(f"{name} is {value!r}: give a whole number")
    return number

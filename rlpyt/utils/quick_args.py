"""Arguments: those of constructors as attributes, those that a method takes, whole numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from rlpyt.utils.names import did_you_mean


def save__init__args(
    values: dict[str, Any],
    underscore: bool = False,
    overwrite: bool = False,
    subclass_only: bool = False,
) -> None:
    """Store constructor arguments as attributes: ``save__init__args(locals())`` in ``__init__``.

    Every local variable that is a positional parameter of an ``__init__`` in the class hierarchy is
    stored with its present value, unless the object has an attribute of that name, set earlier. An
    attribute or property of the class is not replaced either, unless it is an annotated attribute:
    the default of a setting. Keyword-only parameters are not stored.

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
    """Return whether ``name`` has a value, other than the default of a setting, or is fixed."""
    owner = next((cls for cls in type(instance).__mro__ if name in vars(cls)), None)
    if owner is None or name in vars(instance):
        return hasattr(instance, name)
    if name in inspect.get_annotations(owner):
        return False
    of_class = vars(owner)[name]
    is_fixed = isinstance(of_class, property) and of_class.fset is None
    return is_fixed or hasattr(instance, name)


@lru_cache(maxsize=1024)
def _positional_names(init: Callable[..., None]) -> tuple[str, ...]:
    """Return the names of the positional parameters of ``init``."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in _parameters(init) if p.kind in positional)


def _parameters(init: Callable[..., None]) -> list[inspect.Parameter]:
    """Return the parameters after ``self`` of the function that ``init`` wraps."""
    try:
        return list(inspect.signature(init).parameters.values())[1:]
    except ValueError:  # Some constructors written in C.
        return []


def accepted(cls: Any, method: str, names: tuple[str, ...]) -> list[str]:
    """Return those of ``names`` that are parameters of ``method`` of ``cls``.

    A method with ``**kwargs`` passes them on to that of the next base class.
    """
    return [name for name in names if _accepts(cls, method, name)]


def accepts(cls: Any, method: str, name: str) -> bool:
    """Return whether ``method`` of ``cls`` has a parameter ``name``; see :func:`accepted`."""
    return bool(accepted(cls, method, (name,)))


@lru_cache(maxsize=1024)
def _accepts(cls: Any, method: str, name: str) -> bool:
    for base in cls.__mro__:
        if method in vars(base):
            parameters = inspect.signature(vars(base)[method]).parameters
            if name in parameters:
                return True
            if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
                return False
    return False


class ConstructorSignature:
    """Class attribute ``__signature__``, which lists all arguments of a constructor.

    The arguments of the next constructor among the bases replace ``*args`` and ``**kwargs``, so
    ``help(cls)``, notebooks and the site show them. Subclasses inherit the attribute. Arguments
    that none of them has are refused before the constructor is called, with a proposal, and so is
    text in place of a number.
    """

    def __set_name__(self, owner: Any, name: str) -> None:
        owner.__new__ = staticmethod(_new_if_known)

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if instance is not None:  # An instance has the signature of its ``__call__``.
            raise AttributeError("__signature__")
        return _constructor_signature(owner)


@lru_cache(maxsize=1024)
def _constructor_signature(cls: Any) -> inspect.Signature:
    found: dict[str, inspect.Parameter] = {}
    rest: list[inspect.Parameter] = []
    by_position = True  # Whether the next argument can be given by position.
    for base in cls.__mro__[:-1]:
        if "__init__" not in vars(base):
            continue
        rest = []
        own = list(inspect.signature(base.__init__).parameters.values())[1:]
        for i, p in enumerate(own):
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                rest.append(p)
            elif p.name in found:  # A subclass passes it by name, unless it has the same place.
                is_placed = found[p.name].kind is p.kind and list(found).index(p.name) == i
                by_position &= is_placed or p.kind is p.KEYWORD_ONLY
            else:
                is_required = p.default is p.empty and p.kind is not p.KEYWORD_ONLY
                by_position &= not (is_required and _has_optional_position(found))
                found[p.name] = p if by_position else p.replace(kind=p.KEYWORD_ONLY)
        kinds = [p.kind for p in rest]
        by_position &= inspect.Parameter.VAR_POSITIONAL in kinds
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break

    def place(p: inspect.Parameter) -> tuple[int, bool]:
        return p.kind, p.kind is p.KEYWORD_ONLY and p.default is not p.empty

    return inspect.Signature(sorted([*found.values(), *rest], key=place))


def _has_optional_position(found: dict[str, inspect.Parameter]) -> bool:
    return any(p.default is not p.empty and p.kind is not p.KEYWORD_ONLY for p in found.values())


def _new_if_known(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``__new__`` that refuses unknown names, and too many arguments by position.

    A constructor with ``**kwargs`` or ``*args`` may take any.
    """
    own = _parameters(cls.__init__)
    if all(p.kind is not p.VAR_KEYWORD for p in own):
        check_names(cls, kwargs)
    places = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(args) > len(places) and all(p.kind is not p.VAR_POSITIONAL for p in own):
        parameters = _constructor_signature(cls).parameters.values()
        needed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        raise TypeError(
            f"{cls.__name__} takes only {places} by position, but is given {len(args)} arguments: "
            f"name them, as in {cls.__name__}({'=..., '.join(needed or places)}=...)"
        )
    check_numbers(cls, {**dict(zip(places, args)), **kwargs})
    return object.__new__(cls)


def check_numbers(cls: Any, values: Mapping[str, Any]) -> None:
    """Raise ``TypeError`` if an argument that is annotated as a number is text."""
    for name in _numbers(cls).intersection(values):
        if isinstance(values[name], str):
            raise TypeError(f"{name} of {cls.__name__} is the text {values[name]!r}: give a number")


@lru_cache(maxsize=1024)
def _numbers(cls: Any) -> frozenset[str]:
    """Return the arguments of all constructors of ``cls`` that are annotated as numbers."""
    hints = [kind + rest for kind in ("int", "float") for rest in ("", " | None")]
    parameters = [p for base in cls.__mro__ for p in _parameters(base.__init__)]
    return frozenset(p.name for p in parameters if p.annotation in hints)


def check_names(cls: Any, names: Iterable[str]) -> None:
    """Raise ``TypeError`` for names that no constructor of ``cls`` has."""
    known = _constructor_signature(cls).parameters
    for name in names:
        if name not in known:
            raise TypeError(f"{cls.__name__} has no argument {name!r}{did_you_mean(name, known)}")


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

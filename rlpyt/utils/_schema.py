"""Schema-style records, for programs written against rlpyt 0.1.2; the library uses none.

A record's type is an object instead of a class, and pickles like any other.

Everything here is public through :mod:`rlpyt.utils.collections`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Any

from rlpyt.utils._array_fields import RESERVED_NAMES, ArrayFields

_TUPLE_METHODS = ("index", "count")


def tuple_itemgetter(i: int) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function that reads element ``i`` of the tuple itself, past ``__getitem__``."""
    return lambda record: tuple.__getitem__(record, i)


class NamedTuple(tuple[Any, ...]):
    """A named tuple that carries its type name and field names itself.

    Args:
        typename: name of the type.
        fields: names of the fields.
        values: values of the fields, in order.

    Raises:
        ValueError: if the numbers of fields and values differ.
    """

    _typename: str
    _fields: tuple[str, ...]

    def __new__(cls, typename: str, fields: Iterable[str], values: Iterable[Any]) -> NamedTuple:
        self = super().__new__(cls, values)
        fields = tuple(fields)
        if len(fields) != len(self):
            raise ValueError(f"{typename} has fields {fields} but was given {len(self)} values")
        self.__dict__.update(_typename=typename, _fields=fields)
        return self

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", ())
        if name in fields:
            return tuple_itemgetter(fields.index(name))(self)
        raise AttributeError(f"{self.__dict__.get('_typename')} has no field {name!r}: {fields}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot set {name!r}: {self._typename} is immutable, use _replace")

    def _make(self, iterable: Iterable[Any]) -> NamedTuple:
        """Return a record of the same type with values from ``iterable``."""
        return type(self)(self._typename, self._fields, iterable)

    def _replace(self, **kwargs: Any) -> NamedTuple:
        """Return a record of the same type with new values for the named fields."""
        unknown = [name for name in kwargs if name not in self._fields]
        if unknown:
            raise ValueError(f"{self._typename} has no fields {unknown}: {self._fields}")
        return self._make([kwargs.get(name, old) for name, old in zip(self._fields, self)])

    def _asdict(self) -> OrderedDict[str, Any]:
        """Return the fields by name, in order."""
        return OrderedDict(zip(self._fields, self))

    def __getnewargs__(self) -> tuple[str, tuple[str, ...], tuple[Any, ...]]:
        return self._typename, self._fields, tuple(self)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value}" for name, value in zip(self._fields, self))
        return f"{self._typename}({fields})"


class NamedArrayTuple(ArrayFields, NamedTuple):
    """A :class:`NamedTuple` whose square brackets reach into its fields."""

    _rebuild = NamedTuple._make


class NamedTupleSchema:
    """Factory of :class:`NamedTuple` records, with the interface of a ``namedtuple`` class.

    Args:
        typename: name of the type.
        fields: names of the fields, or one string of names with either spaces or commas between.

    Raises:
        TypeError: if ``typename`` is not a string.
        ValueError: if a field name is not allowed or occurs twice.
    """

    _instance_cls: type[NamedTuple] = NamedTuple
    _forbidden: tuple[str, ...] = _TUPLE_METHODS
    _typename: str
    _fields: tuple[str, ...]
    _signature: Signature

    def __init__(self, typename: str, fields: str | Iterable[str]) -> None:
        if not isinstance(typename, str):
            raise TypeError(f"typename must be a string, not {typename!r}")
        names = _split_names(fields)
        for name in names:
            if not isinstance(name, str) or name.startswith("_") or name in self._forbidden:
                raise ValueError(
                    f"{typename} has field {name!r}: field names must be strings that do not start "
                    f"with an underscore, and none of {self._forbidden}"
                )
        if len(set(names)) != len(names):
            raise ValueError(f"{typename} has fields {names}: each name may occur once")
        parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        state = {"_typename": typename, "_fields": names, "_signature": Signature(parameters)}
        self.__dict__.update(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make a record; arguments are bound to the fields as those of a constructor."""
        return self._make(self._signature.bind(*args, **kwargs).args)

    def _make(self, iterable: Iterable[Any]) -> Any:
        """Make a record of the values in ``iterable``."""
        return self._instance_cls(self._typename, self._fields, iterable)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"cannot set {name!r}: {type(self).__name__} is immutable")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._typename!r}, {self._fields!r})"


class NamedArrayTupleSchema(NamedTupleSchema):
    """Factory of :class:`NamedArrayTuple` records; forbids fields named get or items."""

    _instance_cls = NamedArrayTuple
    _forbidden = (*_TUPLE_METHODS, *RESERVED_NAMES)


def _split_names(fields: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(fields, str):
        return tuple(fields)
    if " " in fields and "," in fields:
        raise ValueError(f"fields {fields!r} contains spaces and commas: use one of them")
    return tuple(fields.split("," if "," in fields else None))

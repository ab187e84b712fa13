"""Square brackets on records: methods and classes of namedarraytuples.

Everything here is public through :mod:`rlpyt.utils.collections`.
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import length_hint
from typing import Any, SupportsIndex

RESERVED_NAMES = ("get", "items")

_NAMEDTUPLE_ATTRIBUTES = ("_fields", "_asdict", "_make", "_replace")
_make_namedtuple: Callable[..., Any] = namedtuple  # Mypy wants literals as names.


class ArrayFields(tuple[Any, ...]):
    """Methods of every kind of namedarraytuple."""

    __slots__ = ()
    _fields: tuple[str, ...]
    _rebuild: Callable[[Iterable[Any]], Any]

    # Both operations run in every step loop, so one ``try`` surrounds the loop. The failing field
    # follows from the position of the iterator.

    def __getitem__(self, loc: Any) -> Any:
        """Return a record of the same type with ``field[loc]`` for every field that is not None."""
        fields = iter(self)
        try:
            return self._rebuild([None if field is None else field[loc] for field in fields])
        except IndexError as error:
            raise _field_error(self, fields, f"read [{loc!r}]", error) from error

    def __setitem__(self, loc: Any, value: Any) -> None:
        """Write ``value`` into ``[loc]`` of every field.

        A tuple with the same field names is written field by field; any other value is written to
        every field that is not None. None can be written only to a field that is None.
        """
        fields = iter(self)
        try:
            if isinstance(value, tuple) and getattr(value, "_fields", None) == self._fields:
                for field, part in zip(fields, value):
                    if part is not None:
                        field[loc] = part
                    elif field is not None:
                        _write_none(field, loc)
            else:
                for field in fields:
                    if field is None:
                        continue
                    if value is None:
                        _write_none(field, loc)
                    else:
                        field[loc] = value
        except (ValueError, IndexError, TypeError) as error:
            raise _field_error(self, fields, f"write [{loc!r}]", error) from error

    def __contains__(self, key: object) -> bool:
        """Return whether ``key`` is the name of a field."""
        return key in self._fields

    def get(self, index: SupportsIndex) -> Any:
        """Return the ``index``-th field, as square brackets do for a plain tuple."""
        return tuple.__getitem__(self, index)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the pairs of name and field, in order."""
        yield from zip(self._fields, self)


def _write_none(field: Any, loc: Any) -> None:
    """Write None into a record without arrays; in an array, numpy would store NaN."""
    if not hasattr(field, "_fields"):
        raise TypeError(
            f"None cannot be written into an array of type {type(field).__name__}: write an array, "
            "or leave the field None from the start"
        )
    field[loc] = None


def _field_error(
    record: ArrayFields, fields: Iterator[Any], attempt: str, error: Exception
) -> Exception:
    """Return the error for the field at which the iterator ``fields`` of ``record`` stopped."""
    name = record._fields[len(record) - length_hint(fields) - 1]
    typename = getattr(record, "_typename", type(record).__name__)
    return Exception(f"{typename}: cannot {attempt} of field {name!r}: {error}")


def is_namedtuple_class(obj: Any) -> bool:
    """Return whether ``obj`` is a class made by ``namedtuple``, and not a subclass of one."""
    return (
        type(obj) is type
        and len(obj.__mro__) == 3
        and obj.__mro__[1] is tuple
        and all(hasattr(obj, name) for name in _NAMEDTUPLE_ATTRIBUTES)
    )


def is_namedarraytuple_class(obj: Any) -> bool:
    """Return whether ``obj`` is a class made by ``namedarraytuple``, and not a subclass of one."""
    return (
        type(obj) in (type, _RecordType)
        and len(obj.__mro__) == 4
        and is_namedtuple_class(obj.__mro__[1])
        and all(hasattr(obj, name) for name in RESERVED_NAMES)
    )


class _RecordType(type):
    """Type of generated classes, which pickle by name and fields, wherever they were made."""


def _reduce_class(cls: Any) -> str | tuple[Any, ...]:
    if is_namedarraytuple_class(cls):
        return _find_class, (cls.__module__, cls.__qualname__, cls._fields)
    return str(cls.__qualname__)  # A subclass written in Python pickles as every class.


copyreg.pickle(_RecordType, _reduce_class)


def _find_class(module: str, qualname: str, fields: tuple[str, ...]) -> Any:
    """Return the class ``module.qualname`` if it has these fields, else a :func:`record_class`."""
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        found = None
    for name in qualname.split("."):
        found = getattr(found, name, None)
    if is_namedarraytuple_class(found) and found._fields == fields:
        return found
    return record_class(qualname.rpartition(".")[2], fields)


_MEMBERS = {
    name: member
    for name, member in vars(ArrayFields).items()
    if name in ("__getitem__", "__setitem__", "__contains__", "__slots__", *RESERVED_NAMES)
} | {"_rebuild": classmethod(tuple.__new__)}


def namedtuple_class(typename: str, field_names: str | Iterable[str], module: str) -> Any:
    """Make a class by ``collections.namedtuple`` with ``module`` as its module."""
    return _make_namedtuple(typename, field_names, module=module)


def array_class(typename: str, qualname: str, base: Any) -> Any:
    """Make a namedarraytuple class over the namedtuple class ``base``."""
    if any(name in RESERVED_NAMES for name in base._fields):
        raise ValueError(
            f"field_names of {typename} are {base._fields}: rename those in {RESERVED_NAMES}, "
            "methods of every namedarraytuple"
        )
    place = {"__module__": base.__module__, "__qualname__": qualname, "__doc__": base.__doc__}
    return _RecordType(typename, (base,), {**_MEMBERS, **place})


def record_class(name: str, fields: str | Iterable[str]) -> type[Any]:
    """Return the namedarraytuple class of this name and these fields; equal calls share it.

    Args:
        name: name of the class.
        fields: names of the fields, or one string with spaces or commas between them.
    """
    names = fields.replace(",", " ").split() if isinstance(fields, str) else fields
    return _record_class(name, tuple(names))


@cache
def _record_class(name: str, fields: tuple[str, ...]) -> type[Any]:
    cls: type[Any] = array_class(name, name, namedtuple_class(name, fields, __name__))
    return cls

"""Records of arrays: named tuples that index and assign all fields at once.

A namedarraytuple is a ``namedtuple`` whose square brackets reach into the fields, so that
``dest[t] = src`` copies one time step of any nested structure, and ``x[:, 0]`` is the first
environment of every array. A field that is None is a hole, and is skipped. Records come from

* :func:`namedarraytuple`, a factory with the interface of ``collections.namedtuple``;
* :func:`record`, a decorator for ``typing.NamedTuple`` classes, whose fields have types;
* :func:`record_class`, one class for every call with equal name and fields;
* :class:`NamedArrayTupleSchema`, an object instead of a class that makes records.

All of them have the same methods, assign to each other when their field names agree, and pickle
from anywhere.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple as namedtuple
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Any, Literal, TypeVar, overload

from rlpyt.utils._array_fields import (
    RESERVED_NAMES as RESERVED_NAMES,
    ArrayFields,
    array_class,
    is_namedarraytuple_class as is_namedarraytuple_class,
    is_namedtuple_class as is_namedtuple_class,
    namedtuple_class,
    record_class as record_class,
)

RecordCls = TypeVar("RecordCls", bound=type[Any])


@overload
def namedarraytuple(
    typename: str,
    field_names: str | Iterable[str],
    return_namedtuple_cls: Literal[False] = False,
    classname_suffix: bool = False,
) -> type[Any]: ...


@overload
def namedarraytuple(
    typename: str,
    field_names: str | Iterable[str],
    return_namedtuple_cls: Literal[True],
    classname_suffix: bool = False,
) -> tuple[type[Any], type[Any]]: ...


def namedarraytuple(
    typename: str,
    field_names: str | Iterable[str],
    return_namedtuple_cls: bool = False,
    classname_suffix: bool = False,
) -> type[Any] | tuple[type[Any], type[Any]]:
    """Make a new class of named tuples whose square brackets reach into the fields.

    Args:
        typename: name of the class.
        field_names: names of the fields, as ``collections.namedtuple`` takes them; not "get" or
            "items".
        return_namedtuple_cls: whether to return the underlying namedtuple class too.
        classname_suffix: whether to name the class ``<typename>_nat`` and its namedtuple
            ``<typename>_nt``.

    Returns:
        The class, or the pair (class, namedtuple class).

    Raises:
        ValueError: if a field name is reserved or not valid.
    """
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    nt_name, nat_name = _class_names(typename, classname_suffix)
    nt_cls = namedtuple_class(nt_name, field_names, module)
    nat_cls: type[Any] = array_class(nat_name, nat_name, nt_cls)
    return (nat_cls, nt_cls) if return_namedtuple_cls else nat_cls


def record(cls: RecordCls) -> RecordCls:
    """Turn a ``typing.NamedTuple`` class into a namedarraytuple class (class decorator).

    Name, module, docstring, defaults and methods stay the same.

    Example::

        @record
        class AgentStep(NamedTuple):
            action: Nested  # [B, A]
            agent_info: Nested
    """
    if not is_namedtuple_class(cls):
        raise TypeError(f"record decorates typing.NamedTuple classes, not {cls!r}")
    array_cls: RecordCls = array_class(cls.__name__, cls.__qualname__, cls)
    return array_cls


def _class_names(typename: str, classname_suffix: bool) -> tuple[str, str]:
    return (typename + "_nt", typename + "_nat") if classname_suffix else (typename, typename)


def is_namedtuple(obj: Any) -> bool:
    """Return whether ``obj`` is an instance of a class made by ``namedtuple``."""
    return is_namedtuple_class(type(obj))


def is_namedarraytuple(obj: Any) -> bool:
    """Return whether ``obj`` is an instance of a class made by ``namedarraytuple``."""
    return is_namedarraytuple_class(type(obj))


def namedarraytuple_like(namedtuple_or_class: Any, classname_suffix: bool = False) -> type[Any]:
    """Return the namedarraytuple class for any kind of named tuple, with its name and fields.

    Args:
        namedtuple_or_class: namedtuple, namedarraytuple or schema-style record, or the class or
            schema of one.
        classname_suffix: whether to append "_nat" to the name; ignored for a namedarraytuple.

    Raises:
        TypeError: if it is none of these.
    """
    cls = (
        namedtuple_or_class if isinstance(namedtuple_or_class, type) else type(namedtuple_or_class)
    )
    if is_namedarraytuple_class(cls):
        return cls
    typename, fields = _name_and_fields(namedtuple_or_class)
    return record_class(_class_names(typename, classname_suffix)[1], fields)


def fields_of(value: Any) -> tuple[str, ...]:
    """Return the field names of a record; none for anything else."""
    names: tuple[str, ...] = getattr(value, "_fields", ())
    return names


def _name_and_fields(example: Any) -> tuple[str, tuple[str, ...]]:
    if isinstance(example, (NamedTuple, NamedTupleSchema)):
        return example._typename, example._fields
    cls: Any = example if isinstance(example, type) else type(example)
    if is_namedtuple_class(cls) or is_namedarraytuple_class(cls):
        return cls.__name__, cls._fields
    raise TypeError(f"expected a named tuple, or the class or schema of one, not {example!r}")


class AttrDict(dict[str, Any]):
    """A dictionary whose keys are also attributes: ``d.key`` is ``d["key"]``."""

    def __new__(cls, *args: Any, **kwargs: Any) -> AttrDict:
        self = super().__new__(cls)
        self.__dict__ = self
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no attribute or key {name!r}")

    def copy(self) -> AttrDict:
        """Return a copy; values that are AttrDicts are copied too, all others are shared."""
        new = type(self).__new__(type(self))
        for key, value in self.items():
            new[key] = value.copy() if isinstance(value, AttrDict) else value
        return new


DocExampleNat = namedarraytuple("DocExampleNat", ["field_1", "field_2"])


# --- Schema style, for programs of rlpyt 0.1.2: an object makes the records ----------------------

_TUPLE_METHODS = ("index", "count")


def tuple_itemgetter(i: int) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function that reads element ``i`` of a tuple, bypassing its ``__getitem__``."""
    return lambda record: tuple.__getitem__(record, i)


class NamedTuple(tuple[Any, ...]):
    """A named tuple that stores its type name and field names in the object.

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
        self.__dict__.update(_typename=typename, _fields=names, _signature=Signature(parameters))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make a record, with arguments in the order of the fields or by name."""
        return self._make(self._signature.bind(*args, **kwargs).args)

    def _make(self, iterable: Iterable[Any]) -> Any:
        """Make a record of the values in ``iterable``."""
        return self._instance_cls(self._typename, self._fields, iterable)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"cannot set {name!r}: {type(self).__name__} is immutable")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._typename!r}, {self._fields!r})"


class NamedArrayTupleSchema(NamedTupleSchema):
    """Factory of :class:`NamedArrayTuple` records."""

    _instance_cls = NamedArrayTuple
    _forbidden = (*_TUPLE_METHODS, *RESERVED_NAMES)


def _split_names(fields: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(fields, str):
        return tuple(fields)
    if " " in fields and "," in fields:
        raise ValueError(f"fields {fields!r} contains spaces and commas: use one of them")
    return tuple(fields.split("," if "," in fields else None))


def NamedArrayTupleSchema_like(example: Any) -> NamedArrayTupleSchema:
    """Return the :class:`NamedArrayTupleSchema` with name and fields of any named tuple.

    Args:
        example: named tuple of any form, or its class or schema; a schema of this type is
            returned unchanged.

    Raises:
        TypeError: if it is not a named tuple.
    """
    if isinstance(example, NamedArrayTupleSchema):
        return example
    return NamedArrayTupleSchema(*_name_and_fields(example))

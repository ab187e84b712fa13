"""Records of arrays: named tuples that are indexed, and written to, all fields at once.

A namedarraytuple is a ``namedtuple`` whose square brackets reach into its fields, so that
``dest[t] = src`` copies one time step of any nested structure, and ``x[:, 0]`` is the first
environment of every array. A field that is None is a hole, and is skipped. Records come from

* :func:`namedarraytuple`, a factory with the interface of ``collections.namedtuple``;
* :func:`record`, a decorator for ``typing.NamedTuple`` classes, that declare fields with types;
* :func:`record_class`, one class for every call with equal name and fields;
* :class:`NamedArrayTupleSchema`, an object instead of a class that makes records.

All of them have the same methods, assign to each other when their field names agree, and pickle
from anywhere.
"""

from __future__ import annotations

import sys
from collections import namedtuple as namedtuple
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, overload

from rlpyt.utils._array_fields import (
    RESERVED_NAMES as RESERVED_NAMES,
    array_class,
    is_namedarraytuple_class as is_namedarraytuple_class,
    is_namedtuple_class as is_namedtuple_class,
    namedtuple_class,
    record_class as record_class,
)
from rlpyt.utils._schema import (
    NamedArrayTuple as NamedArrayTuple,
    NamedArrayTupleSchema as NamedArrayTupleSchema,
    NamedTuple as NamedTuple,
    NamedTupleSchema as NamedTupleSchema,
    tuple_itemgetter as tuple_itemgetter,
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
        typename: Name of the class.
        field_names: Names of the fields, as ``collections.namedtuple`` takes them; not "get" or
            "items".
        return_namedtuple_cls: Return the namedtuple class that the new class is built on, too.
        classname_suffix: Name the class ``<typename>_nat`` and its namedtuple ``<typename>_nt``.

    Returns:
        The class, or the pair (class, namedtuple class).

    Raises:
        ValueError: If a field name is reserved or not valid.
    """
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    nt_name, nat_name = _class_names(typename, classname_suffix)
    nt_cls = namedtuple_class(nt_name, field_names, module)
    nat_cls: type[Any] = array_class(nat_name, nat_name, nt_cls)
    return (nat_cls, nt_cls) if return_namedtuple_cls else nat_cls


def record(cls: RecordCls) -> RecordCls:
    """Turn a ``typing.NamedTuple`` class into a namedarraytuple class (class decorator).

    Name, module, docstring, defaults and methods stay those of ``cls``.

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
    """Return the namedarraytuple class with name and fields of a named tuple of any form.

    Args:
        namedtuple_or_class: A namedtuple, namedarraytuple or schema-style record, or the class or
            schema of one.
        classname_suffix: Append "_nat" to the name; has no effect on a namedarraytuple.

    Raises:
        TypeError: If it is none of these.
    """
    cls = (
        namedtuple_or_class if isinstance(namedtuple_or_class, type) else type(namedtuple_or_class)
    )
    if is_namedarraytuple_class(cls):
        return cls
    typename, fields = _name_and_fields(namedtuple_or_class)
    return record_class(_class_names(typename, classname_suffix)[1], fields)


def NamedArrayTupleSchema_like(example: Any) -> NamedArrayTupleSchema:
    """Return the :class:`NamedArrayTupleSchema` with name and fields of any named tuple.

    Args:
        example: Named tuple of any form, or its class or schema; a schema of this type is
            returned itself.

    Raises:
        TypeError: If it is no form of named tuple.
    """
    if isinstance(example, NamedArrayTupleSchema):
        return example
    return NamedArrayTupleSchema(*_name_and_fields(example))


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

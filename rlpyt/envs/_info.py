"""Conversion of gym's info dictionaries to records of constant fields, shapes and dtypes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from rlpyt.core.rows import NUMBERS, MisfitError, fitted, warn_of_loss
from rlpyt.spaces.gym_wrapper import field_names
from rlpyt.utils.collections import record_class
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested

_NUMERIC_KINDS = "biufc"
# Order of lossless casts: bool to integer to real to complex.
_KIND_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
# Last declarations of build_info_tuples, by name, for info_to_nt without a layout.
_declared: dict[str, InfoLayout] = {}


class InfoLayout:
    """Fields of info records, declared by an example of an info dictionary.

    Keys that are not valid field names are rewritten (``ale.lives`` to ``ale_lives``). Entries that
    are not numeric are left out, with one notice in the log. ``is_success`` has a meaning to the
    library, so if only later infos have it, their records carry it as an attribute.

    Args:
        example: example of the dictionary; nested dictionaries become nested records.
        name: name of the record class; sub-records are named ``<name>_<field>``.
    """

    def __init__(self, example: Mapping[Any, Any], name: str = "info") -> None:
        self._name = name
        numeric = {key: value for key, value in example.items() if is_numeric(value)}
        left_out = [str(key) for key in example if key not in numeric]
        if left_out:
            logger.log_once(
                f"{name}: entries that are not numeric are left out: {', '.join(left_out)}"
            )
        fields = field_names(numeric)
        self.record_cls: Any = record_class(name, fields)
        self._parts: list[tuple[Any, type | None, InfoLayout | _Leaf]] = []
        for (key, value), field in zip(numeric.items(), fields):
            is_nested = isinstance(value, Mapping)
            nested, entry = f"{name}_{field}", f"{name}[{key!r}]"
            part = InfoLayout(value, nested) if is_nested else _Leaf(value, entry)
            # A scalar of exactly this type needs no check.
            is_scalar = isinstance(value, (int, float, np.generic))
            self._parts.append((key, type(value) if is_scalar else None, part))
        self._has_success = "is_success" in fields

    def read(self, info: Any) -> Nested:
        """Return the record of ``info``: unknown keys are dropped, missing ones are zero.

        So are entries whose shape differs from the example's, or whose type does not fit, with one
        notice in the log.
        """
        if not isinstance(info, Mapping):
            raise MisfitError(f"info {info!r} instead of a dictionary")
        values = []
        for key, scalar_type, part in self._parts:
            value = info.get(key)
            values.append(value if type(value) is scalar_type else self._read(key, part, value))
        record = self.record_cls(*values)
        success = None if self._has_success else info.get("is_success")
        return record if success is None else _with_success(record, success)

    def _read(self, key: Any, part: InfoLayout | _Leaf, value: Any) -> Any:
        if value is None:
            logger.log_once(f"{self._name}[{key!r}] is 0 where it is missing")
            return part.zeros()
        try:
            return part.read(value)
        except MisfitError:
            logger.log_once(
                f"WARNING: {self._name}[{key!r}] is left out, with 0 in its place, where it is "
                f"not {part}, as in the first step: to record it, pass make(..., "
                "info_example={...}) with this entry in its final shape and type"
            )
            return part.zeros()

    def zeros(self) -> Nested:
        """Return the record with zeros everywhere."""
        return self.record_cls(*[part.zeros() for _, _, part in self._parts])

    def __repr__(self) -> str:
        return "a dictionary"


def _with_success(record: Any, success: Any) -> Any:
    """Return ``record`` with an attribute ``is_success`` beside its fields."""
    cls: Any = type(record)
    late = _late_class(cls)(*record)
    late.is_success = success
    return late


def map_info(fn: Callable[[Any], Any], record: Any) -> Any:
    """Return ``record`` with ``fn`` applied to its fields, and to an ``is_success`` beside them."""
    mapped = record._make(map(fn, record))
    if "is_success" in record._fields or not hasattr(record, "is_success"):
        return mapped
    return _with_success(mapped, fn(np.asarray(record.is_success)))


@cache
def _late_class(record_cls: Any) -> Any:
    """Return a subclass whose records have room for attributes."""

    class Late(record_cls):  # type: ignore[misc]
        _make = record_cls._make  # A copy of the fields is the plain record.

        def __reduce__(self) -> Any:
            return _with_success, (record_cls(*self), self.is_success)

    return Late


class _Leaf:
    """Type and shape of one number or array."""

    def __init__(self, example: Any, name: str) -> None:
        self._name = name
        array = np.asarray(example)
        self._dtype, self._shape = array.dtype, array.shape
        self._is_float = type(example) is float

    def read(self, value: Any) -> Any:
        if self._is_float and type(value) in NUMBERS:
            return float(value)
        array = fitted(value, self._shape, "")
        if _KIND_ORDER[array.dtype.kind] > _KIND_ORDER[self._dtype.kind]:
            raise MisfitError(f"of type {array.dtype}")
        if array.dtype == self._dtype:
            return array
        if self._dtype.kind in "iu":
            warn_of_loss(self._name, array, self._dtype)
        return array.astype(self._dtype)

    def zeros(self) -> Any:
        return np.zeros(self._shape, dtype=self._dtype)

    def __repr__(self) -> str:
        return f"of shape {self._shape} and type {self._dtype}"


def as_reals(info: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the first info with numbers as floats, since later ones may not be whole.

    Arrays of integers become float64 too, except small types, which pictures and masks have.
    """
    return {key: _as_real(value) for key, value in info.items()}


def _as_real(value: Any) -> Any:
    if isinstance(value, Mapping):
        return as_reals(value)
    if not is_numeric(value):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or (array.ndim > 0 and array.dtype.itemsize < 4):
        return value
    return array.astype(np.float64) if array.ndim else float(array)


def is_numeric(value: Any) -> bool:
    """Return whether ``value`` is a number, an array or list of numbers, or a dictionary."""
    if isinstance(value, Mapping):
        return True
    try:
        return np.asarray(value).dtype.kind in _NUMERIC_KINDS
    except ValueError:  # A ragged list.
        return False


def build_info_tuples(info: Mapping[Any, Any], name: str = "info") -> InfoLayout:
    """Return the layout that the example ``info`` declares.

    The layout is the default of :func:`info_to_nt` for ``name`` until the next declaration.
    """
    layout = _declared[name] = InfoLayout(info, name)
    return layout


def info_to_nt(value: Any, name: str = "info", layout: InfoLayout | None = None) -> Nested:
    """Convert an info dictionary to a record.

    Args:
        value: info dictionary; anything else is returned unchanged.
        name: name of the record class, if ``layout`` is None.
        layout: declared fields; None for the last layout that :func:`build_info_tuples` declared
            under ``name``, or for all fields of ``value`` if there is none.
    """
    if not isinstance(value, Mapping):
        return value
    return (layout or _declared.get(name) or InfoLayout(value, name)).read(value)


def infill_info(info: dict[Any, Any], sometimes_info: Mapping[Any, Any]) -> dict[Any, Any]:
    """Add the missing entries of ``sometimes_info`` to ``info``, in place and recursively."""
    for key, value in sometimes_info.items():
        if key not in info:
            info[key] = copy.deepcopy(value)
        elif isinstance(value, Mapping) and isinstance(info[key], dict):
            infill_info(info[key], value)
    return info

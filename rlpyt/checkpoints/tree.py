"""Conversion of states to JSON values, and arrays by name.

JSON lacks tuples, keys other than text, and infinite numbers. Each such value, and each dictionary,
becomes an object with one entry that maps its kind to its content. Decoding makes only values of
these kinds, so it never runs code from a file.
"""

from __future__ import annotations

import base64
import math
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.checkpoints.arrays import is_storable
from rlpyt.utils.collections import NamedArrayTuple, is_namedarraytuple_class, record_class
from rlpyt.utils.seed import generator_state, set_generator_state
from rlpyt.utils.types import Array

_LARGEST_INT = 2**63  # Other JSON readers round larger numbers.
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def encode(state: Any, path: str = "") -> tuple[Any, dict[str, Array]]:
    """Return ``state`` as JSON values, and its arrays (not copied) by their paths.

    Subclasses of Python's own types become these types; records keep their name and fields.

    Args:
        state: plain values, arrays, tensors and generators of numpy, in dictionaries, lists,
            tuples, sets and deques.
        path: name of the state, the beginning of all paths.

    Raises:
        TypeError: if a value cannot be encoded; the message names its path.
    """
    arrays: dict[str, Array] = {}
    return _encode_value(state, path, arrays), arrays


def decode(tree: Any, array_of: Callable[[str], Any]) -> Any:
    """Return the state from the results of :func:`encode`.

    Args:
        tree: JSON values.
        array_of: function that returns the array of a path.

    Raises:
        ValueError: if ``tree`` was not made by :func:`encode`.
    """
    if isinstance(tree, list):
        return [decode(part, array_of) for part in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        return array_of(content)
    if kind == "scalar":
        return array_of(content)[()]
    if kind == "dict":
        return {key: decode(part, array_of) for key, part in content.items()}
    if kind in _FROM_PARTS:
        return _FROM_PARTS[kind](decode(content, array_of))
    if kind in _FROM_TEXT:
        return _FROM_TEXT[kind](content)
    raise ValueError(f"a value of the unknown kind {kind!r}")


def _generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"a generator of the unknown kind {name!r}")
    generator = np.random.Generator(getattr(np.random, name)())
    set_generator_state(generator, state)
    return generator


def _random_state(state: dict[str, Any]) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


def _record(name_fields_values: list[Any]) -> Any:
    name, fields, values = name_fields_values
    return record_class(name, fields)(*values)


def _named_tuple(name_fields_values: list[Any]) -> Any:
    name, fields, values = name_fields_values
    make: Callable[..., Any] = namedtuple  # Mypy wants literals as names.
    return make(name, fields)(*values)


_FROM_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": lambda parts: deque(*parts),
    "generator": _generator,
    "random_state": _random_state,
    "items": dict,
    "ordered": OrderedDict,
    "record": _record,
    "namedtuple": _named_tuple,
    "complex": lambda parts: complex(*parts),
}
# Type -> its kind in ``_FROM_PARTS``, and its content.
_CONTENTS: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    complex: ("complex", lambda value: [value.real, value.imag]),
    set: ("set", lambda value: sorted(value, key=repr)),
    frozenset: ("frozenset", lambda value: sorted(value, key=repr)),
    deque: ("deque", lambda value: [list(value), value.maxlen]),
    np.random.Generator: ("generator", generator_state),
    np.random.RandomState: ("random_state", lambda value: value.get_state(legacy=False)),
}
_FROM_TEXT: Mapping[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "bytes": base64.b64decode,
}


def _encode_value(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.generic):  # First, because a float64 is also a float.
        return {"scalar": _add(np.asarray(value), path, arrays)}
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST_INT else {"int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return {"array": _add(value, path, arrays)}
    if isinstance(value, dict):
        return _encode_dict(value, path, arrays)
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None) if isinstance(value, tuple) else None
        steps = range(len(value)) if names is None else names
        # Not by index, which selects within the fields of records.
        parts = [_encode_value(part, _join(path, i), arrays) for i, part in zip(steps, iter(value))]
        if names is not None:
            is_record = is_namedarraytuple_class(type(value)) or isinstance(value, NamedArrayTuple)
            kind = "record" if is_record else "namedtuple"
            name = getattr(value, "_typename", type(value).__name__)
            return {kind: [name, list(names), parts]}
        return parts if isinstance(value, list) else {"tuple": parts}
    for cls, (kind, content_of) in _CONTENTS.items():
        if isinstance(value, cls):
            return {kind: _encode_value(content_of(value), path, arrays)}
    raise _cannot_be_saved(value, path, "has a type that is neither an array nor a plain value")


def _encode_dict(value: dict[Any, Any], path: str, arrays: dict[str, Array]) -> Any:
    if not isinstance(value, OrderedDict) and all(type(key) is str for key in value):
        return {"dict": {k: _encode_value(v, _join(path, k), arrays) for k, v in value.items()}}
    items = [
        [_encode_value(k, _join(path, "keys"), arrays), _encode_value(v, _join(path, k), arrays)]
        for k, v in value.items()
    ]
    kind = "ordered" if isinstance(value, OrderedDict) else "items"
    return {kind: items}


def _join(path: str, step: Any) -> str:
    return f"{path}.{step}" if path else str(step)


def _add(array: Any, path: str, arrays: dict[str, Array]) -> str:
    """Add ``array`` to ``arrays``, and return its name there."""
    if not is_storable(array):
        kind = array.layout if isinstance(array, torch.Tensor) else "an array"
        raise _cannot_be_saved(array, path, f"is {kind} of {array.dtype}")
    name, n = path or "state", 1
    while name in arrays:  # Keys may have dots in them.
        n += 1
        name = f"{path}({n})"
    arrays[name] = array
    return name


def _cannot_be_saved(value: Any, path: str, reason: str) -> TypeError:
    return TypeError(
        f"{path or 'the state'} cannot be saved: it is {type(value).__name__!r}, which {reason}; "
        "let state_dict() return numbers, text, None, bytes, lists, tuples, sets, deques, "
        "dictionaries, numpy arrays, numpy generators and tensors"
    )

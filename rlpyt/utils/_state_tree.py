"""State trees taken apart into plain values, as JSON holds them, and arrays by name.

JSON has no tuples, no keys but text, and no numbers that are infinite: every value that it cannot
hold as it is becomes an object with one entry, its kind and content, as does every dictionary.
Rebuilding makes values of these kinds and nothing else, so no code of the one who wrote it runs.
"""

from __future__ import annotations

import base64
import math
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.utils.collections import is_namedarraytuple_class, record_class
from rlpyt.utils.types import Array

_LARGEST_INT = 2**63  # Beyond it other readers of JSON round.
# Elements that safetensors has; of others the bytes are stored.
_REAL = (
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64),
)
_TENSORS = (*_REAL, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
_COMPLEX = (torch.complex64, torch.complex128)
_ARRAYS = tuple(str(dtype).removeprefix("torch.") for dtype in _REAL)


def take_apart(state: Any) -> tuple[Any, dict[str, Array]]:
    """Return ``state`` as values of JSON, and its arrays (not copied) by their path in the tree.

    Subclasses of Python's own types are taken for these; records keep their name and fields.

    Raises:
        TypeError: if a value cannot be saved; the message names its path.
    """
    arrays: dict[str, Array] = {}
    return _encode(state, "", arrays), arrays


def put_together(tree: Any, array_of: Callable[[str], Any]) -> Any:
    """Return the state of which :func:`take_apart` made ``tree``.

    Args:
        tree: values of JSON.
        array_of: returns the array of a name.

    Raises:
        ValueError: if ``tree`` is not of :func:`take_apart`.
    """
    if isinstance(tree, list):
        return [put_together(part, array_of) for part in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        return array_of(content)
    if kind == "scalar":
        return array_of(content)[()]
    if kind == "dict":
        return {key: put_together(part, array_of) for key, part in content.items()}
    if kind in _FROM_PARTS:
        return _FROM_PARTS[kind](put_together(content, array_of))
    if kind in _FROM_TEXT:
        return _FROM_TEXT[kind](content)
    raise ValueError(f"a value of the unknown kind {kind!r}")


def _record(name_fields_values: list[Any]) -> Any:
    name, fields, values = name_fields_values
    return record_class(name, fields)(*values)


def _named_tuple(name_fields_values: list[Any]) -> Any:
    name, fields, values = name_fields_values
    make: Callable[..., Any] = namedtuple  # Its names are not literals, as mypy wants them.
    return make(name, fields)(*values)


_FROM_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "items": dict,
    "ordered": OrderedDict,
    "record": _record,
    "namedtuple": _named_tuple,
    "complex": lambda parts: complex(*parts),
}
_FROM_TEXT: Mapping[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "bytes": base64.b64decode,
}


def _encode(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.generic):  # First, because a float64 is also a float.
        return {"scalar": _add(np.asarray(value), path, arrays)}
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST_INT else {"int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, complex):
        return {"complex": [_encode(part, path, arrays) for part in (value.real, value.imag)]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return {"array": _add(value, path, arrays)}
    if isinstance(value, dict):
        return _encode_dict(value, path, arrays)
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None) if isinstance(value, tuple) else None
        steps = range(len(value)) if names is None else names
        # Not by indexing, which reaches into the fields of records.
        parts = [_encode(part, _join(path, i), arrays) for i, part in zip(steps, iter(value))]
        if names is not None:
            kind = "record" if is_namedarraytuple_class(type(value)) else "namedtuple"
            return {kind: [type(value).__name__, list(names), parts]}
        return parts if isinstance(value, list) else {"tuple": parts}
    raise _cannot_be_saved(value, path, "has a type that is neither an array nor a plain value")


def _encode_dict(value: dict[Any, Any], path: str, arrays: dict[str, Array]) -> Any:
    if not isinstance(value, OrderedDict) and all(type(key) is str for key in value):
        return {"dict": {k: _encode(v, _join(path, k), arrays) for k, v in value.items()}}
    items = [
        [_encode(k, _join(path, "keys"), arrays), _encode(v, _join(path, k), arrays)]
        for k, v in value.items()
    ]
    kind = "ordered" if isinstance(value, OrderedDict) else "items"
    return {kind: items}


def _join(path: str, step: Any) -> str:
    return f"{path}.{step}" if path else str(step)


def _add(array: Any, path: str, arrays: dict[str, Array]) -> str:
    """Add ``array`` to ``arrays``, and return its name there."""
    if isinstance(array, torch.Tensor):
        if array.layout != torch.strided or array.dtype not in (*_TENSORS, *_COMPLEX):
            raise _cannot_be_saved(array, path, f"is a tensor of {array.dtype}, {array.layout}")
    elif isinstance(array, np.ma.MaskedArray) or array.dtype.kind in "OV" or not array.itemsize:
        raise _cannot_be_saved(array, path, f"is an array of {array.dtype}")
    name, n = path or "state", 1
    while name in arrays:  # Keys may have dots in them.
        n += 1
        name = f"{path}({n})"
    arrays[name] = array
    return name


def _cannot_be_saved(value: Any, path: str, reason: str) -> TypeError:
    return TypeError(
        f"{path or 'the state'} cannot be saved: it is {type(value).__name__!r}, which {reason}; "
        "let state_dict() return numbers, text, None, bytes, lists, tuples, dictionaries, numpy "
        "arrays and tensors"
    )


# --- Arrays as tensors, which safetensors writes ------------------------------------------------


def describe(array: Array) -> dict[str, Any]:
    """Return type, dtype and shape of ``array`` as values of JSON."""
    if isinstance(array, torch.Tensor):
        return {
            "type": "torch",
            "dtype": str(array.dtype).removeprefix("torch."),
            "shape": list(array.shape),
        }
    return {"type": "numpy", "dtype": array.dtype.str, "shape": list(array.shape)}


def as_stored(array: Array) -> torch.Tensor:
    """Return a copy of ``array`` as a tensor that safetensors can write."""
    if isinstance(array, torch.Tensor):
        copy = array.detach().to("cpu", copy=True).resolve_conj().resolve_neg().contiguous()
        return torch.view_as_real(copy) if copy.is_complex() else copy
    copied = np.array(array, order="C")
    if copied.dtype.isnative and copied.dtype.name in _ARRAYS:
        return torch.from_numpy(copied)
    return torch.from_numpy(copied.reshape(-1).view(np.uint8))


def from_stored(stored: torch.Tensor, description: Mapping[str, Any]) -> Array:
    """Return the array with this :func:`describe` of which :func:`as_stored` made ``stored``.

    Raises:
        ValueError: if they do not fit together.
    """
    if description["type"] == "torch":
        is_complex = description["dtype"].startswith("complex")
        return torch.view_as_complex(stored) if is_complex else stored
    dtype = np.dtype(description["dtype"])
    if dtype.hasobject:
        raise ValueError(f"an array of {dtype} holds objects")
    array: Array = stored.numpy().view(dtype).reshape(description["shape"])
    return array

"""Adapter of gym and gymnasium spaces to the interface of this library.

Dictionaries and tuples become records, so that every element is a nested structure of arrays, and
finite sets count from zero, as the outputs of a network do.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.core.bounds import draw_between, is_bound, rounded_inward
from rlpyt.core.rows import MisfitError, warn_of_loss
from rlpyt.spaces.composite import Composite
from rlpyt.utils.collections import record_class
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.types import NDArray, Nested

_LEAVES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_NESTS = ("Dict", "Tuple")
_FLOAT32 = np.dtype(np.float32)
# Methods of records and tuples that a field with such a name would hide.
_METHODS = ("get", "items", "index", "count")
# Fields of the last wrapped space of each name, for dict_to_nt.
_declared: dict[str, tuple[str, ...]] = {}


class GymSpaceWrapper:
    """Wrapper of a gym space that converts values between the environment and the library.

    ``Dict`` and ``Tuple`` spaces, nested to any depth, are a :class:`Composite` of wrapped spaces.
    Keys that are not valid field names are rewritten (``ale.lives`` to ``ale_lives``); the entries
    of a tuple are ``item_0``, ``item_1``, ... Spaces with different keys may share one ``name``:
    the fields of an element follow its own space.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple space.
        null_value: content of :meth:`null_value`: a number, an array of the shape of an element, a
            mapping with the keys of a Dict, or None for 0. A Discrete space counts from 0 here.
        name: name of the record class; sub-records are named ``<name>_<field>``.
        force_float32: whether other types of real numbers become float32.

    Raises:
        TypeError: if ``space`` is of another kind.
    """

    def __init__(
        self,
        space: Any,
        null_value: Any = 0,
        name: str = "obs",
        force_float32: bool = True,
    ) -> None:
        self._gym_space = space
        self._kind = _kind(space)
        self._name = name
        self._null_value = 0 if null_value is None else null_value
        self._force_float32 = force_float32
        self._dtype: np.dtype[Any] | None = None
        self._is_float = getattr(space.dtype, "kind", None) == "f"
        self._is_cast = space.dtype != np.float32  # Actions are float32, or integers.
        self._start: Any = 0
        self._is_seeded = False
        self.schemas: dict[str, Any] = {}
        self.space: Any = space
        if self._kind in _NESTS:
            self._wrap_parts(space.spaces)
        else:
            self._start = np.asarray(getattr(space, "start", 0), dtype=space.dtype)
            n_choices = {"Discrete": "n", "MultiDiscrete": "nvec"}.get(self._kind)
            self._n_choices = np.asarray(getattr(space, n_choices) if n_choices else 2)
            if force_float32 and self._is_float and space.dtype != np.float32:
                self._dtype = np.dtype(np.float32)

    def _wrap_parts(self, spaces: Any) -> None:
        """Wrap the sub-spaces, and collect the record classes by name in ``schemas``."""
        pairs = spaces.items() if self._kind == "Dict" else enumerate(spaces)
        spaces_by_key = dict(pairs)
        self._keys = list(spaces_by_key)
        fields = field_names(self._keys)
        null = self._null_value
        self._parts = [
            GymSpaceWrapper(
                part,
                null_value=null.get(key, 0) if isinstance(null, Mapping) else null,
                name=f"{self._name}_{field}",
                force_float32=self._force_float32,
            )
            for field, (key, part) in zip(fields, spaces_by_key.items())
        ]
        self._record_cls: Any = record_class(self._name, fields)
        self.schemas[self._name] = self._record_cls
        _declared[self._name] = fields
        for part in self._parts:
            self.schemas.update(part.schemas)
        self.space = Composite(self._parts, self._record_cls)

    def sample(self) -> Nested:
        """Return a converted random element."""
        if self._kind in _NESTS:
            return self.space.sample()
        if not self._is_seeded:
            self._seed_if_fresh()
        if self._kind != "Box" or not self._is_float:
            return self.convert(self._gym_space.sample())
        low, high = self._bounds()
        if any(np.any(np.isfinite(bound) & ~is_bound(bound)) for bound in (low, high)):
            return draw_between(self._gym_space.np_random, low, high)
        return np.asarray(np.clip(self.convert(self._gym_space.sample()), low, high))

    def null_value(self) -> Nested:
        """Return an element filled with the null value, without using the generator."""
        if self._kind in _NESTS:
            return self.space.null_value()
        null = np.empty(self._gym_space.shape, dtype=self.dtype)
        null[...] = self._null_value
        return null

    def convert(self, value: Any) -> Nested:
        """Convert a value of the environment to arrays and records; None stays.

        Raises:
            MisfitError: if an entry of a Dict or Tuple space is missing, or a choice is not
                a whole number.
        """
        if self._kind == "Box":
            array = np.asarray(value)
            if array.dtype.kind == "f":  # Buffers take the type of the first value, in any space.
                is_kept = array.dtype is _FLOAT32 or not self._force_float32
                return array if is_kept else array.astype(_FLOAT32)
            if array.dtype.kind in "biu":  # Networks scale bytes.
                if self.dtype.kind != "f" and array.dtype != self.dtype:
                    warn_of_loss(self._name, array, self.dtype)
                return array.astype(self.dtype, copy=False)
        if value is None:
            return None
        if self._kind not in _NESTS:
            return self._as_choices(value)
        values = self._entries(value)
        return self._record_cls(*[part.convert(v) for part, v in zip(self._parts, values)])

    def _as_choices(self, value: Any) -> NDArray:
        given = np.asarray(value)
        choices = np.asarray(given.astype(self._gym_space.dtype) - self._start)
        if given.dtype.kind == "f" and np.any(given != np.floor(given)):
            raise MisfitError(f"{self._name} {value!r}, which is no element of {self._gym_space}")
        n = self._n_choices
        has_shape = choices.shape[choices.ndim - n.ndim :] == n.shape
        if has_shape and not np.all((choices >= 0) & (choices < n)):
            logger.log_once(
                f"WARNING: {self._name} {value!r} is no element of {self._gym_space}: a network "
                "has no input for it"
            )
        return choices

    def revert(self, value: Nested) -> Any:
        """Convert an element, as any kind of record, to a value for the environment.

        Elements [B,...] for a vector environment are converted at once.

        Raises:
            ValueError: if a field is missing.
        """
        if self._kind == "Box":
            return np.asarray(value, dtype=self._gym_space.dtype) if self._is_cast else value
        if self._kind == "Discrete" and np.ndim(value) == 0:
            return int(value) + int(self._start)
        if self._kind not in _NESTS:
            return (np.asarray(value) + self._start).astype(self._gym_space.dtype, copy=False)
        values = [part.revert(v) for part, v in zip(self._parts, self._entries(value))]
        return dict(zip(self._keys, values)) if self._kind == "Dict" else tuple(values)

    def convert_tensors(self, value: Any) -> Nested:
        """Convert tensors [B,...] of a vector environment as :meth:`convert`, on their device."""
        if self._kind in _NESTS:
            values = self._entries(value)
            return self._record_cls(*[p.convert_tensors(v) for p, v in zip(self._parts, values)])
        if self._kind != "Box":
            return value - self._start_on(value.device)
        narrows = self._force_float32 and value.dtype == torch.float64
        widens = self._is_float and not value.is_floating_point()
        return value.float() if narrows or widens else value

    def revert_tensors(self, value: Nested) -> Any:
        """Convert an element [B,...] of tensors as :meth:`revert`, on their device."""
        if self._kind in _NESTS:
            entries = zip(self._parts, self._entries(value))
            values = [part.revert_tensors(v) for part, v in entries]
            return dict(zip(self._keys, values)) if self._kind == "Dict" else tuple(values)
        return value if self._kind == "Box" else value + self._start_on(value.device)

    def _start_on(self, device: torch.device) -> Any:
        start = self._start  # A single number needs no copy to the device.
        return int(start) if start.ndim == 0 else torch.as_tensor(start, device=device)

    def _entries(self, value: Any) -> list[Any]:
        """Return the entries of a mapping, record or tuple, in the order of the fields."""
        if isinstance(value, Mapping):
            entries = [value[key] for key in self._keys if key in value]
        elif hasattr(value, "_fields"):
            names = self._record_cls._fields
            entries = [getattr(value, name) for name in names if name in value._fields]
        else:
            entries = list(value)
        if len(entries) != len(self._keys):
            raise MisfitError(
                f"{self._name}={value!r}, which lacks entries of its space: give each of "
                f"{self._keys}"
            )
        return entries

    @property
    def dtype(self) -> Any:
        """Data type of an element; a record of types for Dict and Tuple."""
        if self._kind in _NESTS:
            return self._record_cls(*[part.dtype for part in self._parts])
        return self._gym_space.dtype if self._dtype is None else self._dtype

    @property
    def shape(self) -> Any:
        """Shape of an element; a record of shapes for Dict and Tuple."""
        return self.space.shape

    def contains(self, x: Nested) -> bool:
        """Return whether ``x``, a result of :meth:`convert`, is an element."""
        if self._kind in _NESTS:
            is_record = hasattr(x, "_fields")
            return bool((self.space if is_record else self._gym_space).contains(x))
        x = np.asarray(x)
        if self._kind == "Box" and self._dtype is not None:
            # Of an element at a bound, the nearest float32 may lie beyond it.
            fits = x.shape == self.shape and np.can_cast(x.dtype, np.float64)
            with np.errstate(over="ignore"):  # The largest float64 is infinite as float32.
                low, high = self._gym_space.low.astype("f4"), self._gym_space.high.astype("f4")
            return bool(fits and np.all(x >= low) and np.all(x <= high))
        if self._kind == "Discrete" and (x.shape != () or x.dtype.kind not in "iu"):
            return False
        return bool(self._gym_space.contains(self.revert(x)))

    @property
    def low(self) -> NDArray:
        """Lower bounds, in :attr:`dtype`, rounded inward."""
        return self._bounds()[0]

    @property
    def high(self) -> NDArray:
        """Upper bounds, inclusive, in :attr:`dtype`, rounded inward."""
        return self._bounds()[1]

    def _bounds(self) -> tuple[NDArray, NDArray]:
        low, high = self._gym_space.low, self._gym_space.high
        if self._dtype is None:
            return np.asarray(low), np.asarray(high)
        return rounded_inward(low, high, self._dtype)

    @property
    def n(self) -> Any:
        """Number of elements of a Discrete space; shape of a MultiBinary space."""
        n = self._gym_space.n
        return int(n) if np.ndim(n) == 0 else n

    def seed(self, seed: int | None = None) -> Any:
        """Seed the space; a Dict or Tuple seeds its parts differently, and returns a list."""
        if self._kind in _NESTS:
            return self.space.seed(seed)
        self._is_seeded = True
        return self._gym_space.seed(_draw_seed() if seed is None else int(seed))

    def _seed_if_fresh(self) -> None:
        """Seed an unseeded space from numpy's global generator, which ``set_seed`` seeds."""
        if getattr(self._gym_space, "_np_random", None) is None:
            self._gym_space.seed(_draw_seed())
        self._is_seeded = True

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator, or the states of the parts."""
        if self._kind in _NESTS:
            state: dict[str, Any] = self.space.state_dict()
            return state
        self._seed_if_fresh()
        return {"rng": generator_state(self._gym_space.np_random)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the random sequence from ``state``."""
        if self._kind in _NESTS:
            self.space.load_state_dict(state)
        else:
            set_generator_state(self._gym_space.np_random, state["rng"])

    def __repr__(self) -> str:
        return repr(self.space)

    def __eq__(self, other: object) -> bool:
        other_space = other._gym_space if isinstance(other, GymSpaceWrapper) else other
        return bool(self._gym_space == other_space)

    __hash__ = None  # type: ignore[assignment]


def _kind(space: Any) -> str:
    """Return the kind of a gym or gymnasium space, by name, so that neither must be installed."""
    for cls in type(space).__mro__:
        if cls.__name__ in _LEAVES + _NESTS and hasattr(space, "sample"):
            return cls.__name__
    raise TypeError(
        f"cannot wrap {space!r}: spaces may be {', '.join(_LEAVES + _NESTS)}; leave an entry of a "
        "Dict out by rlpyt.envs.gym.make(..., leave_out=[key]), or convert others in a wrapper of "
        "the environment"
    )


def _draw_seed() -> int:
    return int(make_generator().integers(2**31))


def dict_to_nt(value: Any, name: str = "obs") -> Nested:
    """Convert dictionaries to records, recursively, and float64 arrays to float32.

    Fields are ordered as in the last wrapped space with this name and these fields, or else as in
    ``value``.

    Args:
        value: mapping or leaf.
        name: name of the record class; sub-records are named ``<name>_<field>``.
    """
    if isinstance(value, Mapping):
        fields = field_names(value)
        parts = {f: dict_to_nt(v, f"{name}_{f}") for f, v in zip(fields, value.values())}
        declared = _declared.get(name, ())
        ordered = declared if set(declared) == set(fields) else fields
        return record_class(name, ordered)(**parts)
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value.astype(np.float32)
    return value


def nt_to_dict(value: Nested) -> Any:
    """Convert records of any kind to dictionaries by field name, recursively."""
    fields = getattr(value, "_fields", None)
    if isinstance(value, tuple) and fields is not None:
        return {field: nt_to_dict(part) for field, part in zip(fields, value)}
    return value


def field_names(keys: Iterable[object]) -> tuple[str, ...]:
    """Return one valid and unique field name per key: the key if that is possible.

    Other keys are rewritten: ``ale.lives`` becomes ``ale_lives``, ``class`` becomes ``class_``; a
    number is appended if the name is taken.
    """
    texts = [str(key) for key in keys]
    names = [text if _is_valid(text) else _rewritten(text) for text in texts]
    taken = {text for text in texts if _is_valid(text)}
    for i, (text, name) in enumerate(zip(texts, names)):
        if name == text:
            continue
        number = 2
        while names[i] in taken:
            names[i] = f"{name}_{number}"
            number += 1
        taken.add(names[i])
    return tuple(names)


def _is_valid(name: str) -> bool:
    hidden = name.startswith("_") or keyword.iskeyword(name) or name in _METHODS
    return name.isidentifier() and not hidden


def _rewritten(text: str) -> str:
    name = re.sub(r"\W", "_", text).lstrip("_")
    if not name or name[0].isdigit():
        name = f"item_{name}"
    name = name.rstrip("_") or "item"
    return name if _is_valid(name) else f"{name}_"

"""The border at which values of environments become rows of buffers.

An environment may return arrays of any type and layout, tensors, numbers or lists.
:func:`as_element` settles shape and type of a buffer by the first of them. Its rows refuse another
shape, which numpy would broadcast, and name the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import NotFiniteError
from rlpyt.utils.buffer import as_numpy, leaves, named_leaves
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.types import NDArray, Nested

# Types of rewards that are used as they are.
NUMBERS = frozenset((float, int, bool, np.float32, np.float64, np.int32, np.int64))


class MisfitError(ValueError):
    """Error for a value that does not fit a row; names the entry, and shows both shapes."""


def fitted(value: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return ``value`` as an array or tensor of ``shape``; axes of length 1 may be missing or more.

    Raises:
        MisfitError: if another axis differs, or ``value`` is not numeric. It is called ``name``.
    """
    try:
        array = value if isinstance(value, torch.Tensor) else np.asarray(value)
    except ValueError:  # A ragged list.
        array = np.asarray(None)
    is_numeric = isinstance(array, torch.Tensor) or array.dtype.kind in "biufc"
    if is_numeric and array.shape == shape:
        return array
    if is_numeric and [n for n in array.shape if n != 1] == [n for n in shape if n != 1]:
        return array.reshape(shape)
    given = f"of shape {tuple(array.shape)}" if is_numeric else repr(value)
    raise MisfitError(
        f"{name} {given} instead of shape {shape}: all environments of a sampler must return one "
        "shape, at every reset and step"
    )


def as_number(reward: Any, action: Nested) -> Any:
    """Return a reward, an array or tensor with one entry, as a number.

    Raises:
        MisfitError: if it has several entries or none.
        NotFiniteError: if it is nan; the message shows ``action``.
    """
    number = as_numpy(fitted(reward, (), "reward"))[()]
    if number != number:
        raise NotFiniteError(
            f"reward {number} for action {action}: fix the environment, or clip the action"
        )
    return number


def named(error: ValueError, env: Any, rank: int | None = None) -> ValueError:
    """Return ``error``, about what ``env`` returned, with the name of ``env``.

    Args:
        error: error of this module.
        env: environment.
        rank: index of the environment; None for a vector environment.
    """
    name = env if rank is None else f"environment {rank} ({type(env).__name__})"
    return type(error)(f"{name} returned {error}")


@contextmanager
def returned_by(env: Any, rank: int | None = None) -> Iterator[None]:
    """Name ``env`` in errors of the block; see :func:`named`."""
    try:
        yield
    except (MisfitError, NotFiniteError) as error:
        raise named(error, env, rank) from error


# --- First values ---------------------------------------------------------------------------------


def as_element(value: Nested, space: Any) -> Nested:
    """Return an observation as contiguous arrays, in the shapes and types that buffers get.

    A shape is that of ``space`` if only axes of length 1 differ. In a space of real numbers, real
    numbers and signed integers get torch's default type; if ``space`` has float64, integers get
    float64, and real numbers stay. Other types stay too, such as the bytes of images.

    Args:
        value: observation, in any form that an environment may return.
        space: observation space of the environment.
    """
    arrays, null = _arrays(value), None
    with suppress(AttributeError, NotImplementedError):  # In spaces of a program or of gymnasium.
        null = space.null_value()
    names, declared_names = ([name for name, _ in named_leaves(x)] for x in (arrays, null))
    declared = leaves(null if declared_names == names else arrays)
    return _rebuilt(arrays, iter(map(_as_declared, leaves(arrays), declared)))


def _arrays(value: Nested) -> Nested:
    if fields_of(value):
        return value._make(map(_arrays, value))
    return None if value is None else as_numpy(value)


def _rebuilt(structure: Nested, parts: Iterator[NDArray]) -> Nested:
    if isinstance(structure, tuple):
        return structure._make([_rebuilt(part, parts) for part in structure])  # type: ignore[attr-defined]
    return None if structure is None else next(parts)


def _as_declared(array: NDArray, declared: Any) -> NDArray:
    declared = np.asarray(declared)
    with suppress(MisfitError):  # Spaces of programs may describe something else.
        array = fitted(array, declared.shape, "")
    dtype, default = array.dtype, torch.empty(()).numpy().dtype
    is_double = declared.dtype == np.float64
    if declared.dtype.kind == "f" and dtype.kind in "bi":
        dtype = np.dtype(np.float64) if is_double else default
    elif dtype.kind == "f" and not is_double:
        dtype = default
    return np.array(array, dtype, order="C")


# --- Rows -----------------------------------------------------------------------------------------


class ArrayRows:
    """The rows of an array: ``rows[loc] = value`` for a value of their shape.

    Args:
        array: array or tensor.
        n_leading: number of leading dimensions, from which ``loc`` chooses a row.
        name: name of the entry, for messages.
    """

    def __init__(self, array: Any, n_leading: int, name: str) -> None:
        self._array, self._name = array, name
        self._cls = np.ndarray if isinstance(array, np.ndarray) else torch.Tensor
        self._shape = tuple(array.shape[n_leading:])
        self._dtype = array.dtype
        self._is_whole = self._cls is np.ndarray and array.dtype.kind in "iub"

    def __setitem__(self, loc: Any, value: Any) -> None:
        """Write an array, tensor, number or list.

        Raises:
            MisfitError: if an axis differs, other than by ones of length 1.
        """
        if type(value) is not self._cls or value.shape != self._shape:
            value = fitted(value, self._shape, self._name)
            value = as_numpy(value) if self._cls is np.ndarray else value
        if self._is_whole and value.dtype != self._dtype:
            warn_of_loss(self._name, value, self._dtype)
        self._array[loc] = value


class _WholeRows:
    """The rows of an array of whole numbers or booleans, one in each: ``rows[loc] = number``."""

    def __init__(self, array: NDArray, name: str) -> None:
        self._array, self._name, self._dtype = array, name, array.dtype
        # Numpy refuses a Python integer that does not fit.
        self._fitting = {array.dtype.type, bool if array.dtype.kind == "b" else int}

    def __setitem__(self, loc: Any, number: Any) -> None:
        if type(number) not in self._fitting:
            warn_of_loss(self._name, np.asarray(number), self._dtype)
        self._array[loc] = number


def warn_of_loss(name: str, given: NDArray, dtype: Any) -> None:
    """Log that ``given``, a value of ``name``, changes in a ``dtype`` of whole numbers, if so."""
    if np.can_cast(given.dtype, dtype):
        return
    with np.errstate(invalid="ignore"):
        is_changed = np.any(given.astype(dtype) != given)
    if is_changed:
        logger.log_once(
            f"WARNING: {name} of {given.dtype} loses its value as {dtype}, the type of the first "
            "one or of the space: return this type, or declare another one"
        )


class RecordRows:
    """The rows of a record of arrays: ``rows[loc] = record`` as for one array.

    Args:
        buffer: (nested) namedarraytuple of arrays.
    """

    def __init__(self, buffer: Nested) -> None:
        self._buffer = buffer
        self._leaves: list[Any] = leaves(buffer)
        self._n_leaves = len(self._leaves)
        self._to_numpy = True
        self._fitting: Any = None  # Type of the last record with these fields in this order.

    def __setitem__(self, loc: Any, record: Nested) -> None:
        """Write ``record`` of arrays, CPU tensors or numbers into ``[loc]`` of every array."""
        parts = leaves(record)
        is_known = type(record) is self._fitting
        if len(parts) != self._n_leaves or not (is_known or self._fits(record)):
            self._write_other(loc, record)
            return
        try:
            for leaf, part in zip(self._leaves, parts):
                # Assigning the tensor itself gives the same values ten times slower.
                leaf[loc] = part.numpy() if type(part) is torch.Tensor and self._to_numpy else part
        except (ValueError, TypeError, OverflowError):
            self._write_other(loc, record)

    def _fits(self, record: Nested) -> bool:
        """Return whether ``record`` has the fields of the buffer, in the same order."""
        names, own = ([name for name, _ in named_leaves(x)] for x in (record, self._buffer))
        if names == own:
            self._fitting = type(record)
        return names == own

    def _write_other(self, loc: Any, record: Nested) -> None:
        """Write ``record`` where another type or value was expected."""
        self._buffer[loc] = record  # Skips absent fields, and names a field that does not fit.


class ElementRows(RecordRows):
    """The rows of a record of observations; every entry has exactly its shape."""

    def __init__(self, buffer: Nested, n_leading: int, name: str) -> None:
        super().__init__(buffer)
        self._to_numpy = False  # Each of these does so if its array needs it.
        self._leaves = [
            ArrayRows(leaf, n_leading, f"{name}.{field}") for field, leaf in named_leaves(buffer)
        ]

    def _write_other(self, loc: Any, record: Nested) -> None:
        for rows, part in zip(self._leaves, _parts_of(record, self._buffer)):
            rows[loc] = part


class InfoRows(RecordRows):
    """The rows of ``env_info``; an entry that does not fit is left out, with one line."""

    def __init__(self, buffer: Nested, n_leading: int) -> None:
        super().__init__(buffer)
        self._arrays = self._leaves
        self._names = [name for name, _ in named_leaves(buffer, "env_info")]
        self._leaves = [
            self._rows_of(array, n_leading, name) for array, name in zip(self._arrays, self._names)
        ]

    @staticmethod
    def _rows_of(array: Any, n_leading: int, name: str) -> Any:
        if array.ndim > n_leading:
            return ArrayRows(array, n_leading, name)
        is_whole = isinstance(array, np.ndarray) and array.dtype.kind in "iub"
        return _WholeRows(array, name) if is_whole else array  # Which refuses all but a number.

    def _write_other(self, loc: Any, record: Nested) -> None:
        parts = _parts_of(record, self._buffer)
        for name, array, rows, part in zip(self._names, self._arrays, self._leaves, parts):
            array[loc] = 0
            if part is None:
                continue
            try:
                rows[loc] = part
            except (ValueError, TypeError, OverflowError):
                logger.log_once(
                    f"WARNING: {name} is left out, with 0 in its place, where it does not have the "
                    "shape and type of the first step"
                )


def _parts_of(record: Nested, structure: Nested) -> Iterator[Any]:
    """Yield the leaves of ``record`` in the order of ``structure``, None for a missing one."""
    if not isinstance(structure, tuple):
        yield record
        return
    for field, part in zip(structure._fields, structure):  # type: ignore[attr-defined]
        if part is not None:
            yield from _parts_of(getattr(record, field, None), part)


def rows_of(buffer: Nested) -> Any:
    """Return an object whose rows can be assigned, or None if ``buffer`` is empty.

    It is ``buffer`` itself if that is an array, or a :class:`RecordRows` that writes to it if it is
    a record.
    """
    if isinstance(buffer, np.ndarray):
        return buffer
    return RecordRows(buffer) if leaves(buffer) else None


def observation_rows(buffer: Nested, n_leading: int, name: str = "observation") -> Any:
    """Return an object whose rows take observations of exactly their shapes.

    Args:
        buffer: array or tensor, or record of them.
        n_leading: number of leading dimensions, from which a row is chosen.
        name: name of the observation, for messages.
    """
    rows = ElementRows if isinstance(buffer, tuple) else ArrayRows
    return rows(buffer, n_leading, name)


# --- Batches --------------------------------------------------------------------------------------


def is_finite(observation: Nested, env_rank: Callable[[int], int]) -> bool:
    """Return whether all observations [T,B,...] are finite; log the first one that is not.

    Args:
        observation: arrays or tensors.
        env_rank: function that returns the index of column b over all processes.
    """
    for name, leaf in named_leaves(observation, "observation"):
        module: Any = torch if isinstance(leaf, torch.Tensor) else np
        if "float" not in str(leaf.dtype) or bool(module.isfinite(leaf).all()):
            continue
        values = as_numpy(leaf)
        t, b, *entry = np.argwhere(~np.isfinite(values))[0].tolist()
        logger.log(
            f"WARNING: environment {env_rank(b)} returned {values[(t, b, *entry)]} in {name}"
            f"{entry or ''}, before step {t} of this batch: fix the environment, unless your model "
            "masks such values (logged once)"
        )
        return False
    return True


def warn_of_unscaled_images(observation: Nested, space: Any, name: str = "observation") -> None:
    """Log each entry that has images from 0 to 255 in a type that networks do not scale.

    Args:
        observation: element, as :func:`as_element` returns it.
        space: observation space.
        name: name of the observation.
    """
    if isinstance(observation, tuple):
        spaces = getattr(getattr(space, "space", space), "spaces", ())  # Of a wrapper, or its own.
        for field, part, part_space in zip(fields_of(observation), observation, spaces):
            warn_of_unscaled_images(part, part_space, f"{name}.{field}")
        return
    low, high = getattr(space, "low", -1), getattr(space, "high", 0)
    is_image = np.ndim(observation) == 3 and np.all(low == 0) and np.max(high) in (255, 256)
    if is_image and observation.dtype != np.uint8:
        logger.log_once(
            f"WARNING: {name} has images of {observation.dtype} with values from 0 to 255, which "
            "networks do not scale: return uint8, which they scale by 1/255, or values up to 1"
        )

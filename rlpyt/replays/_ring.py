"""Rows of any record, allocated from one example and written in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from rlpyt.replays._memory import Allocate
from rlpyt.replays._window import Window, runs
from rlpyt.utils.types import IntArray, NDArray, Nested


def as_numpy(array: Any) -> NDArray:
    """``array`` as numpy, without a copy where there is a choice."""
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def leaves_of(buffer: Nested) -> list[Any]:
    """The arrays of a nested structure, in the order of its fields."""
    if buffer is None:
        return []
    if isinstance(buffer, tuple):
        return [leaf for part in buffer for leaf in leaves_of(part)]
    return [buffer]


def named_leaves(buffer: Nested, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Pairs of dotted field name and array, in the order of :func:`leaves_of`."""
    if isinstance(buffer, tuple):
        names = getattr(buffer, "_fields", range(len(buffer)))
        for name, part in zip(names, buffer, strict=True):
            yield from named_leaves(part, f"{prefix}.{name}" if prefix else str(name))
    elif buffer is not None:
        yield prefix, buffer


class Ring:
    """Storage [T,B,...] for records like one example.

    Args:
        example: one entry, without leading dimensions.
        window: owner of T, B and the cursor.
        allocate: makes the arrays.
    """

    def __init__(self, example: Nested, window: Window, allocate: Allocate) -> None:
        self.window = window
        self.samples = allocate(example, (window.T, window.B))
        self.arrays: dict[str, NDArray] = dict(named_leaves(self.samples))

    def write(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Copy ``samples`` [T',B,...] to the rows from the cursor on; the cursor stays.

        Returns:
            T' and the rows written, as a slice or (where they wrap) as indexes [T'].

        Raises:
            ValueError: if fields or shapes do not fit; nothing is written then.
        """
        sources = [as_numpy(leaf) for leaf in leaves_of(samples)]
        n_rows = self._check(samples, sources)
        t, T = self.window.t, self.window.T
        if t + n_rows <= T:
            rows: slice | IntArray = slice(t, t + n_rows)
            for array, source in zip(self.arrays.values(), sources):
                array[rows] = source
        else:
            rows = np.arange(t, t + n_rows) % T
            for array, source in zip(self.arrays.values(), sources):
                write_rows(array, t, source, T)
        return n_rows, rows

    def _check(self, samples: Nested, sources: list[NDArray]) -> int:
        self._check_fields(samples, sources)
        n_rows = len(sources[0]) if sources[0].ndim else 0
        for (name, array), source in zip(self.arrays.items(), sources):
            if source.shape != (n_rows, *array.shape[1:]):
                raise ValueError(
                    f"samples.{name} has shape {source.shape}, this buffer stores "
                    f"[T', B={self.window.B}, ...] = [{n_rows}, {str(array.shape[1:])[1:-1]}]: "
                    "append batches of the B and the example it was made with"
                )
        self.window.check_fits(n_rows)
        return n_rows

    def _check_fields(self, samples: Nested, sources: list[NDArray]) -> None:
        own, given = self.samples._fields, getattr(samples, "_fields", None)
        if given == own and len(sources) == len(self.arrays):
            return
        names = [name for name, _ in named_leaves(samples)]
        order = " in another order" if given and sorted(given) == sorted(own) else ""
        missing = sorted(set(self.arrays) - set(names))
        unknown = sorted(set(names) - set(self.arrays))
        raise ValueError(
            f"samples have the fields {given} and this buffer {own}{order} (missing: {missing}, "
            f"unknown: {unknown}): append records with the fields of the example it was made with"
        )


def write_rows(array: NDArray, t: int, source: NDArray, T: int) -> None:
    """Copy ``source`` [T',...] to rows from t on of ``array`` [T,...], in at most two pieces."""
    done = 0
    for start, stop in runs(t, len(source), T):
        array[start:stop] = source[done : done + stop - start]
        done += stop - start


def filled_rows(arrays: dict[str, NDArray], window: Window) -> dict[str, NDArray]:
    """The written part of every array [T',...], as views.

    An array may have some more rows than T, which count as written, or only one for several.
    """

    def n_written(array: NDArray) -> int:
        rows_per_entry = max(1, window.T // len(array))
        return -(-window.n_filled // rows_per_entry) + max(0, len(array) - window.T)

    return {name: array[: n_written(array)] for name, array in arrays.items()}


def check_rows(arrays: dict[str, NDArray], given: dict[str, NDArray]) -> None:
    """Raise ``ValueError`` unless ``given`` has the names, dtypes and row shapes of ``arrays``."""
    if set(arrays) != set(given):
        raise ValueError(
            f"the state has the arrays {sorted(given)}, this buffer {sorted(arrays)}: construct it "
            "with the same class, example and n_step_return"
        )
    for name, array in arrays.items():
        other = given[name]
        if other.shape[1:] != array.shape[1:] or other.dtype != array.dtype:
            raise ValueError(
                f"{name} of the state is {other.dtype} of rows {other.shape[1:]}, this buffer has "
                f"{array.dtype} of rows {array.shape[1:]}: construct it with the same example and B"
            )

"""Boxes of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rlpyt.spaces.base import Space
from rlpyt.utils.types import NDArray


class IntBox(Space):
    """Arrays of integers v with ``low <= v < high``.

    Args:
        low: smallest value.
        high: largest value plus one.
        shape: shape of one element; ``()`` if not given.
        dtype: integer type that holds ``low`` and ``high - 1``.
        null_value: value from ``low`` to ``high - 1`` that stands for no data; ``low`` if not
            given.

    Raises:
        ValueError: if the interval is empty, does not fit ``dtype``, or lacks ``null_value``.
        TypeError: if ``dtype`` is not an integer type.
    """

    def __init__(
        self,
        low: int,
        high: int,
        shape: int | Sequence[int] | None = None,
        dtype: npt.DTypeLike = "int32",
        null_value: int | None = None,
    ) -> None:
        if np.size(low) != 1 or np.size(high) != 1:
            raise ValueError(f"low={low} and high={high} must be single integers")
        self.low, self.high = int(low), int(high)
        self.shape: tuple[int, ...] = np.empty(() if shape is None else shape, dtype=bool).shape
        self.dtype = np.dtype(dtype)
        if not np.issubdtype(self.dtype, np.integer):
            raise TypeError(f"dtype={self.dtype} must be an integer type; use FloatBox for reals")
        limits = np.iinfo(self.dtype)
        if not limits.min <= self.low < self.high <= limits.max + 1:
            raise ValueError(
                f"low={low}, high={high}: need low < high, within {limits.min} <= low and "
                f"high - 1 <= {limits.max} for dtype {self.dtype}"
            )
        self._null_value = self.low if null_value is None else int(null_value)
        if not self.low <= self._null_value < self.high:
            raise ValueError(f"null_value={null_value} must be at least {low} and below {high}")

    def sample(self) -> NDArray:
        """Return a uniformly drawn array of ``shape``."""
        drawn = self._generator().integers(self.low, self.high, size=self.shape)
        return np.asarray(drawn, dtype=self.dtype)

    def null_value(self) -> NDArray:
        """Return an array of ``shape`` filled with the null value."""
        return np.full(self.shape, self._null_value, dtype=self.dtype)

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` has the shape, an integer type and values inside the bounds."""
        x = np.asarray(x)
        fits = x.shape == self.shape and x.dtype.kind in "iu"
        return bool(fits and np.all(x >= self.low) and np.all(x < self.high))

    @property
    def bounds(self) -> tuple[int, int]:
        """``(low, high)``, high exclusive."""
        return self.low, self.high

    @property
    def n(self) -> int:
        """Number of values of one entry."""
        return self.high - self.low

    def __repr__(self) -> str:
        return f"IntBox({self.low}-{self.high - 1} shape={self.shape})"

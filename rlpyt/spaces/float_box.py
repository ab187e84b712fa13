"""Boxes of real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rlpyt.core.bounds import draw_between
from rlpyt.spaces.base import Space
from rlpyt.utils.types import NDArray


class FloatBox(Space):
    """Space of arrays of real numbers v with ``low <= v <= high``.

    Args:
        low: lower bounds: an array, or a number together with ``shape``.
        high: upper bounds, in the same form as ``low``.
        shape: shape of one element; not needed if ``low`` and ``high`` are arrays.
        null_value: number or array of the null element; None for 0.
        dtype: floating type of the elements.

    Raises:
        ValueError: if the shapes disagree or a lower bound is above the upper one.
        TypeError: if ``dtype`` is not a floating type.
    """

    def __init__(
        self,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        shape: int | Sequence[int] | None = None,
        null_value: npt.ArrayLike | None = 0.0,
        dtype: npt.DTypeLike = "float32",
    ) -> None:
        self.dtype = np.dtype(dtype)
        if not np.issubdtype(self.dtype, np.floating):
            raise TypeError(f"dtype={self.dtype} must be a floating type; IntBox is for integers")
        low_shape, high_shape = np.shape(low), np.shape(high)
        full_shape = np.empty(low_shape if shape is None else shape, dtype=bool).shape
        if low_shape != high_shape or low_shape not in ((), full_shape):
            raise ValueError(
                f"low has shape {low_shape}, high {high_shape}, and shape={shape}: give two arrays "
                "of equal shape, or two numbers and the shape"
            )
        self.low: NDArray = np.full(full_shape, low, dtype=self.dtype)
        self.high: NDArray = np.full(full_shape, high, dtype=self.dtype)
        if not np.all(self.low <= self.high):
            raise ValueError(f"low={low!r} must be at most high={high!r} everywhere")
        null = np.asarray(0 if null_value is None else null_value, dtype=self.dtype)
        self._null_value = np.broadcast_to(null, full_shape)

    def sample(self) -> NDArray:
        """Return a uniformly drawn array of ``shape``; normal where a bound exceeds NO_BOUND.

        Raises:
            ValueError: if a bound is infinite.
        """
        if not np.all(np.isfinite(self.low) & np.isfinite(self.high)):
            raise ValueError("cannot draw uniformly between infinite bounds: give finite ones")
        return draw_between(self._generator(), self.low, self.high)

    def null_value(self) -> NDArray:
        """Return an array of ``shape`` filled with the null value."""
        return self._null_value.copy()

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` has the shape and real values within the bounds."""
        x = np.asarray(x)
        fits = x.shape == self.shape and x.dtype.kind in "fiu"
        return bool(fits and np.all(x >= self.low) and np.all(x <= self.high))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one element."""
        return self.low.shape

    @property
    def bounds(self) -> tuple[NDArray, NDArray]:
        """``(low, high)``, both inclusive."""
        return self.low, self.high

    def __repr__(self) -> str:
        return f"FloatBox{self.shape}"

"""Bounds of actions as a policy uses them: float32 numbers inside those of the space."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rlpyt.utils.types import NDArray

# A bound beyond this, such as the largest float32, stands for no bound.
NO_BOUND = 1e6


def rounded_inward(
    low: npt.ArrayLike, high: npt.ArrayLike, dtype: npt.DTypeLike = np.float32
) -> tuple[NDArray, NDArray]:
    """Round bounds to numbers of ``dtype`` that lie between them.

    Both become the nearest number where none does.

    Args:
        low: lower bounds, of any shape.
        high: upper bounds, of the same shape.
        dtype: floating type of the results.
    """
    low, high = np.asarray(low), np.asarray(high)
    with np.errstate(over="ignore"):  # The largest float64 is infinite as float32.
        low_near, high_near = low.astype(dtype), high.astype(dtype)
    up, down = np.array([np.inf, -np.inf], dtype)
    inner_low = np.where(low_near < low, np.nextafter(low_near, up), low_near)
    inner_high = np.where(high_near > high, np.nextafter(high_near, down), high_near)
    is_empty = inner_low > inner_high
    return np.where(is_empty, low_near, inner_low), np.where(is_empty, high_near, inner_high)


def policy_bounds(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[NDArray, NDArray]:
    """Return bounds for a policy, in float32: rounded inward, and infinite beyond NO_BOUND."""
    low, high = rounded_inward(low, high)
    return np.where(low <= -NO_BOUND, -np.inf, low), np.where(high >= NO_BOUND, np.inf, high)


def is_bound(bound: NDArray) -> NDArray:
    """Return where bounds are of a size that a policy or a random action may span."""
    return np.abs(bound.astype(np.float64)) < NO_BOUND


def draw_between(rng: Any, low: NDArray, high: NDArray) -> NDArray:
    """Draw an array between bounds of its shape: uniform, or normal and clipped without bounds.

    Args:
        rng: generator or random state of numpy.
        low: lower bounds.
        high: upper bounds; their type is that of the result.
    """
    is_bounded = is_bound(low) & is_bound(high)
    first, last = (np.where(is_bounded, bound, 0).astype(np.float64) for bound in (low, high))
    drawn = first + (last - first) * rng.random(low.shape)
    if not is_bounded.all():
        drawn = np.where(is_bounded, drawn, rng.standard_normal(low.shape))
    # Rounding must not cross a bound.
    return np.asarray(np.clip(drawn.astype(low.dtype), low, high))

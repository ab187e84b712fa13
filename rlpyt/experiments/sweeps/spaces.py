"""Spaces of settings: distributions, grids and random draws.

A space maps the path of each setting to a distribution, or for grids to a list of values::

    space = {
        ("algo", "learning_rate"): Real(1e-5, 1e-2, log=True),
        ("algo", "minibatches"): Integer(1, 8),
        ("model", "hidden_sizes"): Choice([[64, 64], [256]]),
    }
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.experiments.sweeps.variant import Config, VariantLevel, make_variants, merged

Path = tuple[str, ...]
N_TRIES = 100  # Draws for each variant, after which all elements of a small space were found.


@dataclass(frozen=True)
class Real:
    """Real number between ``low`` and ``high``, uniform, or uniform in its logarithm."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high, self.log)

    def draw(self, rng: np.random.Generator) -> float:
        """Return a random value."""
        if self.log:
            return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class Integer:
    """Whole number from ``low`` to ``high``, both included, uniform or uniform in its logarithm."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high, self.log)

    def draw(self, rng: np.random.Generator) -> int:
        """Return a random value."""
        if self.log:  # Every number has the part of the scale that is rounded to it.
            return round(Real(self.low - 0.499, self.high + 0.499, log=True).draw(rng))
        return int(rng.integers(self.low, self.high, endpoint=True))


@dataclass(frozen=True)
class Choice:
    """One of several values, all equally probable."""

    values: Sequence[Any]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"values={self.values!r} of a Choice is empty: give at least one")

    def draw(self, rng: np.random.Generator) -> Any:
        """Return a random value."""
        return self.values[int(rng.integers(len(self.values)))]

    def labels(self) -> list[str]:
        """Return a text for each value, since Optuna chooses only among plain values."""
        return [json.dumps(value) for value in self.values]


Distribution = Real | Integer | Choice
Space = Mapping[Path, Distribution]


def _check_bounds(low: float, high: float, log: bool) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"low={low} and high={high} must be finite")
    if not low <= high:
        raise ValueError(f"low={low} must not be above high={high}")
    if log and low <= 0:
        raise ValueError(f"low={low} must be positive for a logarithmic scale")


def variant_of(values: Mapping[Path, Any], base: Mapping[str, Any] | None = None) -> Config:
    """Return a variant with these settings and the settings of ``base``."""
    level = VariantLevel(keys=list(values), values=[tuple(values.values())], dir_names=[""])
    (variant,), _ = make_variants(level)
    return merged(base or {}, variant)


# --- Grids and random draws ----------------------------------------------------------------------


def grid_variants(space: Mapping[Path, Sequence[Any]]) -> tuple[list[Config], list[str]]:
    """Return every combination of values as variants; the first setting changes slowest.

    Returns:
        The variants as nested dicts, and the log directory of each, such as
        ``learning_rate_0.001/minibatches_4``.
    """
    levels = [
        VariantLevel(
            keys=[path],
            values=[(value,) for value in values],
            dir_names=[_dir_name(path, value) for value in values],
        )
        for path, values in space.items()
    ]
    return make_variants(*levels)


def _dir_name(path: Path, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return f"{path[-1]}_{text}".replace(os.sep, "-").replace('"', "")


def random_variants(
    space: Space, n_variants: int, seed: int, base: Mapping[str, Any] | None = None
) -> tuple[list[Config], list[str]]:
    """Return random draws from a space, all different; the same seed gives the same draws.

    Args:
        space: distribution of each setting.
        n_variants: number of draws, fewer if the space has fewer elements; a larger number begins
            with the same draws.
        seed: seed of the draws.
        base: settings that are the same in all variants.

    Returns:
        The variants as nested dicts, and the log directory of each.
    """
    rng = np.random.default_rng(seed)
    draws: dict[str, Config] = {}
    for _ in range(n_variants * N_TRIES):
        draw = {path: one.draw(rng) for path, one in space.items()}
        draws.setdefault(repr(draw), variant_of(draw, base))
        if len(draws) == n_variants:
            break
    return list(draws.values()), [f"draw_{n:04}" for n in range(len(draws))]

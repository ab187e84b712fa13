"""The five numbers which a log keeps of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_STATISTICS: dict[str, Callable[..., Any]] = {
    "Average": np.mean,
    "Std": np.std,
    "Median": np.median,
    "Min": np.min,
    "Max": np.max,
}


def misc_stat(values: Any) -> dict[str, float]:
    """Average, Std (of the population), Median, Min and Max of ``values``; NaN of no values."""
    numbers = _as_array(values)
    with np.errstate(invalid="ignore"):
        return {
            name: float(statistic(numbers)) if numbers.size else float("nan")
            for name, statistic in _STATISTICS.items()
        }


def _as_array(values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    elif not isinstance(values, np.ndarray):
        values = [v.item() if isinstance(v, torch.Tensor) else v for v in values]
    return np.asarray(values, dtype=np.float64)

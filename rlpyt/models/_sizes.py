"""The one reading of size arguments: a number is a list of one, None is an empty list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

Sizes = Union[int, Sequence[int], None]


def as_list(sizes: int | Sequence[Any] | None) -> list[Any]:
    """A new list of ``sizes``, which may be one number, any sequence, or None for none."""
    if sizes is None:
        return []
    return [int(sizes)] if isinstance(sizes, (int, np.integer)) else list(sizes)

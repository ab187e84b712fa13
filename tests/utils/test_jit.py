"""Compilation with and without a place for the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core import caching

from rlpyt.utils.jit import jit


def total(x: Any) -> float:
    result = 0.0
    for number in x:
        result += number
    return result


@pytest.mark.parametrize("has_cache", [True, False])
def test_compiles_also_where_nothing_is_writable(
    has_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import of the library failed in an image without a writable home."""
    if not has_cache:
        monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    assert jit(total)(np.arange(4.0)) == 6

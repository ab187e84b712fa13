"""Choice of the learning tests, and their time on a machine that has other work to do."""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config, items):
    """Leave out variants, unless seeds are given, and let learning take longer than other tests."""
    variants = []
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("variant") and "RLPYT_LEARNING_SEEDS" not in os.environ:
                variants.append(item)
    config.hook.pytest_deselected(items=variants)
    items[:] = [item for item in items if item not in variants]

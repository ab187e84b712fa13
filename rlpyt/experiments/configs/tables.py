"""Entries of configuration tables, written as changes of others."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Config = dict[str, dict[str, Any]]


def changed(base: Config, **sections: dict[str, Any]) -> Config:
    """Return a deep copy of ``base`` in which values of some sections are replaced.

    Args:
        base: entry of a table.
        sections: keyword arguments to replace or add, by section.
    """
    config = deepcopy(base)
    for section, values in sections.items():
        config.setdefault(section, {}).update(deepcopy(values))
    return config

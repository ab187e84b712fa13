"""How the configuration tables write one entry as a change of another."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Config = dict[str, dict[str, Any]]


def changed(base: Config, **sections: dict[str, Any]) -> Config:
    """A copy of ``base`` which shares nothing with it, with values of some sections replaced.

    Args:
        base: sections, such as ``algo`` and ``sampler``, of keyword arguments.
        sections: keyword arguments to replace or add in each section named.
    """
    config = deepcopy(base)
    for section, values in sections.items():
        config.setdefault(section, {}).update(deepcopy(values))
    return config

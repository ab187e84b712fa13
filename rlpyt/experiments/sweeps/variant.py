"""Variants of a configuration: cross products, files, and merging into a default."""

from __future__ import annotations

import json
import os
import os.path as osp
from collections.abc import Mapping
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

from rlpyt.utils.files import replacing
from rlpyt.utils.names import first_duplicate

VARIANT = "variant_config.json"

Config = dict[str, Any]  # Sections of keyword arguments, by the names of the sections.


class VariantLevel(NamedTuple):
    """Dimension of a sweep: settings that change together, and directories of their runs.

    For example two games, or three pairs of learning rate and batch size::

        VariantLevel(
            keys=[("algo", "learning_rate"), ("algo", "batch_size")],
            values=[(1e-3, 32), (5e-4, 64), (2e-4, 128)],
            dir_names=["32", "64", "128"],
        )
    """

    keys: list[tuple[str, ...]]  # Path of each setting in the nested configuration.
    values: list[tuple[Any, ...]]  # One value for each key, for each combination.
    dir_names: list[str]  # Directory of each combination.


def make_variants(*variant_levels: VariantLevel) -> tuple[list[Config], list[str]]:
    """Return every combination of the levels; the first level changes slowest.

    Returns:
        The variants as nested dicts, and the log directory of each.

    Raises:
        ValueError: if the parts of a level differ in length, or two variants share a directory.
    """
    for keys, values, dir_names in variant_levels:
        if len(dir_names) != len(values):
            raise ValueError(
                f"dir_names has {len(dir_names)} entries for {len(values)} values of the level"
                f" with keys {keys}; give one for each"
            )
        for value in values:
            if not isinstance(value, (tuple, list)) or len(value) != len(keys):
                raise ValueError(
                    f"values of the level with keys {keys} must be tuples of {len(keys)}, one"
                    f" value for each key; got {value!r}"
                )
        for path in keys:
            if isinstance(path, str):
                raise ValueError(
                    f"keys must be tuples of strings, such as ('env', 'game'); got {path!r}"
                )
    variants, log_dirs = [], []
    for choice in product(*(range(len(level.values)) for level in variant_levels)):
        variant: Config = {}
        for level, i in zip(variant_levels, choice, strict=True):
            for (*parents, last), value in zip(level.keys, level.values[i], strict=True):
                section = variant
                for key in parents:
                    section = section.setdefault(key, {})
                section[last] = deepcopy(value)
        variants.append(variant)
        dirs = (level.dir_names[i] for level, i in zip(variant_levels, choice, strict=True))
        log_dirs.append(osp.join("", *dirs))
    twice = first_duplicate(log_dirs)
    if twice is not None:
        raise ValueError(
            f"dir_names: two variants would log into {twice!r}; give them different names"
        )
    return variants, log_dirs


def load_variant(log_dir: str | os.PathLike[str]) -> Config:
    """Read the variant that ``save_variant`` wrote into ``log_dir``."""
    with open(osp.join(log_dir, VARIANT), encoding="utf-8") as file:
        variant: Config = json.load(file)
    return variant


def save_variant(variant: Mapping[str, Any], log_dir: str | os.PathLike[str]) -> None:
    """Write a variant into ``log_dir``, made if needed; JSON turns tuples into lists."""
    os.makedirs(log_dir, exist_ok=True)
    with replacing(osp.join(log_dir, VARIANT), encoding="utf-8") as file:
        json.dump(variant, file)


def update_config(default: Mapping[str, Any], variant: Mapping[str, Any]) -> Config:
    """Return a copy of ``default`` with the values of ``variant``, level by level.

    Raises:
        KeyError: if ``default`` lacks a key of ``variant``, which is probably misspelt.
        TypeError: if only one of the two has a dict under a key.
    """
    config = dict(default)
    for key, value in variant.items():
        if key not in default:
            raise KeyError(
                f"{key!r} of the variant is not in the default configuration {default}: correct "
                "the name, or add it there"
            )
        old = default[key]
        if isinstance(old, Mapping) != isinstance(value, Mapping):
            raise TypeError(
                f"{key!r} is {value!r} in the variant but {old!r} in the default configuration;"
                " both must be dicts, or neither"
            )
        config[key] = update_config(old, value) if isinstance(value, Mapping) else value
    return config


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Config:
    """Return a copy of ``base`` with the values of ``changes``, level by level; keys may be new."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merged(old, value)
        result[key] = value
    return result


def changed(base: Config, **sections: dict[str, Any]) -> Config:
    """Return a deep copy of ``base`` with keyword arguments of sections replaced or added."""
    config = deepcopy(base)
    for section, values in sections.items():
        config.setdefault(section, {}).update(deepcopy(values))
    return config

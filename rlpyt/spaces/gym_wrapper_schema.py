"""Variant of :mod:`rlpyt.spaces.gym_wrapper` with the record classes in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.spaces import gym_wrapper
from rlpyt.spaces.gym_wrapper import nt_to_dict as nt_to_dict
from rlpyt.utils.types import Nested


class GymSpaceWrapper(gym_wrapper.GymSpaceWrapper):
    """Wrapper of a gym space; see :class:`rlpyt.spaces.gym_wrapper.GymSpaceWrapper`.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple space.
        null_value: content of :meth:`null_value`.
        name: name of the record class.
        force_float32: whether float64 becomes float32.
        schemas: dictionary that receives the record classes by name, for :func:`dict_to_nt`.
    """

    def __init__(
        self,
        space: Any,
        null_value: Any = 0,
        name: str = "obs",
        force_float32: bool = True,
        schemas: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(space, null_value, name, force_float32)
        if schemas is not None:
            schemas.update(self.schemas)
            self.schemas = schemas


def dict_to_nt(value: Any, name: str, schemas: Mapping[str, Any]) -> Nested:
    """Convert dictionaries to records of the classes in ``schemas``.

    Args:
        value: mapping with the field names as keys, or a leaf.
        name: key of ``schemas``; sub-records are under ``<name>_<key>``.
        schemas: record classes by name.
    """
    if isinstance(value, Mapping):
        parts = {key: dict_to_nt(v, f"{name}_{key}", schemas) for key, v in value.items()}
        return schemas[name](**parts)
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value.astype(np.float32)
    return value

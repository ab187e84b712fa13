"""Variant of :mod:`rlpyt.envs.gym` with the layouts of info in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpyt.envs import gym
from rlpyt.envs._info import InfoLayout
from rlpyt.envs.gym import (
    EnvInfoWrapper as EnvInfoWrapper,
    EnvSpaces as EnvSpaces,
    TimeLimit as TimeLimit,
    infill_info as infill_info,
)
from rlpyt.utils.types import Nested


class GymEnvWrapper(gym.GymEnvWrapper):
    """Gym environment; see :class:`rlpyt.envs.gym.GymEnvWrapper`."""

    def __init__(
        self,
        env: gym.GymLike,
        act_null_value: Any = 0,
        obs_null_value: Any = 0,
        force_float32: bool = True,
    ) -> None:
        super().__init__(env, act_null_value, obs_null_value, force_float32)
        self._info_schemas: dict[str, InfoLayout] = {"info": self._info_layout}

    def _build_info_schemas(self, info: Mapping[Any, Any], name: str = "info") -> None:
        """Add the layout that the example ``info`` declares."""
        self._info_schemas[name] = InfoLayout(info, name)


def info_to_nt(value: Any, schemas: Mapping[str, InfoLayout], name: str = "info") -> Nested:
    """Convert an info dictionary to a record with the layout ``schemas[name]``."""
    return gym.info_to_nt(value, name, schemas[name])


def make(*args: Any, info_example: Mapping[Any, Any] | None = None, **kwargs: Any) -> GymEnvWrapper:
    """Make an environment by its id; see :func:`rlpyt.envs.gym.make`."""
    env = gym.make_unwrapped(*args, info_example=info_example, **kwargs)
    return GymEnvWrapper(env)

"""Environments of EnvPool, which steps them in threads of C++: Atari, classic control, MuJoCo, ...

Source: Weng et al. 2022, arXiv:2206.10558.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rlpyt.envs.vector import VectorEnvWrapper
from rlpyt.utils.names import import_extra
from rlpyt.utils.types import NDArray

# Entries of the info that are redundant or large.
_LEFT_OUT = ("env_id", "players", "ram")


def make(
    id: str, num_envs: int, info_example: Mapping[Any, Any] | None = None, **kwargs: Any
) -> VectorEnvWrapper:
    """Make environments of EnvPool, as an ``EnvCls`` of the vector sampler.

    Args:
        id: id of EnvPool, such as "Pong-v5" or "CartPole-v1".
        num_envs: number of environments, passed by the sampler.
        info_example: entries [B,...] of the info that the first step lacks.
        kwargs: arguments of ``envpool.make_gymnasium``, such as ``num_threads`` (0 for one per
            CPU), ``episodic_life``, ``reward_clip``.

    Raises:
        ImportError: if EnvPool is not installed.
        ValueError: if EnvPool has no such environment.
    """
    pool = ReseededPool(id, num_envs, **kwargs)
    return VectorEnvWrapper(pool, partial_reset=True, info_example=info_example)


class ReseededPool(gym.vector.VectorEnv[Any, Any, Any]):
    """Pool of environments, recreated for every seed, since EnvPool takes seeds only at creation.

    Args:
        id: id of EnvPool.
        num_envs: number of environments B.
        kwargs: arguments of ``envpool.make_gymnasium``.
    """

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, id: str, num_envs: int, **kwargs: Any) -> None:
        self.num_envs = num_envs
        self._arguments = {"task_id": id, "num_envs": num_envs, **kwargs}
        self._pool = self._make_pool(0)
        self.single_observation_space = self._pool.single_observation_space
        self.single_action_space = self._pool.single_action_space

    def _make_pool(self, seed: int) -> Any:
        envpool = import_extra("envpool", "rlpyt.envs.envpool", "envpool")
        with warnings.catch_warnings():
            # The bounds of EnvPool's spaces are float64, and cannot be changed.
            warnings.filterwarnings("ignore", ".*precision lowered")
            pool = envpool.make_gymnasium(**self._arguments, seed=seed)
            pool.observation_space, pool.action_space  # noqa: B018  They are made by the first use.
        return pool

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments; ``seed`` is for the first, the following integers for the others.

        With ``options["reset_mask"]`` [B], only those where it is true; other rows of the result
        are 0. A seed has no effect then.
        """
        mask = (options or {}).get("reset_mask")
        if mask is None and seed is not None:
            self._pool.close()
            self._pool = self._make_pool(seed)
        if mask is None:
            observation, info = self._pool.reset()
            return observation, _without(info)
        ids = np.flatnonzero(mask).astype(np.int32)
        observation, info = self._pool.reset(ids)
        return _spread(observation, info["env_id"], self.num_envs), _without(info)

    def step(self, actions: Any) -> tuple[Any, NDArray, NDArray, NDArray, dict[str, Any]]:
        """Step all environments."""
        *result, info = self._pool.step(actions)
        observation, reward, terminated, truncated = result
        return observation, reward, terminated, truncated, _without(info)

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads."""
        self._pool.close()


def _without(info: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key not in _LEFT_OUT}


def _spread(rows: Any, ids: NDArray, n_rows: int) -> Any:
    """Return arrays [n_rows,...] that have ``rows`` at ``ids`` and 0 elsewhere."""
    if isinstance(rows, Mapping):
        return {key: _spread(part, ids, n_rows) for key, part in rows.items()}
    result = np.zeros((n_rows, *rows.shape[1:]), rows.dtype)
    result[ids] = rows
    return result

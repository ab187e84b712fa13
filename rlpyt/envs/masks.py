"""Action masks from the info of gymnasium environments, put into their observations.

In observations, masks reach the acting agent and replay buffers like everything else it observes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rlpyt.core.masks import ACTION_MASK
from rlpyt.envs.gym import GymEnvWrapper, make_unwrapped


class ActionMaskWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper, for use inside GymEnvWrapper, that adds ``info["action_mask"]`` to observations.

    The new observation is a Dict: the fields of the original Dict and ``action_mask`` [A] int8; for
    any other space, ``observation`` and ``action_mask``. After the end of an episode the mask may
    allow nothing, or be missing.

    Args:
        env: environment of gymnasium with one discrete action, like ``gymnasium.make("Taxi-v4")``.

    Raises:
        ValueError: if the action space is not Discrete. A reset or step raises it if the mask is
            missing, does not have one entry for each action, or allows nothing during an
            episode.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise ValueError(
                f"env={env} has the action space {env.action_space}: masks need Discrete actions"
            )
        self._n_actions = int(env.action_space.n)
        space = env.observation_space
        fields = (
            dict(space.spaces) if isinstance(space, gym.spaces.Dict) else {"observation": space}
        )
        self._is_record = isinstance(space, gym.spaces.Dict)
        mask = gym.spaces.MultiBinary(self._n_actions)
        self.observation_space = gym.spaces.Dict({**fields, ACTION_MASK: mask})

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(**kwargs)
        return self._with_mask(observation, info, is_over=False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Apply an action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        is_over = bool(terminated or truncated)
        return self._with_mask(observation, info, is_over), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: Mapping[str, Any], is_over: bool) -> Any:
        nothing = np.zeros(self._n_actions) if is_over else None
        mask = np.asarray(info.get(ACTION_MASK, nothing))
        if mask.shape != (self._n_actions,):
            raise ValueError(
                f"{self.env}: info['{ACTION_MASK}'] is {mask}: give one entry for each of the "
                f"{self._n_actions} actions, at every reset and step"
            )
        mask = mask.astype(np.int8)
        if not (is_over or mask.any()):
            raise ValueError(
                f"{self.env}: info['{ACTION_MASK}'] allows no action: end the episode before that"
            )
        fields = observation if self._is_record else {"observation": observation}
        return {**fields, ACTION_MASK: mask}


def make(*args: Any, **kwargs: Any) -> GymEnvWrapper:
    """Make an environment by id, with masks from its info, like :func:`rlpyt.envs.gym.make`."""
    return GymEnvWrapper(ActionMaskWrapper(make_unwrapped(*args, **kwargs)))

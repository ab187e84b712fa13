"""An environment that raises an error if a forbidden action is taken."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.masks import ActionMaskWrapper

N_ROOMS, N_DOORS, N_OPEN = 3, 12, 3
# The worth of a door depends on the room: [N_ROOMS, N_DOORS], a permutation in each.
WORTH = np.stack([np.random.default_rng(room).permutation(N_DOORS) for room in range(N_ROOMS)])


class Doors(gym.Env):
    """Three of twelve doors are open: the reward is 1 for that of greatest worth, else 0.

    The observation is the room, as a one-hot vector: which doors are open is only in
    ``info["action_mask"]``. An episode has ten steps; at its end no door is open.
    """

    def __init__(self, ends_by_time: bool = False) -> None:
        self.observation_space = gym.spaces.Box(0, 1, (N_ROOMS,), np.float32)
        self.action_space = gym.spaces.Discrete(N_DOORS)
        self._ends_by_time = ends_by_time
        self.n_steps = self.t = self.room = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._look()

    def step(self, action: Any) -> Any:
        if self.is_open[action] != 1:
            raise RuntimeError(f"door {action} is closed: {self.is_open}")
        self.n_steps += 1
        worth = np.where(self.is_open, WORTH[self.room], -1)
        reward = float(action == worth.argmax())
        self.t += 1
        is_over = self.t == 10
        observation, info = self._look()
        if is_over:
            info["action_mask"] = np.zeros(N_DOORS, np.int8)
        is_cut = is_over and self._ends_by_time
        return observation, reward, is_over and not is_cut, is_cut, info

    def _look(self) -> Any:
        self.room = int(self.np_random.integers(N_ROOMS))
        self.is_open = np.zeros(N_DOORS, np.int8)
        self.is_open[self.np_random.choice(N_DOORS, N_OPEN, replace=False)] = 1
        return np.eye(N_ROOMS, dtype=np.float32)[self.room], {"action_mask": self.is_open}


def make_doors(**kwargs: Any) -> GymEnvWrapper:
    """Make :class:`Doors` with the mask in its observation."""
    return GymEnvWrapper(ActionMaskWrapper(Doors(**kwargs)))

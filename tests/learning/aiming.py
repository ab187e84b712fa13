"""Gymnasium environments of continuous actions: bounds of very different size, and memory."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LOW = np.array([-0.5, 0.0], np.float32)
HIGH = np.array([0.5, 20.0], np.float32)


class Aiming(gymnasium.Env[Any, Any]):
    """The observation says where to aim, in a box inside the bounds; an episode has 5 steps.

        reward = 1 - 2 sqrt(mean_i ((action_i - aim_i) / half_range_i)^2)

    An agent that reaches only [-1, 1], or whose noise is as large in one dimension as in the
    other, finds the aim of one at most.
    """

    def __init__(self, horizon=5):
        self.observation_space = spaces.Box(-1, 1, (2,))
        self.action_space = spaces.Box(LOW, HIGH)
        self._horizon = horizon
        self._n_steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._n_steps = 0
        return self._aim(), {}

    def step(self, action):
        if not self.action_space.contains(np.asarray(action, np.float32)):
            raise ValueError(f"{action} is not in {self.action_space}")
        unit = (action - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2)
        distance = np.sqrt(np.mean((unit - 0.8 * self._direction) ** 2))
        self._n_steps += 1
        return self._aim(), float(1 - 2 * distance), self._n_steps == self._horizon, False, {}

    def _aim(self):
        self._direction = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._direction


class Recalling(gymnasium.Env[Any, Any]):
    """The first observation shows a direction, -1 or 1, in which to aim in the last of 4 steps.

        reward = 1 - 2 |action - aim|,     aim = 0.8 direction in the last step, 0 before it

    The observation is [2] float32: the direction (first step only), and 1 in the last step. The
    best mean return is 4, without memory 2.4.
    """

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._direction = 2 * self.np_random.integers(2) - 1
        self._n_steps = 0
        return np.array([self._direction, 0], np.float32), {}

    def step(self, action):
        aim = 0.8 * self._direction * (self._n_steps == 3)
        self._n_steps += 1
        observation = np.array([0, self._n_steps == 3], np.float32)
        reward = 1 - 2 * abs(float(action[0]) - aim)
        return observation, reward, self._n_steps == 4, False, {}

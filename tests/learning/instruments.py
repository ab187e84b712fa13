"""A gymnasium environment with observations and actions of several parts."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ACTION_SPACES = {
    "multi_discrete": spaces.MultiDiscrete([3, 2, 2]),
    "dict": spaces.Dict(
        {
            "force": spaces.Box(0.0, 10.0, (1,)),
            "side": spaces.Discrete(3),
            "switch": spaces.MultiBinary(1),
        }
    ),
}


class Instruments(gymnasium.Env[Any, Any]):
    """Each of three instruments shows what one part of the action has to be, for 8 steps.

    The screen has a bright third, whose number one choice has to be. The needle points to the left
    or to the right: another choice, or a force of 2 or 8. The lamp is lit or not, as the last
    choice has to be. Each right part earns a third.

    Args:
        actions: a key of ``ACTION_SPACES``.
        horizon: steps of an episode.
    """

    def __init__(self, actions="multi_discrete", horizon=8):
        self.observation_space = spaces.Dict(
            {
                "lamp": spaces.Discrete(2),
                "needle": spaces.Box(-np.inf, np.inf, (2,)),
                "screen": spaces.Box(0, 255, (6, 9, 1), np.uint8),
            }
        )
        self.action_space = ACTION_SPACES[actions]
        self._horizon = horizon
        self._n_steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._n_steps = 0
        return self._show(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action} is not in {self.action_space}")
        if isinstance(action, dict):
            error = abs(float(action["force"][0]) - (8 if self._points_right else 2))
            parts = [action["side"] == self._third, max(0.0, 1 - error / 3)]
            parts.append(action["switch"][0] == self._is_lit)
        else:
            parts = list(action == [self._third, self._points_right, self._is_lit])
        reward = sum(map(float, parts)) / 3
        self._n_steps += 1
        return self._show(), reward, self._n_steps == self._horizon, False, {}

    def _show(self):
        self._third = int(self.np_random.integers(3))
        self._points_right = int(self.np_random.integers(2))
        self._is_lit = int(self.np_random.integers(2))
        screen = self.np_random.integers(0, 60, (6, 9, 1), dtype=np.uint8)
        screen[:, 3 * self._third : 3 * self._third + 3] += 150
        # Far from 0 and of another order of magnitude, as if in some unit.
        angle = 480 + 40 * self._points_right
        needle = np.array([angle, self.np_random.normal()], dtype=np.float32)
        return {"lamp": self._is_lit, "needle": needle, "screen": screen}

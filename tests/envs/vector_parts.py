"""A gymnasium environment whose every number can be foretold, alone and as a vector."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector import VectorEnvWrapper

MODES = ("same_step", "next_step", "disabled")


class Steps(gym.Env):
    """Observes its steps so far and its number of episodes; ends by action or by time.

    Actions are 1, 2, 3 (3 terminates from the third step on); after five steps it is truncated.
    """

    def __init__(self, reuses=False):
        self.reuses = reuses  # Whether it returns one array, which every step overwrites.
        self.observed = np.zeros(2, dtype=np.float64)
        self.observation_space = spaces.Dict(
            {
                "steps": spaces.Box(-np.inf, np.inf, (2,), np.float64),
                "kind": spaces.Discrete(3, start=1),
            }
        )
        self.action_space = spaces.Discrete(3, start=1)
        self.count, self.episode = 0, 0

    def _observe(self):
        self.observed[:] = self.count, self.episode
        count = self.observed if self.reuses else self.observed.copy()
        return {"steps": count, "kind": 1 + self.count % 3}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self.episode += 1
        return self._observe(), {"double": 0.0, "inner": {"twice": 0}}

    def step(self, action):
        assert action in (1, 2, 3)
        self.count += 1
        terminated = bool(self.count >= 3 and action == 3)
        info = {"double": 2.0 * self.count, "inner": {"twice": 2 * int(action)}, "text": "x"}
        return self._observe(), self.count - 1.5, terminated, self.count == 5, info


def make_one():
    return GymEnvWrapper(Steps())


def make_vector(num_envs, mode="same_step", **kwargs):
    autoreset = gym.vector.AutoresetMode[mode.upper()]
    env = gym.vector.SyncVectorEnv([Steps] * num_envs, autoreset_mode=autoreset)
    return VectorEnvWrapper(env, **kwargs)

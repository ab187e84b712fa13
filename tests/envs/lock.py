"""An environment with goals, after the conventions of gymnasium-robotics."""

import gymnasium
import numpy as np
from gymnasium import spaces

from rlpyt.envs.gym import GymEnvWrapper, TimeLimit


class Lock(gymnasium.Env):
    """Flip switches, one in each step, until they match a pattern; -1 for each step."""

    N = 8
    # Spaces of the class, as some environments have them: each instance draws from its own copy.
    box = spaces.Box(0, 1, (N,), np.float32)
    observation_space = spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
    action_space = spaces.Discrete(N)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.switches, self.goal = self.np_random.integers(0, 2, (2, self.N)).astype(np.float32)
        return self.observe(), {}

    def step(self, action):
        self.switches[action] = 1 - self.switches[action]
        is_open = bool(is_open_lock(self.switches, self.goal, {}))
        return self.observe(), float(is_open) - 1, is_open, False, {}

    def observe(self):
        switches = self.switches.copy()
        return {"observation": switches, "achieved_goal": switches, "desired_goal": self.goal}


def is_open_lock(achieved, desired, info):
    return (achieved == desired).all(axis=-1)


def lock_reward(achieved, desired, info):
    return is_open_lock(achieved, desired, info).astype(np.float32) - 1


def make_lock():
    return GymEnvWrapper(TimeLimit(Lock(), Lock.N))

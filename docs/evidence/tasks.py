"""Three tasks in which random actions hardly ever find a reward.

``rlpyt train ppo_rnd tasks:Chain``, in this directory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rlpyt.replays.non_sequence.hindsight import HindsightReplayBuffer

Array = npt.NDArray[Any]


class Chain(gymnasium.Env[Array, int]):
    """Walk right along 24 cells within 40 steps, for a reward at the end alone."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self.cell = self.n_steps = 0
        return self.observe(), {}

    def step(self, action: int) -> Any:
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        self.n_steps += 1
        arrived = self.cell == 24
        return self.observe(), float(arrived), arrived or self.n_steps == 40, False, {}

    def observe(self) -> Array:
        return np.array([self.cell / 12 - 1, np.sin(20 * self.cell / 24)], np.float32)


class DeepSea(gymnasium.Env[Array, int]):
    """Dive ``size`` rows; only "right" in each leads to the treasure, and it costs a little.

    In a random half of the cells, the two actions are swapped. Observations are one-hot vectors
    [size * size], zero at the end. Source: Osband et al. 2019, arXiv:1908.03568.
    """

    action_space = spaces.Discrete(2)

    def __init__(self, size: int = 14) -> None:
        self.size = size
        self.observation_space = spaces.Box(0, 1, (size * size,), np.float32)
        self.rights = np.random.default_rng(0).integers(0, 2, (self.size, self.size))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self.row = self.column = 0
        return self.observe(), {}

    def step(self, action: int) -> Any:
        is_right = int(action) == self.rights[self.row, self.column]
        reward = -0.01 / self.size if is_right else 0.0
        self.row, self.column = self.row + 1, max(0, self.column + (1 if is_right else -1))
        done = self.row == self.size
        return self.observe(), reward + float(self.column == self.size), done, False, {}

    def observe(self) -> Array:
        cells = np.zeros((self.size + 1, self.size + 1), np.float32)
        cells[self.row, self.column] = 1
        return cells[:-1, :-1].ravel()


N_SWITCHES = 16
SWITCHES = spaces.Box(0, 1, (N_SWITCHES,), np.float32)


def is_open(achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
    """Return whether all switches [m,N] match the pattern [m,N]."""
    return np.asarray((achieved_goal == desired_goal).all(axis=-1))


def compute_reward(achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
    """Return the rewards [m] for the switches [m,N] after a step and the pattern [m,N]."""
    return is_open(achieved_goal, desired_goal, info).astype(np.float32) - 1


Hindsight = partial(
    HindsightReplayBuffer, compute_reward=compute_reward, compute_terminated=is_open
)


class Lock(gymnasium.Env[dict[str, Array], int]):
    """Flip one of 16 switches in each step until all match a pattern; each step before costs 1.

    Source: Andrychowicz et al. 2017, arXiv:1707.01495.
    """

    observation_space = spaces.Dict(
        {"observation": SWITCHES, "achieved_goal": SWITCHES, "desired_goal": SWITCHES}
    )
    action_space = spaces.Discrete(N_SWITCHES)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self.switches, self.goal = self.np_random.integers(0, 2, (2, N_SWITCHES)).astype(np.float32)
        return self.observe(), {}

    def step(self, action: int) -> Any:
        self.switches[action] = 1 - self.switches[action]
        done = bool(is_open(self.switches, self.goal, {}))
        return self.observe(), float(done) - 1, done, False, {}

    def observe(self) -> dict[str, Array]:
        now = self.switches.copy()
        return {"observation": now, "achieved_goal": now, "desired_goal": self.goal}

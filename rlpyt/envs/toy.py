"""Small environments for tests, examples and first experiments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rlpyt.envs.base import Env, EnvStep
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.seed import generator_state, make_generator, seed_spaces, set_generator_state
from rlpyt.utils.types import NDArray


class EnvInfo(NamedTuple):
    """Info of one step."""

    traj_done: bool  # the environment must be reset
    timeout: bool  # a time limit truncated the episode


class ToyEnv(Env):
    """Base class of the toy environments: generator, state and time limit.

    A subclass lists its changing numbers and arrays in ``_state_names``, and defines
    ``_start() -> observation`` and ``_advance(action) -> (observation, reward, is_over)``.
    """

    _state_names: tuple[str, ...] = ()

    def __init__(self, horizon: int) -> None:
        if horizon < 1:
            raise ValueError(f"horizon={horizon} must be at least 1")
        self._horizon = int(horizon)
        self._rng = make_generator()
        self._n_steps = 0
        self._needs_reset = True

    def _start(self) -> NDArray:
        raise NotImplementedError

    def _advance(self, action: int) -> tuple[NDArray, float, bool]:
        raise NotImplementedError

    def reset(self) -> NDArray:
        """Start an episode and return its first observation."""
        self._n_steps = 0
        self._needs_reset = False
        return self._start()

    def step(self, action: Any) -> EnvStep:
        """Apply ``action`` and return the result.

        Raises:
            RuntimeError: if the environment must be reset first.
            ValueError: if ``action`` is not in the action space.
        """
        if self._needs_reset:
            raise RuntimeError("step before reset: call reset() to start an episode")
        if not self.action_space.contains(action):
            raise ValueError(f"action={action!r} must be in {self.action_space}")
        observation, reward, is_over = self._advance(int(action))
        self._n_steps += 1
        timeout = self._n_steps >= self._horizon and not is_over
        done = self._needs_reset = is_over or timeout
        return EnvStep(observation, np.float32(reward), done, EnvInfo(done, timeout))

    @property
    def horizon(self) -> int:
        """Maximum number of steps in an episode."""
        return self._horizon

    def seed(self, seed: int) -> None:
        """Seed everything random from the next reset on."""
        seed_spaces(self, seed)
        self._rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the episode and the states of the generators."""
        names = ("_n_steps", "_needs_reset", *self._state_names)
        values = {name: getattr(self, name) for name in names}
        return {
            "values": {
                name: value.copy() if isinstance(value, np.ndarray) else value
                for name, value in values.items()
            },
            "rng": generator_state(self._rng),
            "action_space": self.action_space.state_dict(),
            "observation_space": self.observation_space.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state["values"].items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)
        set_generator_state(self._rng, state["rng"])
        self.action_space.load_state_dict(state["action_space"])
        self.observation_space.load_state_dict(state["observation_space"])


class Counter(ToyEnv):
    """Environment that counts the steps of an episode; actions have no effect.

    The observation is [1] float32, the number of steps so far; the reward of step t (from 0) is
    t + 1.

    Args:
        length: number of steps in an episode.
        time_limit: whether the episode is truncated (``timeout``) instead of ending by itself.
    """

    def __init__(self, length: int = 4, time_limit: bool = False) -> None:
        super().__init__(length)
        self._time_limit = time_limit
        self._action_space = IntBox(0, 2)
        self._observation_space = FloatBox(0, length, shape=1)

    def _start(self) -> NDArray:
        return np.zeros(1, dtype=np.float32)

    def _advance(self, action: int) -> tuple[NDArray, float, bool]:
        count = self._n_steps + 1
        is_over = count == self._horizon and not self._time_limit
        return np.full(1, count, dtype=np.float32), count, is_over


class Catch(ToyEnv):
    """Game of a falling ball and a paddle in the bottom row: reward 1 for a catch, else -1.

    Actions: 0 moves the paddle to the left, 1 keeps its place, 2 moves it to the right. The episode
    ends when the ball is in the bottom row, after ``grid_shape[0] - 1`` steps. The observation is
    [num_img_obs,height,width] uint8, oldest image first, 255 where ball and paddle are; images
    before the episode are black.

    Args:
        grid_shape: numbers of rows and columns of the grid.
        img_shape: height and width of the image, multiples of ``grid_shape``, which is the default.
        num_img_obs: number of images in an observation.

    Source: Mnih et al. 2014, arXiv:1406.6247, section 4.1.
    """

    _state_names = ("_ball", "_paddle", "_obs")

    def __init__(
        self,
        grid_shape: tuple[int, int] = (10, 5),
        img_shape: tuple[int, int] | None = None,
        num_img_obs: int = 1,
    ) -> None:
        img_shape = grid_shape if img_shape is None else img_shape
        if min(grid_shape) < 2 or num_img_obs < 1:
            raise ValueError(
                f"grid_shape={grid_shape} must be at least (2, 2) and num_img_obs={num_img_obs} "
                "at least 1"
            )
        if any(size < cells or size % cells for size, cells in zip(img_shape, grid_shape)):
            raise ValueError(f"img_shape={img_shape} must be a multiple of grid_shape={grid_shape}")
        super().__init__(grid_shape[0] - 1)
        self._n_rows, self._n_cols = grid_shape
        self._cell = (img_shape[0] // grid_shape[0], img_shape[1] // grid_shape[1])
        self._action_space = IntBox(0, 3)
        shape = (num_img_obs, *img_shape)
        self._observation_space = IntBox(0, 256, shape=shape, dtype="uint8")
        self._obs: NDArray = np.zeros(shape, dtype=np.uint8)
        self._ball = self._paddle = 0  # columns

    def _start(self) -> NDArray:
        self._ball = int(self._rng.integers(self._n_cols))
        self._paddle = self._n_cols // 2
        self._obs[...] = 0
        return self._draw(0)

    def _advance(self, action: int) -> tuple[NDArray, float, bool]:
        self._paddle = min(max(self._paddle + action - 1, 0), self._n_cols - 1)
        row = self._n_steps + 1
        is_over = row == self._n_rows - 1
        reward = (1.0 if self._ball == self._paddle else -1.0) if is_over else 0.0
        return self._draw(row), reward, is_over

    def _draw(self, ball_row: int) -> NDArray:
        """Append the present image, and return a copy of all images."""
        grid = np.zeros((self._n_rows, self._n_cols), dtype=np.uint8)
        grid[ball_row, self._ball] = 255
        grid[-1, self._paddle] = 255
        self._obs[:-1] = self._obs[1:].copy()
        self._obs[-1] = np.kron(grid, np.ones(self._cell, dtype=np.uint8))
        return self._obs.copy()


class TMaze(ToyEnv):
    """Corridor with a junction at its end, where a cue in the first step shows the correct turn.

    An agent without memory earns 0 on average at the junction. The observation is [4] float32: the
    cue for up, the cue for down (first step only), 1 in the corridor, 1 at the junction. Actions: 0
    moves forward, 1 turns up, 2 turns down. The correct turn at the junction gives 1, the wrong one
    -1, and both end the episode; a turn in the corridor, or moving forward at the junction, costs
    0.1 and has no effect.

    Args:
        length: number of steps from the start to the junction.

    Source: Bakker 2002, "Reinforcement learning with long short-term memory", section 4.
    """

    _state_names = ("_cue", "_position")

    def __init__(self, length: int = 5) -> None:
        super().__init__(3 * length + 3)
        self._length = int(length)
        self._action_space = IntBox(0, 3)
        self._observation_space = FloatBox(0, 1, shape=4)
        self._cue = self._position = 0

    def _start(self) -> NDArray:
        self._cue = int(self._rng.integers(2))
        self._position = 0
        return self._look(self._cue)

    def _advance(self, action: int) -> tuple[NDArray, float, bool]:
        turns, at_junction = action != 0, self._position == self._length
        if turns and at_junction:
            return self._look(), 1.0 if action - 1 == self._cue else -1.0, True
        if turns or at_junction:
            return self._look(), -0.1, False
        self._position += 1
        return self._look(), 0.0, False

    def _look(self, cue: int | None = None) -> NDArray:
        observation = np.zeros(4, dtype=np.float32)
        observation[3 if self._position == self._length else 2] = 1
        if cue is not None:
            observation[cue] = 1
        return observation

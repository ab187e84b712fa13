"""Atari games of the Arcade Learning Environment, preprocessed as for DQN."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode

from rlpyt.core.records import TrajInfo
from rlpyt.envs.atari._emulator import ScreenReader, Shrinker, StickyEmulator, rom_path
from rlpyt.envs.base import Env, EnvStep
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import generator_state, make_generator, seed_spaces, set_generator_state
from rlpyt.utils.types import NDArray, Nested

W, H = (80, 104)

# Codes of the emulator.
_MOVES = ("UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT")
ACTION_MEANING = dict(enumerate(("NOOP", "FIRE", *_MOVES, *(f"{move}FIRE" for move in _MOVES))))
ACTION_INDEX = {meaning: index for index, meaning in ACTION_MEANING.items()}
_NO_EPISODE = -1  # Instead of a count of steps: every reset, also one of a subclass, sets it to 0.
_NOOP, _FIRE, _UP = ACTION_INDEX["NOOP"], ACTION_INDEX["FIRE"], ACTION_INDEX["UP"]


class EnvInfo(NamedTuple):
    """Information of a step besides the observation."""

    game_score: np.float32  # points of the game in this step, not clipped
    traj_done: bool  # the game is over or out of time: reset
    timeout: bool = False  # it is out of time, and nothing else ended the episode


class AtariTrajInfo(TrajInfo):
    """Trajectory info with ``GameScore``, the points of the whole game, not clipped."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.GameScore = 0

    def step(
        self,
        observation: Nested,
        action: Nested,
        reward: Any,
        done: Any,
        agent_info: Nested,
        env_info: Nested,
    ) -> None:
        super().step(observation, action, reward, done, agent_info, env_info)
        self.GameScore += getattr(env_info, "game_score", 0)


class AtariEnv(Env):
    """An Atari game: stacks of small gray images, and the actions that have an effect.

    One step repeats the action for ``frame_skip`` frames. An image is the maximum of the last two
    frames, which removes sprite flicker, downscaled by area averaging. The observation is
    [num_img_obs,height,width] uint8, oldest image first; images before the episode are black.

    Args:
        game: name of the ROM, such as "pong" or "space_invaders".
        frame_skip: emulator frames per step, at least 1.
        num_img_obs: images in an observation, at least 1.
        clip_reward: whether the reward is the sign of the points, -1, 0 or 1.
        episodic_lives: whether the loss of a life sets ``done``, although the game continues
            (``traj_done`` stays False); images before the loss are blackened.
        fire_on_reset: whether to press FIRE, then UP, after a reset, in games with these actions.
        max_start_noops: largest number of frames without action at the start of a game; the number
            is drawn uniformly from 0 on.
        repeat_action_probability: probability that a frame repeats the action of the previous frame
            (sticky actions).
        horizon: steps after which an episode ends, at least 1.
        img_shape: height and width of an image. (104, 80) leaves out the first and the last row
            of the screen and takes means of 2 x 2 pixels; any other shape, such as (84, 84), takes
            means over the areas of the whole screen.
        full_action_space: whether to have all 18 actions, not only those with an effect in the
            game.

    Raises:
        UnknownGameError: (an IOError and a ValueError) if there is no such game.
        ValueError: if a number is outside its range.

    Source: Mnih et al. 2015, doi:10.1038/nature14236, methods; Machado et al. 2018,
        arXiv:1709.06009, for ``repeat_action_probability``.
    """

    _game: str
    _frame_skip: int
    _num_img_obs: int
    _clip_reward: bool
    _episodic_lives: bool
    _fire_on_reset: bool
    _max_start_noops: int
    _repeat_action_probability: float
    _horizon: int
    _img_shape: tuple[int, int]
    _full_action_space: bool

    # The methods below need only the emulator, the raw frames and the observation: a subclass may
    # make these in another constructor, without calling this one.
    _rom_file: str | None = None
    _lives = 0
    _step_counter = _NO_EPISODE

    def __init__(
        self,
        game: str = "pong",
        frame_skip: int = 4,
        num_img_obs: int = 4,
        clip_reward: bool = True,
        episodic_lives: bool = True,
        fire_on_reset: bool = False,
        max_start_noops: int = 30,
        repeat_action_probability: float = 0.0,
        horizon: int = 27000,
        img_shape: tuple[int, int] = (H, W),
        full_action_space: bool = False,
    ) -> None:
        frame_skip = _at_least(1, "frame_skip", frame_skip)
        num_img_obs = _at_least(1, "num_img_obs", num_img_obs)
        max_start_noops = _at_least(0, "max_start_noops", max_start_noops)
        horizon = _at_least(1, "horizon", horizon)
        if not 0 <= repeat_action_probability <= 1:
            raise ValueError(
                f"repeat_action_probability={repeat_action_probability} must be within [0, 1]"
            )
        save__init__args(locals(), underscore=True)
        self._rom_file = rom_path(game)
        self._start_emulator()
        self._img_shape = _image_shape(img_shape, self._reader.shape)
        self._make_spaces()
        self._raw_frame_1: NDArray = np.zeros(self._reader.shape, dtype=np.uint8)
        self._raw_frame_2: NDArray = np.zeros_like(self._raw_frame_1)
        self._max_frame: NDArray = np.zeros_like(self._raw_frame_1)
        self._obs: NDArray = np.zeros(self.observation_space.shape, dtype=np.uint8)

    def _start_emulator(self) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale: Any = ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        if self._repeat_action_probability:
            self.ale = StickyEmulator(self.ale, self._repeat_action_probability)
        self._use_generator(self._rng)
        # Without sticky actions of its own, nothing that the emulator draws has an effect.
        self.ale.setInt("random_seed", 1)
        self.ale.loadROM(self._rom_file)

    @cached_property
    def _reader(self) -> ScreenReader:
        return ScreenReader(self.ale)

    @cached_property
    def _shrinker(self) -> Shrinker:
        height, width = self._raw_frame_1.shape[:2]
        return Shrinker((height, width), self._obs.shape[-2:])

    @cached_property
    def _rng(self) -> np.random.Generator:
        return make_generator()

    @cached_property
    def _has_fire(self) -> bool:
        return _FIRE in self._action_codes()

    @cached_property
    def _has_up(self) -> bool:
        return _UP in self._action_codes()

    def _use_generator(self, rng: np.random.Generator) -> None:
        self._rng = rng
        if isinstance(self.ale, StickyEmulator):
            self.ale.rng = rng

    def _make_spaces(self) -> None:
        is_full = self._full_action_space
        self._action_set: Any = (
            self.ale.getLegalActionSet() if is_full else self.ale.getMinimalActionSet()
        )
        self._action_set = self._action_codes()
        self._action_space = IntBox(low=0, high=len(self._action_set))
        shape = (self._num_img_obs, *self._img_shape)
        self._observation_space = IntBox(low=0, high=255, shape=shape, dtype="uint8")

    def seed(self, seed: int) -> None:
        """Seed the start of games and sticky actions; call reset afterwards."""
        seed_spaces(self, seed)
        self._use_generator(np.random.default_rng(seed))
        was_played = self._step_counter != _NO_EPISODE
        # The first game after another one may differ from the first of all: in tennis, for example.
        # Without a file, the constructor of a subclass has loaded the game.
        if was_played and self._rom_file is not None:
            self.ale.loadROM(self._rom_file)
            self._step_counter = _NO_EPISODE

    def reset(self) -> NDArray:
        """Start a new game and return its first observation, where only the last image is set."""
        self._start_game()
        self._reset_obs()
        for _ in range(self._rng.integers(self._max_start_noops + 1)):
            self.ale.act(_NOOP)
            self._restart_if_over()
        if self._fire_on_reset:
            self.fire_and_up()
            self._restart_if_over()
        self._lives = self.ale.lives()
        self._update_obs()
        self._step_counter = 0
        return self.get_obs()

    def _start_game(self) -> None:
        self.ale.reset_game()
        self._life_reset()

    def _restart_if_over(self) -> None:
        """Start again if the game ended before the first step."""
        if self.ale.game_over():
            self._start_game()

    def step(self, action: Any) -> EnvStep:
        """Repeat ``action``, an index into the action space, and return the result.

        Raises:
            RuntimeError: before the first reset.
            ValueError: if there is no such action.
        """
        act, code = self.ale.act, self._action_code(action)
        game_score = 0.0
        for _ in range(self._frame_skip - 1):
            game_score += act(code)
        if self._frame_skip > 1:
            self._get_screen(1)
        else:  # The frame before the action is the newest of the step before.
            self._raw_frame_1[...] = self._raw_frame_2
        game_score += act(code)
        lost_life = self._check_life() and self._episodic_lives
        if lost_life:
            self._reset_obs()
        self._update_obs()
        self._step_counter += 1
        is_over = self.ale.game_over()
        is_late = self._step_counter >= self._horizon
        reward = (game_score > 0) - (game_score < 0) if self._clip_reward else game_score
        traj_done, timeout = is_over or is_late, is_late and not is_over and not lost_life
        info = EnvInfo(np.float32(game_score), traj_done, timeout)
        return EnvStep(self.get_obs(), np.float32(reward), traj_done or lost_life, info)

    def _action_code(self, action: Any) -> int:
        index = int(action)
        if self._step_counter == _NO_EPISODE:
            raise RuntimeError("step before reset: call reset() to start an episode")
        if not 0 <= index < len(self._action_set):
            raise ValueError(f"action={action} must be from 0 to {len(self._action_set) - 1}")
        code: int = self._action_set[index]
        return code

    def render(self, wait: int = 10, show_full_obs: bool = False) -> None:
        """Show the newest image, or all images side by side, in a window of OpenCV.

        Args:
            wait: time for the window to draw, in milliseconds.
            show_full_obs: whether to show all images of the observation.

        Raises:
            RuntimeError: if the installed OpenCV has no windows.
        """
        import cv2  # Only needed here.

        images = self.get_obs()
        image = np.concatenate(images, axis=1) if show_full_obs else images[-1]
        try:
            cv2.imshow(self._game, image)
        except cv2.error as error:
            raise RuntimeError(
                "opencv-python-headless has no windows: replace it by opencv-python to render, or "
                "use 'rlpyt watch', which shows games in a window of pygame"
            ) from error
        cv2.waitKey(wait)

    def get_obs(self) -> NDArray:
        """Return a copy of the current observation."""
        return self._obs.copy()

    def _get_screen(self, frame: int = 1) -> None:
        """Read the gray screen into raw frame 1 or 2."""
        self._reader.read(self._raw_frame_1 if frame == 1 else self._raw_frame_2)

    def _update_obs(self) -> None:
        """Read the last frame, and append the image of the maximum frame to the observation."""
        self._get_screen(2)
        self._shrinker.push(self._raw_frame_1, self._raw_frame_2, self._obs, self._max_frame)

    def _reset_obs(self) -> None:
        """Blacken all images and the raw frames."""
        self._obs[...] = 0
        self._max_frame[...] = 0
        self._raw_frame_1[...] = 0
        self._raw_frame_2[...] = 0

    def _check_life(self) -> bool:
        """Return whether a life was lost and the game continues; then leave the lost-life state."""
        lives = self.ale.lives()
        lost_life = 0 < lives < self._lives
        if lost_life:
            self._life_reset()
        else:
            self._lives = lives  # Lives can also be gained.
        return bool(lost_life)

    def _life_reset(self) -> None:
        """Run one frame to leave the lost-life state, and count the lives."""
        self.ale.act(_NOOP)
        self._lives = self.ale.lives()

    def fire_and_up(self) -> None:
        """Press FIRE and then UP, if the game has them, which starts some games."""
        if self._has_fire:
            self.ale.act(_FIRE)
        if self._has_up:
            self.ale.act(_UP)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the emulator, the images, the counters and the generators."""
        emulator = self.ale.cloneState(include_rng=True).serialize()
        return {
            "game": self._game,
            "emulator": np.frombuffer(emulator, dtype=np.uint8).copy(),
            "frames": np.stack([self._raw_frame_1, self._raw_frame_2]),
            "obs": self.get_obs(),
            "lives": self._lives,
            "held_code": getattr(self.ale, "held_code", _NOOP),
            "step_counter": self._step_counter,
            "rng": generator_state(self._rng),
            "action_space": self.action_space.state_dict(),
            "observation_space": self.observation_space.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["game"] != self._game:
            raise ValueError(
                f"the state is of game {state['game']!r}, this environment has {self._game!r}: "
                "load a state of the same game"
            )
        self.ale.restoreState(ALEState(state["emulator"].tobytes()))
        self._raw_frame_1[...], self._raw_frame_2[...] = state["frames"]
        self._obs[...] = state["obs"]
        self._lives = state["lives"]
        if isinstance(self.ale, StickyEmulator):
            self.ale.held_code = state["held_code"]
        self._step_counter = state["step_counter"]
        set_generator_state(self._rng, state["rng"])
        self.action_space.load_state_dict(state["action_space"])
        self.observation_space.load_state_dict(state["observation_space"])

    @property
    def game(self) -> str:
        """Name of the game."""
        return self._game

    @property
    def frame_skip(self) -> int:
        """Emulator frames per step."""
        return self._frame_skip

    @property
    def num_img_obs(self) -> int:
        """Images in an observation."""
        return self._num_img_obs

    @property
    def clip_reward(self) -> bool:
        """Whether the reward is the sign of the points."""
        return self._clip_reward

    @property
    def max_start_noops(self) -> int:
        """The largest number of frames without action at the start of a game."""
        return self._max_start_noops

    @property
    def episodic_lives(self) -> bool:
        """Whether the loss of a life sets ``done``."""
        return self._episodic_lives

    @property
    def repeat_action_probability(self) -> float:
        """The probability that a frame repeats the action of the previous frame."""
        return self._repeat_action_probability

    @property
    def horizon(self) -> int:
        """Steps after which an episode ends."""
        return self._horizon

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, in the order of the action space."""
        return [ACTION_MEANING[code] for code in self._action_codes()]

    def _action_codes(self) -> list[int]:
        """Return the action set as integers, also if it has the emulator's action type."""
        return [int(getattr(code, "value", code)) for code in self._action_set]


def _at_least(limit: int, name: str, value: Any) -> int:
    """Return ``value`` as an integer; scripts write 27e3 as well."""
    if not value >= limit or not float(value).is_integer():
        raise ValueError(f"{name}={value} must be an integer, at least {limit}")
    return int(value)


def _image_shape(img_shape: Any, screen_shape: tuple[int, int]) -> tuple[int, int]:
    """Return ``img_shape`` as two integers, which must not exceed the size of the screen."""
    shape = tuple(img_shape)
    if len(shape) != 2 or not all(1 <= s <= limit for s, limit in zip(shape, screen_shape)):
        raise ValueError(f"img_shape={img_shape} must be two sizes, at most {screen_shape}")
    return int(shape[0]), int(shape[1])

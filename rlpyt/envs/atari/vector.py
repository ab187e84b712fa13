"""Vector environment of Atari games, by the threads of ale-py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.envs.vector import VectorEnvWrapper
from rlpyt.utils.types import BoolArray, NDArray


class AtariVector(VectorEnvWrapper):
    """Atari games by ``AtariVectorEnv`` of ale-py, whose emulators run in threads without Python.

    Arguments, rewards, lives and ends are as in :class:`~rlpyt.envs.atari.atari_env.AtariEnv`, but
    observations and starts differ:

    * An image is the mean over areas of the whole screen, at every size; at (84, 84) gray levels
      differ by 1 in some pixels. The image at the end of an episode, and every image with
      ``frame_skip=1``, is of one frame instead of the maximum of two.
    * Neither a reset nor the loss of a life adds a frame without action, no image is blackened
      when a life is lost, and ``fire_on_reset`` presses FIRE alone.
    * Starts and sticky actions come from the generator of ale-py, and the frames without action at
      the start count toward ``horizon``.

    Args:
        game: name of the game in snake case, such as "space_invaders".
        num_envs: number of games, passed by the sampler.
        frame_skip: emulator frames per step.
        num_img_obs: images in an observation.
        clip_reward: whether the reward is the sign of the points.
        episodic_lives: whether the loss of a life sets ``done``, although the game continues.
        fire_on_reset: whether to press FIRE after a reset, in games with this action.
        max_start_noops: largest number of frames without action at the start of a game.
        repeat_action_probability: probability that a frame repeats the action of the previous frame
            (sticky actions).
        horizon: steps after which a game is truncated.
        img_shape: height and width of an image.
        full_action_space: whether to have all 18 actions, not only those with an effect in the
            game.
        num_threads: number of threads of the emulators; 0 for one per CPU.
        autoreset_mode: name of the mode, ``"next_step"``, or ``"same_step"`` without
            ``episodic_lives``.
        kwargs: other arguments of ``AtariVectorEnv``, such as ``maxpool`` and
            ``thread_affinity_offset``.

    Raises:
        ValueError: if ``episodic_lives`` is combined with ``"same_step"``, whose info lacks the
            number of lives left at the end of a game.
    """

    def __init__(
        self,
        game: str = "pong",
        num_envs: int = 1,
        frame_skip: int = 4,
        num_img_obs: int = 4,
        clip_reward: bool = True,
        episodic_lives: bool = True,
        fire_on_reset: bool = False,
        max_start_noops: int = 30,
        repeat_action_probability: float = 0.0,
        horizon: int = 27000,
        img_shape: tuple[int, int] = (84, 84),
        full_action_space: bool = False,
        num_threads: int = 0,
        autoreset_mode: str = "next_step",
        **kwargs: Any,
    ) -> None:
        from ale_py.vector_env import AtariVectorEnv

        if episodic_lives and autoreset_mode.replace("_", "").lower() == "samestep":
            raise ValueError(
                f"autoreset_mode={autoreset_mode!r} with episodic_lives=True: its info does not "
                "show whether a game or a life ended; use 'next_step'"
            )
        self._clip_reward, self._episodic_lives = bool(clip_reward), bool(episodic_lives)
        env = AtariVectorEnv(
            game,
            num_envs,
            frameskip=int(frame_skip),
            stack_num=num_img_obs,
            reward_clipping=False,
            life_loss_info=self._episodic_lives,
            use_fire_reset=fire_on_reset,
            noop_max=max_start_noops,
            repeat_action_probability=repeat_action_probability,
            max_num_frames_per_episode=int(horizon) * int(frame_skip),
            img_height=img_shape[0],
            img_width=img_shape[1],
            full_action_space=full_action_space,
            num_threads=num_threads,
            autoreset_mode="".join(word.capitalize() for word in autoreset_mode.split("_")),
            **kwargs,
        )
        super().__init__(env)

    def _is_over(self, done: BoolArray, truncated: BoolArray, info: Mapping[str, Any]) -> BoolArray:
        if not self._episodic_lives:
            return done
        is_over: BoolArray = truncated | (done & (info["lives"] == 0))
        return is_over

    def _learners_reward(
        self, reward: NDArray, over: BoolArray, timeout: BoolArray
    ) -> tuple[NDArray, dict[str, Any]]:
        score = np.asarray(reward, dtype=np.float32)
        more_info = {"game_score": score, "traj_done": over, "timeout": timeout}
        return np.sign(score) if self._clip_reward else score, more_info

    def _seeds_of(self, which: BoolArray) -> Any:
        return np.asarray(self._seeds)[which]

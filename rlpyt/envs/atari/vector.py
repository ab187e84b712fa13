"""Vector environment of Atari games, by the threads of ale-py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.envs.vector import VectorEnvWrapper
from rlpyt.utils.types import BoolArray, NDArray


class AtariVector(VectorEnvWrapper):
    """``AtariVectorEnv`` with the info of :class:`~rlpyt.envs.atari.atari_env.AtariEnv`.

    The emulators run in threads, without Python. Images come from the preprocessing of ale-py
    (84 x 84 by default): scores are comparable to those of AtariEnv, pixels are not.

    Args:
        game: name of the game, as in AtariEnv.
        num_envs: number of games, passed by the sampler.
        num_threads: number of threads of the emulators; 0 for one per CPU.
        clip_reward: whether the learner gets the sign of the score.
        episodic_lives: whether a lost life ends the learner's episode, while the game continues.
        horizon: number of steps after which a game is truncated.
        autoreset_mode: name of the mode, ``"next_step"``, or ``"same_step"`` without
            ``episodic_lives``.
        kwargs: arguments of ``ale_py.vector_env.AtariVectorEnv``, such as ``stack_num, noop_max``.

    Raises:
        ValueError: if ``episodic_lives`` is combined with ``"same_step"``, whose info lacks the
            number of lives left at the end of a game.
    """

    def __init__(
        self,
        game: str = "pong",
        num_envs: int = 1,
        num_threads: int = 0,
        clip_reward: bool = True,
        episodic_lives: bool = True,
        horizon: int = 27000,
        autoreset_mode: str = "next_step",
        **kwargs: Any,
    ) -> None:
        from ale_py.vector_env import AtariVectorEnv

        if episodic_lives and autoreset_mode.replace("_", "").lower() == "samestep":
            raise ValueError(
                f"episodic_lives=True with autoreset_mode={autoreset_mode!r}: this mode does not "
                "say whether a game or a life ended; use 'next_step'"
            )
        self._clip_reward, self._episodic_lives = bool(clip_reward), bool(episodic_lives)
        frame_skip = kwargs.get("frameskip", 4)
        env = AtariVectorEnv(
            game,
            num_envs,
            num_threads=num_threads,
            reward_clipping=False,
            life_loss_info=self._episodic_lives,
            max_num_frames_per_episode=int(horizon) * frame_skip,
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

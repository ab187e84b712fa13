"""Tasks of ManiSkill, stepped on a GPU, or one on the CPU.

Source: Tao et al. 2024, arXiv:2410.00425.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode

from rlpyt.envs.device import DeviceEnvWrapper


class ManiSkillEnv(gym.vector.VectorEnv[Any, torch.Tensor, torch.Tensor]):
    """Vector environment of ManiSkill whose info has the success and the last observations.

    Args:
        env: ``ManiSkillVectorEnv`` with ``auto_reset=True``, or an object with its methods.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, env: Any) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.single_observation_space = env.single_observation_space
        self.single_action_space = env.single_action_space
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all environments, or only in ``options["reset_mask"]`` [B]."""
        mask = (options or {}).get("reset_mask")
        which = None if mask is None else {"env_idx": torch.nonzero(mask).flatten()}
        return self.env.reset(seed=seed, options=which)[0], {}

    def step(self, actions: torch.Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        observation, reward, terminated, truncated, found = self.env.step(actions)
        info: dict[str, Any] = {}
        if "final_observation" in found:
            info["final_obs"] = found["final_observation"]
        told = found.get("final_info", found)  # Of all environments, before the reset of some.
        if "success" in told:
            info["is_success"] = told["success"]
        return observation, reward, terminated, truncated, info

    def close_extras(self, **kwargs: Any) -> None:
        """Close the task."""
        self.env.close()


def make(
    id: str,
    num_envs: int,
    obs_mode: str = "state",
    ignore_terminations: bool = False,
    **kwargs: Any,
) -> DeviceEnvWrapper:
    """Make a task of ManiSkill, as an ``EnvCls`` of the device sampler.

    Args:
        id: id that ManiSkill registers, such as "PickCube-v1".
        num_envs: number of environments, passed by the sampler.
        obs_mode: what the agent observes, such as "state" or "rgb".
        ignore_terminations: whether only the time limit ends episodes, not success or failure.
        kwargs: further arguments of ``gymnasium.make``, such as ``control_mode``, ``reward_mode``,
            ``sim_backend``.

    Raises:
        ImportError: if ManiSkill is not installed.
    """
    import mani_skill.envs  # noqa: F401  Registers the tasks.
    from mani_skill.vector.wrappers.gymnasium import ManiSkillVectorEnv

    task = gym.make(id, num_envs=num_envs, obs_mode=obs_mode, **kwargs)
    vector = ManiSkillVectorEnv(task, auto_reset=True, ignore_terminations=ignore_terminations)
    return DeviceEnvWrapper(ManiSkillEnv(vector), partial_reset=True)

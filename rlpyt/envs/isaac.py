"""Tasks of Isaac Lab, stepped on a GPU.

Isaac Lab resets finished environments within a step. It keeps the last observation since the option
``compute_final_obs`` exists; with older releases, the observation before the step takes its place.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rlpyt.envs.device import DeviceEnvWrapper


class IsaacVectorEnv(gym.vector.VectorEnv[Any, torch.Tensor, torch.Tensor]):
    """Vector environment with the interface of gymnasium's, of a task of Isaac Lab.

    A time limit truncates an episode, unless the task has a finite horizon (``is_finite_horizon``);
    then it terminates.

    Args:
        env: environment of Isaac Lab, managed or direct, for one agent.
        group: group of the observations that the agent gets.
        bound: bound of the actions, if the task gives none; Isaac Lab scales actions itself.

    Raises:
        ValueError: if the task has no such group of observations.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, env: Any, group: str = "policy", bound: float = 1.0) -> None:
        self.env = env
        self._group = group
        task = env.unwrapped
        groups = task.single_observation_space
        if group not in groups.spaces:
            raise ValueError(f"group is {group!r}: the task observes {', '.join(groups.spaces)}")
        self.num_envs = task.num_envs
        self.single_observation_space = groups[group]
        actions = task.single_action_space
        if isinstance(actions, gym.spaces.Box) and not actions.is_bounded():
            actions = gym.spaces.Box(-bound, bound, actions.shape, np.float32)
        self.single_action_space = actions
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(actions, self.num_envs)
        self._keeps_last = bool(getattr(task.cfg, "compute_final_obs", False))
        self._is_finite = bool(getattr(task.cfg, "is_finite_horizon", False))
        self._before: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all environments; a seed is for all of them together."""
        observation = self.env.reset(seed=seed, options=options)[0][self._group]
        self._note(observation)
        return observation, {}

    def step(self, actions: torch.Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        observations, reward, terminated, truncated, extras = self.env.step(actions)
        observation = observations[self._group]
        if self._is_finite:
            terminated, truncated = terminated | truncated, torch.zeros_like(truncated)
        info: dict[str, Any] = {}
        if not self._keeps_last:
            info["final_obs"] = self._before
            self._note(observation)
        elif "final_obs" in extras:  # Not before the first reset.
            info["final_obs"] = extras["final_obs"][self._group]
        return observation, reward, terminated, truncated, info

    def _note(self, observation: Any) -> None:
        """Keep a copy of the observation, whose tensors the next step may write."""
        if self._keeps_last:
            return
        if isinstance(observation, dict):
            self._before = {key: part.clone() for key, part in observation.items()}
        else:
            self._before = observation.clone()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the task."""
        self.env.close()


@cache
def _launched(**kwargs: Any) -> Any:
    """Return the app of the simulator, without which its modules cannot be imported."""
    from isaaclab.app import AppLauncher

    return AppLauncher(**kwargs).app


def make(
    id: str,
    num_envs: int,
    device: str = "cuda:0",
    group: str = "policy",
    bound: float = 1.0,
    headless: bool = True,
    **kwargs: Any,
) -> DeviceEnvWrapper:
    """Launch the simulator and make a task, as an ``EnvCls`` of the device sampler.

    Args:
        id: id that Isaac Lab registers, such as "Isaac-Cartpole-v0".
        num_envs: number of environments, passed by the sampler.
        device: device of simulation and tensors.
        group: group of the observations that the agent gets.
        bound: bound of the actions, if the task gives none.
        headless: whether to open no window.
        kwargs: further arguments of ``gymnasium.make``.

    Raises:
        ImportError: if Isaac Lab is not installed.
    """
    _launched(headless=headless, device=device)
    import isaaclab_tasks  # noqa: F401  Registers the tasks.
    from isaaclab_tasks.utils import parse_env_cfg

    config = parse_env_cfg(id, device=device, num_envs=num_envs)
    if hasattr(config, "compute_final_obs"):
        config.compute_final_obs = True
    env = IsaacVectorEnv(gym.make(id, cfg=config, **kwargs), group, bound)
    return DeviceEnvWrapper(env)

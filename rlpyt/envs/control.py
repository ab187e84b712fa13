"""Classic control in torch: any number of environments in a few operations, on any device.

States, rewards, ends and the resets of each seed are as in gymnasium's environments, except for the
last digits of sine and cosine. States are float64 and observations float32 there too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rlpyt.envs.device import DeviceEnvWrapper, where
from rlpyt.utils.seed import generator_state, set_generator_state
from rlpyt.utils.types import NDArray

N_DRAWN = 256  # First states drawn ahead for each environment.


class ControlEnv(gym.vector.VectorEnv[torch.Tensor, torch.Tensor, torch.Tensor]):
    """Base class of the environments, which define their dynamics.

    Args:
        num_envs: number of environments B.
        device: device of all tensors.
        max_episode_steps: number of steps after which an episode is truncated.
        autoreset_mode: autoreset mode, as in gymnasium.

    Attributes:
        state: [B,...] float64.
        high: upper bound of initial states; the lower bound is its negative.
    """

    high: NDArray

    def __init__(
        self,
        num_envs: int,
        device: str | torch.device = "cpu",
        max_episode_steps: int = 500,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.max_episode_steps = max_episode_steps
        self.autoreset_mode = autoreset_mode
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._first = FirstStates(self.high, num_envs, self.device)
        self._elapsed = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._over = torch.zeros(num_envs, dtype=torch.bool, device=self.device)
        self.state = torch.zeros((num_envs, len(self.high)), device=self.device).double()

    def observe(self) -> torch.Tensor:
        """Return the observations of the present states."""
        raise NotImplementedError

    def advance(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Set the next states; return rewards [B] and whether episodes terminate [B]."""
        raise NotImplementedError

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin an episode in all environments, or only in ``options["reset_mask"]`` [B].

        Args:
            seed: seed of each environment; an integer seeds the first environment, and the
                following integers seed the others.
            options: dictionary, optionally with the mask, a tensor on the device.
        """
        mask = (options or {}).get("reset_mask")
        if mask is None:
            mask = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        if seed is not None:
            seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
            self._first.seed(seeds, mask.cpu().numpy())
        self._begin(mask)
        return self.observe(), {}

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step all environments."""
        resets = self._over
        reward, terminated = self.advance(actions)
        self._elapsed = self._elapsed + 1
        truncated = self._elapsed >= self.max_episode_steps
        info: dict[str, Any] = {}
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._begin(resets)
            reward, terminated = reward.masked_fill(resets, 0), terminated & ~resets
            truncated = truncated & ~resets
        self._over = terminated | truncated
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            info["final_obs"] = self.observe()
            self._begin(self._over)
        return self.observe(), reward, terminated, truncated, info

    def _begin(self, mask: torch.Tensor) -> None:
        self.state = where(mask, self._first.take(mask), self.state)
        self._elapsed = self._elapsed.masked_fill(mask, 0)
        self._over = self._over & ~mask

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which :meth:`load_state_dict` continues."""
        tensors = {"state": self.state, "elapsed": self._elapsed, "over": self._over}
        arrays = {name: x.cpu().numpy().copy() for name, x in tensors.items()}
        return {**arrays, "first": self._first.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, saved by an environment with the same arguments."""
        if len(state["state"]) != self.num_envs:
            raise ValueError(
                f"num_envs is {self.num_envs}, and was {len(state['state'])} in the saved state: "
                "resume with the same number"
            )
        names = ("state", "elapsed", "over")
        tensors = [torch.from_numpy(state[name].copy()).to(self.device) for name in names]
        self.state, self._elapsed, self._over = tensors
        self._first.load_state_dict(state["first"])


class FirstStates:
    """Initial states of episodes, drawn by a numpy generator for each environment.

    They are drawn in advance and kept on the device. The host fetches the numbers of used states
    once every 256 resets (or steps that may reset).

    Args:
        high: upper bound of initial states; the lower bound is its negative.
        n_envs: number of environments B.
        device: device of the states.
    """

    def __init__(self, high: NDArray, n_envs: int, device: torch.device) -> None:
        self._high = high
        self._rngs = [gym.utils.seeding.np_random()[0] for _ in range(n_envs)]
        self._drawn: NDArray = np.zeros((N_DRAWN, n_envs, len(high)))
        self._table = torch.from_numpy(self._drawn).to(device)
        self._column = torch.arange(n_envs, device=device)
        self._n_used = torch.full_like(self._column, N_DRAWN)
        self._n_taken = N_DRAWN

    def seed(self, seeds: Sequence[int], mask: NDArray) -> None:
        """Seed the generators of the environments in ``mask`` [B]."""
        n_used = self._n_used.cpu().numpy().copy()
        for b in np.flatnonzero(mask).tolist():
            self._rngs[b] = gym.utils.seeding.np_random(seeds[b])[0]
            n_used[b] = N_DRAWN
        self._draw(n_used)

    def take(self, mask: torch.Tensor) -> torch.Tensor:
        """Return each environment's next initial state; only those in ``mask`` [B] are consumed."""
        if self._n_taken == N_DRAWN:
            self._draw(self._n_used.cpu().numpy())
        states = self._table[self._n_used, self._column]
        self._n_used = self._n_used + mask
        self._n_taken += 1
        return states

    def _draw(self, n_used: NDArray) -> None:
        """Replace the first ``n_used`` [B] states by further ones."""
        for b, n in enumerate(n_used.tolist()):
            further = self._rngs[b].uniform(-self._high, self._high, (n, len(self._high)))
            self._drawn[:, b] = np.concatenate([self._drawn[n:, b], further])
        self._upload()

    def _upload(self) -> None:
        self._table = torch.from_numpy(self._drawn.copy()).to(self._column.device)
        self._n_used, self._n_taken = torch.zeros_like(self._column), 0

    def state_dict(self) -> dict[str, Any]:
        """Return the unused first states, and the states of the generators."""
        self._draw(self._n_used.cpu().numpy())
        rngs = [generator_state(rng) for rng in self._rngs]
        return {"drawn": self._drawn.copy(), "rngs": rngs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        self._drawn = state["drawn"].copy()
        for rng, saved in zip(self._rngs, state["rngs"]):
            set_generator_state(rng, saved)
        self._upload()


class TorchCartPole(ControlEnv):
    """A pole to balance on a cart that is pushed left (0) or right (1); CartPole-v1 of gymnasium.

    The state is position and angle with their velocities: x, x', theta, theta'.

    Source: Barto, Sutton and Anderson 1983 (IEEE Trans. SMC 13); equations of motion: Florian 2007.
    """

    high = np.full(4, 0.05)
    max_x, max_angle = 2.4, math.radians(12)
    _bound = np.array([2 * max_x, np.inf, 2 * max_angle, np.inf], dtype=np.float32)
    single_observation_space = gym.spaces.Box(-_bound, _bound, dtype=np.float32)
    single_action_space = gym.spaces.Discrete(2)

    def observe(self) -> torch.Tensor:
        return self.state.float()

    def advance(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, x_dot, theta, theta_dot = self.state.unbind(-1)
        pole, half_length, total, gravity, dt = 0.1, 0.5, 1.1, 9.8, 0.02
        force = 20.0 * action.double() - 10.0
        cos, sin = torch.cos(theta), torch.sin(theta)
        push = (force + pole * half_length * theta_dot.square() * sin) / total
        theta_acc = (gravity * sin - cos * push) / (
            half_length * (4 / 3 - pole * cos.square() / total)
        )
        x_acc = push - pole * half_length * theta_acc * cos / total
        x, theta = x + dt * x_dot, theta + dt * theta_dot
        state = (x, x_dot + dt * x_acc, theta, theta_dot + dt * theta_acc)
        self.state = torch.stack(state, dim=-1)
        fallen = (x.abs() > self.max_x) | (theta.abs() > self.max_angle)
        return torch.ones_like(x), fallen


class TorchPendulum(ControlEnv):
    """A pendulum to swing up by a torque in [-2, 2]; Pendulum-v1 of gymnasium.

    The state is the angle from upright and its velocity.
    """

    high = np.array([math.pi, 1.0])
    _bound = np.array([1.0, 1.0, 8.0], dtype=np.float32)
    single_observation_space = gym.spaces.Box(-_bound, _bound, dtype=np.float32)
    single_action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def observe(self) -> torch.Tensor:
        angle, speed = self.state.unbind(-1)
        return torch.stack([torch.cos(angle), torch.sin(angle), speed], dim=-1).float()

    def advance(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angle, speed = self.state.unbind(-1)
        torque = action[:, 0].clamp(-2.0, 2.0)
        from_top = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        cost = from_top.square() + 0.1 * speed.square() + 0.001 * torque.square()
        speed = (speed + (15.0 * torch.sin(angle) + 3.0 * torque) * 0.05).clamp(-8.0, 8.0)
        self.state = torch.stack([angle + speed * 0.05, speed], dim=-1)
        return -cost, torch.zeros_like(self._over)


ENVS = {"CartPole-v1": (TorchCartPole, 500), "Pendulum-v1": (TorchPendulum, 200)}


def make(
    id: str,
    num_envs: int,
    device: str | torch.device = "cpu",
    max_episode_steps: int | None = None,
    autoreset_mode: str = "same_step",
) -> DeviceEnvWrapper:
    """Make an environment of this module, as an ``EnvCls`` of the device sampler.

    Args:
        id: id of gymnasium, ``"CartPole-v1"`` or ``"Pendulum-v1"``.
        num_envs: number of environments, passed by the sampler.
        device: device of all tensors.
        max_episode_steps: number of steps after which an episode is truncated; None for gymnasium's
            own number.
        autoreset_mode: name of the mode, ``"next_step"``, ``"same_step"`` or ``"disabled"``.

    Raises:
        ValueError: if there is no such environment, or an episode has no step.
    """
    if id not in ENVS:
        raise ValueError(f"id is {id!r}: the environments in torch are {', '.join(ENVS)}")
    EnvCls, usual_steps = ENVS[id]
    n_steps = usual_steps if max_episode_steps is None else max_episode_steps
    if n_steps < 1:
        raise ValueError(f"max_episode_steps={n_steps}: choose 1 or more; None is {usual_steps}")
    mode = AutoresetMode[autoreset_mode.upper()]
    return DeviceEnvWrapper(EnvCls(num_envs, device, n_steps, mode))

"""The step loop over a vector environment of tensors, without a wait for the device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike, DeviceEnvLike
from rlpyt.core.records import AgentInputs, NotFiniteError, TrajInfo, trajectory_end
from rlpyt.core.rows import as_element, fitted, observation_rows, returned_by
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers.buffer import null_inputs
from rlpyt.utils.buffer import buffer_to, leaves, numpify_buffer, torchify_buffer
from rlpyt.utils.types import BoolArray, NDArray, Nested

# Rows of the statistics. Only the log of a batch has OVER, which marks completed trajectories,
# SUCCESS, which is nan where it is not known, and FINITE, which all observations should be.
LENGTH, RETURN, NONZERO, DISCOUNTED, CUR_DISCOUNT, OVER, SUCCESS, FINITE = range(8)


class DeviceLoop:
    """Loop that steps a vector environment of tensors, and keeps trajectories and inputs.

    Args:
        env: vector environment, see :class:`~rlpyt.envs.device.DeviceEnvWrapper`.
        trajectories: statistics of the running trajectories.
        agent: agent that acts; its results are on the device of ``env``.
        inputs: inputs of the agent, tensors [B,...], written in place.
        noise: random numbers for acting; None for torch's global generator.
    """

    def __init__(
        self,
        env: DeviceEnvLike,
        trajectories: DeviceTrajectories,
        agent: AgentLike,
        inputs: AgentInputs,
        noise: ActingNoise | None,
    ) -> None:
        if agent.device.type == "cpu" != env.device.type:
            raise ValueError(
                f"the environments are on {env.device}, but the agent is on the CPU: set "
                f"affinity=dict(cuda_idx={env.device.index or 0}) of the runner, or "
                f"gpus={env.device.index or 0} of rlpyt train"
            )
        self.env = env
        self.trajectories = trajectories
        self.agent = agent
        self.inputs = inputs
        self._observation = observation_rows(inputs.observation, 0)
        self._noise = nullcontext() if noise is None else noise
        null_action = torchify_buffer(null_inputs(np.zeros(()), 1, env.action_space).prev_action)
        self._null_action = leaves(buffer_to(null_action, env.device))

    def run(self, n_steps: int, samples: Any = None) -> list[tuple[int, int, Any]]:
        """Take ``n_steps`` steps in every environment.

        Args:
            n_steps: number of steps.
            samples: batch [T,B,...] of tensors to record the steps in; None to record none.

        Returns:
            Time step, environment and trajectory info of each completed trajectory, in this order.
        """
        inputs, log = self.inputs, self.trajectories.new_log(n_steps)
        if samples is not None:
            samples.agent.prev_action[0] = inputs.prev_action
            samples.env.prev_reward[0] = inputs.prev_reward
        for t in range(n_steps):
            if samples is not None:
                samples.env.observation[t] = inputs.observation
            with self._noise:
                action, agent_info = self.agent.step(*inputs)
            if samples is not None:  # Before the next inputs, of which it may be views.
                samples.agent.action[t] = action
                samples.agent.agent_info[t] = agent_info
            step = self.env.step(action)
            with returned_by(self.env):
                reward = fitted(step.reward, (self.env.num_envs,), "reward")
                if samples is not None:
                    _record_step(samples.env, t, step, reward)
                over = trajectory_end(step.env_info, step.done)
                success = getattr(step.env_info, "is_success", None)
                self.trajectories.step(reward, over, log[t], success)
                self._advance(action, step, reward)
        if samples is not None:
            if "bootstrap_value" in samples.agent._fields:
                samples.agent.bootstrap_value[:] = self.agent.value(*inputs)
            for leaf in leaves(samples.env.observation):
                log[:, FINITE] *= torch.isfinite(leaf.reshape(*leaf.shape[:2], -1)).all(2)
        return self.trajectories.fetch(log)

    def _advance(self, action: Nested, step: Any, reward: torch.Tensor) -> None:
        """Set the next inputs; where an episode ended, they and the agent's state are blank."""
        inputs, done = self.inputs, step.done
        self._observation[:] = step.next_inputs
        inputs.prev_reward[:] = reward.masked_fill(done, 0)
        for rows, part, null in zip(leaves(inputs.prev_action), leaves(action), self._null_action):
            rows[:] = torch.where(_beside(done, part, 0), null, part)
        reset_where(self.agent, done)


def _record_step(env_samples: Any, t: int, step: Any, reward: torch.Tensor) -> None:
    env_samples.reward[t] = reward
    env_samples.done[t] = step.done
    if leaves(step.env_info):
        env_samples.env_info[t] = step.env_info
    if "next_observation" in env_samples._fields:
        observation_rows(env_samples.next_observation, 1)[t] = step.observation


def reset_where(agent: AgentLike, done: torch.Tensor) -> None:
    """Reset a recurrent agent's state in environments that are ``done`` [B].

    A recurrent agent without ``prev_rnn_state`` gets ``reset_one`` for each of them, for which the
    host waits in every step. Other agents have no state.
    """
    if not agent.recurrent:
        return
    if not hasattr(agent, "prev_rnn_state"):
        for b in torch.nonzero(done).flatten().tolist():
            agent.reset_one(b)
        return
    for state in leaves(agent.prev_rnn_state):
        state.masked_fill_(_beside(done.to(state.device), state, 1), 0)


def _beside(mask: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return ``mask`` [B] in a shape that fits ``x``, whose dimension ``dim`` is B."""
    return mask.view(*[1] * dim, -1, *[1] * (x.dim() - dim - 1))


def first_device_inputs(env: DeviceEnvLike) -> AgentInputs:
    """Reset a vector environment, and return the agent's first inputs as tensors [B,...]."""
    observation = env.reset()
    example = as_element(numpify_buffer(observation[0]), env.spaces.observation)
    on_host = torchify_buffer(null_inputs(example, env.num_envs, env.action_space))
    inputs: AgentInputs = buffer_to(on_host, env.device)
    with returned_by(env):
        observation_rows(inputs.observation, 0)[:] = observation
    return inputs


class DeviceTrajectories:
    """Statistics of B running trajectories on the device, fetched from there once in a batch.

    Args:
        TrajInfoCls: class of the trajectory infos.
        B: number of environments.
        device: device of the environments.

    Raises:
        TypeError: if the class counts more than :class:`~rlpyt.core.records.TrajInfo` does.

    Attributes:
        saw_finite: whether all observations of the last batch were finite.
    """

    saw_finite = True

    def __init__(self, TrajInfoCls: Any, B: int, device: torch.device) -> None:
        for name in ("step", "terminate"):
            if getattr(TrajInfoCls, name) is not getattr(TrajInfo, name):
                raise TypeError(
                    f"TrajInfoCls is {TrajInfoCls.__name__}, which overrides {name}(), but "
                    "trajectories on a device are counted there: use TrajInfo"
                )
        self.TrajInfoCls = TrajInfoCls
        self._discount: float = TrajInfoCls()._discount
        self._start = torch.zeros((OVER, 1), dtype=torch.float64)
        self._start[CUR_DISCOUNT] = 1
        self._start = self._start.to(device)
        self._counts = self._start.repeat(1, B)

    def step(
        self,
        reward: torch.Tensor,
        over: torch.Tensor,
        row: torch.Tensor | None,
        success: torch.Tensor | None = None,
    ) -> None:
        """Count one step of every environment.

        Args:
            reward: rewards [B].
            over: mask [B] of trajectories that end here.
            row: tensor [8,B] for the statistics after this step; None to drop them.
            success: whether the task is done [B], if the environments tell.
        """
        counts = self._counts
        reward = reward.double()
        counts[LENGTH] += 1
        counts[RETURN] += reward
        counts[NONZERO] += reward != 0
        counts[DISCOUNTED] += counts[CUR_DISCOUNT] * reward
        counts[CUR_DISCOUNT] *= self._discount
        if row is not None:
            row[:OVER] = counts
            row[OVER] = over
            row[SUCCESS] = torch.nan if success is None else success
        self.restart(over)

    def restart(self, which: torch.Tensor | BoolArray) -> None:
        """Begin trajectories where ``which`` [B] is true."""
        which = torch.as_tensor(which, device=self._counts.device)
        self._counts = torch.where(which, self._start, self._counts)

    def new_log(self, n_steps: int) -> torch.Tensor:
        """Return a tensor [n_steps,8,B] for the statistics of every step."""
        return self._counts.new_ones((n_steps, FINITE + 1, self._counts.shape[1]))

    def fetch(self, log: torch.Tensor) -> list[tuple[int, int, Any]]:
        """Return time step, environment and trajectory info of completed trajectories.

        Raises:
            NotFiniteError: if an environment returned nan as a reward.
        """
        values = log.cpu().numpy()
        self.saw_finite = bool(values[:, FINITE].all())
        if np.isnan(values[:, RETURN]).any():
            b = int(np.argwhere(np.isnan(values[:, RETURN]))[0, 1])
            raise NotFiniteError(
                f"environment {b} returned reward nan: fix the environment, or clip the action"
            )
        places = np.argwhere(values[:, OVER] > 0).tolist()
        return [(t, b, self._info(values[t, :, b])) for t, b in places]

    def _info(self, values: NDArray) -> Any:
        info = self.TrajInfoCls()
        info.Length, info.NonzeroRewards = int(values[LENGTH]), int(values[NONZERO])
        info.Return, info.DiscountedReturn = values[RETURN], values[DISCOUNTED]
        info._cur_discount = float(values[CUR_DISCOUNT])
        if not np.isnan(values[SUCCESS]):
            info["_is_success"] = float(values[SUCCESS])
        return info

    def state_dict(self) -> NDArray:
        """Return the statistics of all running trajectories."""
        return self._counts.cpu().numpy().copy()

    def load_state_dict(self, state: NDArray) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._counts = torch.from_numpy(state.copy()).to(self._counts.device)


class Quota:
    """The completed trajectories of an evaluation, up to its limit.

    Args:
        limit: number of trajectories after which the evaluation ends; None for no limit.
        quota: number of trajectories that count in each environment; None if all do.
    """

    def __init__(self, limit: int | None, quota: Sequence[int] | None) -> None:
        self.limit = limit if quota is None else sum(quota)
        self.completed: list[Any] = []
        self._left = None if quota is None else list(quota)

    def is_enough(self) -> bool:
        """Return whether the limit is reached."""
        return self.limit is not None and len(self.completed) >= self.limit

    def add(self, found: Sequence[tuple[int, int, Any]]) -> None:
        """Add completed trajectories, but none of time steps after the limit is reached."""
        last_t = -1
        for t, b, info in found:
            if t != last_t and self.is_enough():
                return
            last_t = t
            if self._left is not None:
                if self._left[b] == 0:
                    continue
                self._left[b] -= 1
            self.completed.append(info)

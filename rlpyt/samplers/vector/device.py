"""A sampler whose batches are on the device of its environments, with its collectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.core.masks import redrawn
from rlpyt.core.records import AgentInputs, trajectory_end
from rlpyt.core.rows import observation_rows, returned_by
from rlpyt.samplers.vector._device_loop import (
    DeviceLoop,
    DeviceTrajectories,
    Quota,
    first_device_inputs,
)
from rlpyt.samplers.vector.collectors import VectorEvalCollector, VectorResetCollector
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.buffer import leaves, numpify_buffer

EVAL_T = 64  # Steps of an evaluation between checks of the trajectories.


class DeviceResetCollector(VectorResetCollector):
    """Collector for a vector environment of tensors; the host waits only once in a batch."""

    kind = "device"

    _device_loop: DeviceLoop | None = None

    def _begin(self) -> tuple[AgentInputs, Any]:
        env = self.envs
        trajectories = DeviceTrajectories(self.TrajInfoCls, env.num_envs, env.device)
        return first_device_inputs(env), trajectories

    def _random_step(self, inputs: AgentInputs, trajectories: Any, runs: Any) -> None:
        env = self.envs
        action = env.sample_actions()
        action = redrawn(action, inputs.observation, env.action_space, env.sample_actions)
        step = env.step(action)
        over = trajectory_end(step.env_info, step.done)
        trajectories.step(step.reward, over, None)
        blank = step.done | ~torch.from_numpy(runs).to(env.device)
        null_action = env.sample_actions(np.zeros(env.num_envs, dtype=bool))
        with returned_by(env):
            observation_rows(inputs.observation, 0)[:] = step.next_inputs
        inputs.prev_reward[:] = step.reward.masked_fill(blank, 0)
        inputs.prev_action[:] = action
        for rows, null in zip(leaves(inputs.prev_action), leaves(null_action)):
            rows[blank] = null[blank]

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: Any, itr: int
    ) -> tuple[AgentInputs, Any, list[Any]]:
        self.agent.sample_mode(itr)
        if self._device_loop is None:
            self._device_loop = DeviceLoop(
                self.envs, traj_infos, self.agent, agent_inputs, self.acting_noise
            )
        completed = self._device_loop.run(self.batch_T, self.samples_np)
        if not traj_infos.saw_finite:
            self._look_at(self.samples_np)
        return agent_inputs, traj_infos, [info for _, _, info in completed]


class DeviceEvalCollector(VectorEvalCollector):
    """Evaluation collector for a vector environment of tensors, reset before each evaluation.

    The host checks the trajectories once every 64 steps. Trajectories completed after an
    evaluation's limit do not count.
    """

    kind = "device evaluation"

    def run_evaluation(self, itr: int) -> list[Any]:
        env = self.envs
        inputs = first_device_inputs(env)
        noise = self._begin(itr)
        trajectories = DeviceTrajectories(self.TrajInfoCls, env.num_envs, env.device)
        loop = DeviceLoop(env, trajectories, self.agent, inputs, noise)
        found = Quota(self.max_trajectories, self.quota)
        n_left = self.n_steps
        while n_left > 0 and not (self.has_to_end or found.is_enough()):
            n_steps = min(EVAL_T, n_left)
            found.add(loop.run(n_steps))
            n_left -= n_steps
        return found.completed


class DeviceSampler(VectorSampler):
    """Sampler that steps all environments in one call on their device, where batches stay.

    Arguments as for :class:`~rlpyt.samplers.vector.sampler.VectorSampler`, but ``EnvCls`` returns a
    :class:`~rlpyt.envs.device.DeviceEnvWrapper`, or an object with its methods. The agent must be
    on the same device, unless that is the CPU. Within a batch the host waits for nothing; at its
    end it fetches the statistics of trajectories, the ones that ``TrajInfo`` has.

    Raises:
        TypeError: if ``EnvCls`` makes environments of arrays, or ``TrajInfoCls`` overrides methods.
        ValueError: if environments of evaluation and training are on different devices.
    """

    agent: Any

    _fitting_collectors = (DeviceResetCollector, DeviceEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = DeviceResetCollector,
        eval_CollectorCls: Any = DeviceEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)

    def _make_env(self, env_kwargs: Any, n: int) -> Any:
        env = super()._make_env(env_kwargs, n)
        device = getattr(env, "device", None)
        if not isinstance(device, torch.device):
            raise TypeError(
                f"EnvCls made {env!r}, not an environment of tensors: use "
                "rlpyt.envs.control.make, wrap it in DeviceEnvWrapper, or use VectorSampler"
            )
        if self.device not in (None, device):
            raise ValueError(
                f"eval_env_kwargs make environments on {device}, and env_kwargs on {self.device}: "
                "put both on one device"
            )
        self.device = self.agent.sampler_device = device
        return env

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, trajectories and acting agent, as arrays."""
        inputs: Any = numpify_buffer(self.agent_inputs)
        return {**super().state_dict(), "agent_inputs": inputs._asdict()}

    def _load_inputs(self, saved: dict[str, Any]) -> None:
        arrays = leaves(tuple(saved.values()))
        for rows, array in zip(leaves(self.agent_inputs), arrays, strict=True):
            rows[:] = torch.as_tensor(array, device=rows.device)

"""The step loop over a vector environment: one call steps all environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.core.protocols import VectorEnvLike
from rlpyt.core.records import AgentInputs, NotFiniteError, TrajInfo, record_success, trajectory_end
from rlpyt.core.rows import as_element, fitted, observation_rows, returned_by
from rlpyt.samplers._batch_writer import NO_BATCH, NoBatch
from rlpyt.samplers._step_loop import LocalActions
from rlpyt.samplers.buffer import null_inputs
from rlpyt.utils.buffer import leaves, numpify_buffer
from rlpyt.utils.types import BoolArray, NDArray, Nested

_COUNTED = ("Length", "Return", "NonzeroRewards", "DiscountedReturn", "_cur_discount")


class VectorLoop:
    """Loop that steps a vector environment, and keeps its trajectories and the agent's inputs.

    Args:
        env: vector environment, see :class:`~rlpyt.samplers.vector.sampler.VectorSampler`.
        trajectories: running trajectories.
        actions: actions of the agent.
        quota: number of trajectories that count in each environment; None if all do.

    Attributes:
        waiting: [B], environments that have reached their quota.
        completed: trajectory infos completed in the present or last :meth:`run`.
    """

    def __init__(
        self,
        env: VectorEnvLike,
        trajectories: Trajectories,
        actions: LocalActions,
        quota: Sequence[int] | None = None,
    ) -> None:
        self.env = env
        self.inputs = actions.inputs
        self.trajectories = trajectories
        self.actions = actions
        self.completed: list[Any] = []
        self._left = None if quota is None else list(quota)
        self.waiting: BoolArray = np.array([n == 0 for n in quota or [1] * env.num_envs])
        self._observation = observation_rows(self.inputs.observation, 0)

    def run(
        self,
        n_steps: int,
        batch: NoBatch = NO_BATCH,
        stop: Callable[[list[Any]], bool] | None = None,
    ) -> list[Any]:
        """Take ``n_steps`` steps in every environment, or fewer if ``stop(completed)``.

        Args:
            n_steps: number of steps.
            batch: rows to record the steps in; by default only trajectories are recorded.
            stop: condition to end early, checked after every step.

        Returns:
            The completed trajectory infos.
        """
        completed: list[Any] = []
        self.completed = completed
        inputs, actions = self.inputs, self.actions
        observations = batch.begin(inputs)
        for t in range(n_steps):
            for rows, present in observations:
                rows[t] = present
            action, agent_info = actions.choose()
            batch.add_action(t, action, agent_info)
            step, reward = self._step(action, agent_info)
            with returned_by(self.env):
                batch.add_step(t, ..., step.env_info, step.observation)
                self._observation[:] = step.next_inputs
            batch.add_outcome(t, reward, step.done)
            inputs.prev_reward[:] = reward
            actions.advance(action, np.flatnonzero(step.done).tolist())
            if stop is not None and stop(completed):
                break
        actions.finish(batch.bootstrap_value)
        return completed

    def _step(self, action: Nested, agent_info: Nested) -> tuple[Any, Any]:
        step = self.env.step(action)
        reward = rewards_of(step, self.env)
        reads_info = self.trajectories.reads_info and agent_info
        info = numpify_buffer(agent_info) if reads_info else None
        self.trajectories.step(
            self.inputs.observation, action, reward, step.done, info, step.env_info
        )
        # ``done`` ends the episode of the learner; a trajectory may continue (lost lives in Atari).
        traj_done = trajectory_end(step.env_info, step.done)
        for b in np.flatnonzero(traj_done).tolist():
            traj_info = self.trajectories.complete(b, step.observation[b], step.env_info)
            if self.waiting[b]:
                continue
            if traj_info is not None:
                self.completed.append(traj_info)
            if self._left is not None:
                self._left[b] -= 1
                self.waiting[b] = self._left[b] == 0
        return step, reward


def rewards_of(step: Any, env: VectorEnvLike) -> Any:
    """Return the rewards [B] of a step.

    Raises:
        MisfitError: if they have another shape.
        NotFiniteError: if one is nan.
    """
    with returned_by(env):
        reward = fitted(step.reward, (env.num_envs,), "reward")
    if np.isnan(reward).any():
        b = int(np.flatnonzero(np.isnan(reward))[0])
        raise NotFiniteError(
            f"environment {b} of {env} returned reward nan: fix the environment, or clip the action"
        )
    return reward


def first_vector_inputs(env: VectorEnvLike) -> AgentInputs:
    """Reset a vector environment, and return the agent's first inputs as numpy buffers [B,...].

    Raises:
        TypeError: if its observations are tensors.
    """
    observation = env.reset()
    if any(isinstance(leaf, torch.Tensor) for leaf in leaves(observation)):
        raise TypeError(f"EnvCls made {env}, which returns tensors: use DeviceSampler")
    example = as_element(observation[0], env.spaces.observation)
    inputs = null_inputs(example, env.num_envs, env.action_space)
    with returned_by(env):
        observation_rows(inputs.observation, 0)[:] = observation
    return inputs


class Trajectories:
    """Statistics of B running trajectories, updated by one call for all of them.

    A class that counts more than :class:`~rlpyt.core.records.TrajInfo` does, that is, one that
    overrides ``step``, is called for every environment in turn.

    Args:
        TrajInfoCls: class of the trajectory infos.
        B: number of environments.

    Attributes:
        reads_info: whether the statistics use the agent's info.
    """

    def __init__(self, TrajInfoCls: Any, B: int) -> None:
        self.TrajInfoCls = TrajInfoCls
        self._infos = [TrajInfoCls() for _ in range(B)]
        self.reads_info = type(self._infos[0]).step is not TrajInfo.step
        if not self.reads_info:
            self._discount: float = self._infos[0]._discount
            self._length: NDArray = np.zeros(B, dtype=np.int64)
            self._nonzero: NDArray = np.zeros(B, dtype=np.int64)
            self._return: NDArray = np.zeros(B)
            self._discounted: NDArray = np.zeros(B)
            self._cur_discount: NDArray = np.ones(B)

    def step(
        self,
        observation: Nested,
        action: Nested,
        reward: NDArray,
        done: BoolArray,
        agent_info: Nested,
        env_info: Nested,
    ) -> None:
        """Count one step of every environment, [B,...], as ``TrajInfo.step`` does for one."""
        if self.reads_info:
            for b, traj_info in enumerate(self._infos):
                info = agent_info[b] if agent_info else None
                own_info = env_info[b] if env_info else env_info
                traj_info.step(observation[b], action[b], reward[b], done[b], info, own_info)
            return
        self._length += 1
        self._return += reward
        self._nonzero += reward != 0
        self._discounted += self._cur_discount * reward
        self._cur_discount *= self._discount

    def complete(self, b: int, observation: Nested, env_info: Nested) -> Any:
        """Return the trajectory info of environment ``b``, and begin its next trajectory.

        Args:
            b: index of the environment.
            observation: last observation of the trajectory.
            env_info: info [B,...] of the last step.
        """
        traj_info = self._info(b)
        record_success(traj_info, env_info, b)
        self._restart(b)
        return traj_info.terminate(observation)

    def restart(self, which: BoolArray) -> None:
        """Begin trajectories where ``which`` [B] is true."""
        for b in np.flatnonzero(which).tolist():
            self._restart(b)

    def _restart(self, b: int) -> None:
        self._infos[b] = self.TrajInfoCls()
        if not self.reads_info:
            self._load_counts(b)

    def _info(self, b: int) -> Any:
        """Return the trajectory info of environment ``b``, up to date."""
        traj_info = self._infos[b]
        if not self.reads_info:
            traj_info.Length = int(self._length[b])
            traj_info.Return = self._return[b]
            traj_info.NonzeroRewards = int(self._nonzero[b])
            traj_info.DiscountedReturn = self._discounted[b]
            traj_info._cur_discount = float(self._cur_discount[b])
        return traj_info

    def _load_counts(self, b: int) -> None:
        counts = (
            self._length,
            self._return,
            self._nonzero,
            self._discounted,
            self._cur_discount,
        )
        for name, count in zip(_COUNTED, counts):
            count[b] = self._infos[b][name]

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the entries of all running trajectories."""
        return [dict(self._info(b)) for b in range(len(self._infos))]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for b, saved in enumerate(state):
            self._infos[b].clear()
            self._infos[b].update(saved)
            if not self.reads_info:
                self._load_counts(b)

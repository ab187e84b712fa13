"""Collectors of a vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.core.masks import redrawn
from rlpyt.core.protocols import AgentLike, VectorEnvLike
from rlpyt.core.records import AgentInputs, trajectory_end
from rlpyt.core.rows import observation_rows, returned_by
from rlpyt.samplers._batch_writer import NO_BATCH, BatchRows, NoBatch
from rlpyt.samplers._step_loop import LocalActions
from rlpyt.samplers.collectors import DecorrelatingStartCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.vector._loop import Trajectories, VectorLoop, first_vector_inputs, rewards_of
from rlpyt.utils.types import BoolArray


class VectorResetCollector(DecorrelatingStartCollector):
    """Collector for a vector environment, where the next episode follows a finished one at once.

    Its arguments are as for :class:`~rlpyt.samplers.collectors.BaseCollector`, where ``envs`` is
    the vector environment, and the trajectory infos of the methods are
    :class:`~rlpyt.samplers.vector._loop.Trajectories`.
    """

    kind = "vector"
    mid_batch_reset = True

    envs: Any  # A vector environment.
    agent: AgentLike

    _loop: VectorLoop | None = None
    _batch: NoBatch = NO_BATCH

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[AgentInputs, Any]:
        """Reset all environments, then take a random number of random steps in each.

        All step together, so each is reset again, with the same seed, when the number of steps left
        is its own.
        """
        env: VectorEnvLike = self.envs
        inputs, trajectories = self._begin()
        if not max_decorrelation_steps:
            return inputs, trajectories
        n_steps = np.array(self._decorrelation_steps(env.num_envs, max_decorrelation_steps))
        n_all, rows = int(n_steps.max()), observation_rows(inputs.observation, 0)
        for t in range(n_all):
            begins = n_steps == n_all - t
            if t and begins.any():
                with returned_by(env):
                    rows[:] = env.reset_some(begins, inputs.observation, seeded=True)
                trajectories.restart(begins)
            self._random_step(inputs, trajectories, n_steps >= n_all - t)
        return inputs, trajectories

    def _begin(self) -> tuple[AgentInputs, Any]:
        """Reset all environments; return the agent's first inputs, and new trajectories."""
        env: VectorEnvLike = self.envs
        return first_vector_inputs(env), Trajectories(self.TrajInfoCls, env.num_envs)

    def _random_step(self, inputs: AgentInputs, trajectories: Any, runs: BoolArray) -> None:
        """Take one step with random actions, the first or a further one where ``runs`` [B] is true.

        The other environments begin later.
        """
        env: VectorEnvLike = self.envs
        null_action = env.action_space.null_value()
        action = env.sample_actions()
        action = redrawn(action, inputs.observation, env.action_space, env.sample_actions)
        inputs.prev_action[:] = action
        step = env.step(action)
        reward: Any = rewards_of(step, env)
        trajectories.step(inputs.observation, action, reward, step.done, None, step.env_info)
        trajectories.restart(trajectory_end(step.env_info, step.done))
        with returned_by(env):
            observation_rows(inputs.observation, 0)[:] = step.next_inputs
        inputs.prev_action[step.done | ~runs] = null_action
        inputs.prev_reward[:] = reward
        inputs.prev_reward[step.done | ~runs] = 0

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: Any, itr: int
    ) -> tuple[AgentInputs, Any, list[Any]]:
        """Fill the batch; return both arguments, and the completed trajectory infos."""
        self.agent.sample_mode(itr)
        if self._loop is None:
            env: VectorEnvLike = self.envs
            null_action = env.action_space.null_value()
            actions = LocalActions(self, agent_inputs, null_action, self.acting_noise)
            self._loop = VectorLoop(env, traj_infos, actions)
            self._batch = BatchRows(self.samples_np, n_leading=1)
        completed = self._loop.run(self.batch_T, self._batch)
        self._look_at(self.samples_np)
        return agent_inputs, traj_infos, completed


class VectorEvalCollector(SerialEvalCollector):
    """Evaluation collector for a vector environment, which is reset before each evaluation.

    Its arguments are as for :class:`~rlpyt.samplers.serial.collectors.SerialEvalCollector`, where
    ``envs`` is the vector environment.
    """

    kind = "vector evaluation"

    envs: Any
    agent: AgentLike

    def run_evaluation(self, itr: int) -> list[Any]:
        env: VectorEnvLike = self.envs
        inputs = first_vector_inputs(env)
        noise = self._begin(itr)
        actions = LocalActions(self, inputs, env.action_space.null_value(), noise)
        trajectories = Trajectories(self.TrajInfoCls, env.num_envs)
        loop = VectorLoop(env, trajectories, actions, self.quota)

        def is_enough(completed: list[Any]) -> bool:
            is_limited = self.has_to_end or self._is_limited(len(completed))
            return is_limited or bool(loop.waiting.all())

        return loop.run(self.n_steps, stop=is_enough)

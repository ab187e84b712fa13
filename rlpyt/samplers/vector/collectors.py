"""Collectors of a vector environment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.core.masks import redrawn
from rlpyt.core.protocols import AgentLike, VectorEnvLike
from rlpyt.core.records import AgentInputs, trajectory_end
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers._batch_writer import NO_BATCH, BatchRows, NoBatch
from rlpyt.samplers._step_loop import LocalActions
from rlpyt.samplers.collectors import DecorrelatingStartCollector
from rlpyt.samplers.vector._loop import Trajectories, VectorLoop, first_vector_inputs
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args
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
        B = env.num_envs
        inputs = first_vector_inputs(env)
        trajectories = Trajectories(self.TrajInfoCls, B)
        if not max_decorrelation_steps:
            return inputs, trajectories
        n_steps = np.array(self._decorrelation_steps(B, max_decorrelation_steps))
        n_all = int(n_steps.max())
        for t in range(n_all):
            begins = n_steps == n_all - t
            if t and begins.any():
                inputs.observation[:] = env.reset_some(begins, inputs.observation, seeded=True)
                for b in np.flatnonzero(begins).tolist():
                    trajectories.restart(b)
            self._random_step(inputs, trajectories, n_steps >= n_all - t)
        return inputs, trajectories

    def _random_step(
        self, inputs: AgentInputs, trajectories: Trajectories, runs: BoolArray
    ) -> None:
        """Take one step, with random actions where ``runs`` [B] is true, null actions elsewhere."""
        env: VectorEnvLike = self.envs
        null_action = env.action_space.null_value()
        action = env.sample_actions(runs)
        action = redrawn(action, inputs.observation, env.action_space, env.sample_actions)
        step = env.step(action)
        trajectories.step(inputs.observation, action, step.reward, step.done, None, step.env_info)
        traj_done = trajectory_end(step.env_info, step.done)
        for b in np.flatnonzero(traj_done).tolist():
            trajectories.restart(b)
        inputs.observation[:] = step.next_inputs
        inputs.prev_action[:] = action
        inputs.prev_action[step.done | ~runs] = null_action
        inputs.prev_reward[:] = step.reward
        inputs.prev_reward[step.done | ~runs] = 0

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: Any, itr: int
    ) -> tuple[AgentInputs, Any, list[Any]]:
        """Fill the batch; return both arguments, and the completed trajectory infos."""
        self.agent.sample_mode(itr)
        if self._loop is None:
            env: VectorEnvLike = self.envs
            null_action = env.action_space.null_value()
            actions = LocalActions(self.agent, agent_inputs, null_action, self.acting_noise)
            self._loop = VectorLoop(env, traj_infos, actions)
            self._batch = BatchRows(self.samples_np)
        completed = self._loop.run(self.batch_T, self._batch)
        return agent_inputs, traj_infos, completed


class VectorEvalCollector:
    """Evaluation collector for a vector environment, which is reset before each evaluation.

    Args:
        envs: the vector environment.
        agent: agent that acts in this process.
        TrajInfoCls: class of the trajectory infos.
        max_T: number of time steps in one evaluation; None for no limit.
        max_trajectories: number of completed trajectories after which an evaluation ends.
        quota: number of trajectories that each environment completes; None for any number.
    """

    kind = "vector evaluation"
    # Set by the sampler: the random numbers for acting in training, whose seed is used here too.
    acting_noise: ActingNoise | None = None
    env_ranks: Sequence[int] = ()

    envs: Any
    agent: AgentLike
    TrajInfoCls: Any
    max_T: int | None
    max_trajectories: int | None
    quota: Sequence[int] | None

    def __init__(
        self,
        envs: Any,
        agent: AgentLike,
        TrajInfoCls: Any,
        max_T: int | None,
        max_trajectories: int | None = None,
        quota: Sequence[int] | None = None,
    ) -> None:
        save__init__args(locals())

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos."""
        env = self.envs
        inputs = first_vector_inputs(env)
        # The mode first: leaving sample mode, a recurrent agent puts its state aside.
        self.agent.eval_mode(itr)
        self.agent.reset()
        noise = self.acting_noise
        if noise is not None:
            noise = noise.for_evaluation(self.env_ranks, itr)
        actions = LocalActions(self.agent, inputs, env.action_space.null_value(), noise)
        trajectories = Trajectories(self.TrajInfoCls, env.num_envs)
        loop = VectorLoop(env, trajectories, actions, self.quota)
        limit = self.max_trajectories if self.quota is None else sum(self.quota)

        def is_enough(completed: list[Any]) -> bool:
            is_limited = limit is not None and len(completed) >= limit
            return is_limited or bool(loop.waiting.all())

        n_steps = sys.maxsize if self.max_T is None else self.max_T
        completed = loop.run(n_steps, stop=is_enough)
        reason = "trajectories" if is_enough(completed) else "time steps"
        logger.log(f"Evaluation ended at its limit of {reason}: {len(completed)} trajectories.")
        return completed

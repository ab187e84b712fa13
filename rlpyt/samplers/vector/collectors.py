"""The step loop over a vector environment: one step of all environments, one of the agent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._collect import BatchSink, LocalActions, NoSink
from rlpyt.samplers._rows import Rows
from rlpyt.samplers.collectors import DecorrelatingStartCollector
from rlpyt.samplers.vector._trajectories import Trajectories
from rlpyt.utils.buffer import buffer_from_example, numpify_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import BoolArray, NDArray, Nested

_ALL = slice(None)


class VectorLoop:
    """Steps a vector environment, keeps its trajectories and the agent's inputs.

    Args:
        env: see :class:`~rlpyt.samplers.vector.sampler.VectorSampler`.
        trajectories: the running ones.
        actions: the agent.
        quota: number of trajectories of each environment which count; None if all do.

    Attributes:
        waiting: [B], where the quota is reached.
        completed_at: time step and index of the environment of each trajectory which the last
            :meth:`run` completed.
    """

    def __init__(
        self,
        env: Any,
        trajectories: Trajectories,
        actions: LocalActions,
        quota: Sequence[int] | None = None,
    ) -> None:
        self.env = env
        self.inputs = actions.inputs
        self.trajectories = trajectories
        self.actions = actions
        self.completed_at: list[tuple[int, int]] = []
        self.waiting: BoolArray = np.zeros(env.num_envs, dtype=bool)
        self._left = None if quota is None else list(quota)
        if quota is not None:
            self.waiting[:] = [n == 0 for n in quota]
        self._observation = Rows(self.inputs.observation)

    def run(
        self,
        n_steps: int,
        sink: BatchSink | NoSink,
        stop: Callable[[list[Any]], bool] | None = None,
    ) -> list[Any]:
        """Take ``n_steps`` steps in every environment, or fewer if ``stop(completed)``.

        Returns:
            The trajectory infos which were completed.
        """
        completed: list[Any] = []
        self.completed_at = []
        sink.begin()
        for t in range(n_steps):
            sink.observe(t)
            chosen = self.actions.choose()
            assert chosen is not None, "a local agent always acts"
            action, agent_info = chosen
            step = self._step(t, action, agent_info, sink, completed)
            sink.record(t, action, agent_info, step.reward, step.done)
            self._observation.write(_ALL, step.next_inputs)
            self.inputs.prev_reward[:] = step.reward
            self.actions.done[:] = step.done
            over = np.flatnonzero(step.done).tolist() if step.done.any() else []
            self.actions.advance(action, over)
            if stop is not None and stop(completed):
                break
        self.actions.finish(sink)
        return completed

    def _step(
        self,
        t: int,
        action: Nested,
        agent_info: Nested,
        sink: BatchSink | NoSink,
        completed: list[Any],
    ) -> Any:
        step = self.env.step(action)
        _check_reward(step.reward, self.env)
        sink.stepped(t, _ALL, step.observation, step.env_info)  # type: ignore[arg-type]
        info = None
        if self.trajectories.reads_info and agent_info:
            info = numpify_buffer(agent_info)
        self.trajectories.step(
            self.inputs.observation, action, step.reward, step.done, info, step.env_info
        )
        # ``done`` ends the episode of the learner; a trajectory may go on (lost lives in Atari).
        traj_done = getattr(step.env_info, "traj_done", step.done)
        if traj_done.any():
            for b in np.flatnonzero(traj_done).tolist():
                traj_info = self.trajectories.complete(b, step.observation[b])
                if not self.waiting[b]:
                    completed.append(traj_info)
                    self.completed_at.append((t, b))
                    self._count(b)
        return step

    def _count(self, b: int) -> None:
        if self._left is not None:
            self._left[b] -= 1
            self.waiting[b] = self._left[b] == 0


def _check_reward(reward: NDArray, env: Any) -> None:
    if np.isnan(reward).any():
        b = int(np.flatnonzero(np.isnan(reward))[0])
        raise ValueError(
            f"environment {b} of {env} returned reward nan: mend the environment, or clip the "
            "action"
        )


def null_vector_inputs(env: Any, observation: Nested) -> AgentInputs:
    """The agent's inputs at the start of all episodes, as numpy buffers of their own.

    Args:
        env: a vector environment.
        observation: [B,...] of its reset.
    """
    B = env.num_envs
    own = buffer_from_example(observation[0], B)
    own[:] = observation
    null_action = env.action_space.null_value()
    action = buffer_from_example(null_action, B)
    action[:] = null_action
    return AgentInputs(own, action, np.zeros(B, dtype="float32"))


class VectorResetCollector(DecorrelatingStartCollector):
    """Collects batches in a vector environment, where a finished episode is followed by the next.

    Args as of :class:`~rlpyt.samplers.collectors.BaseCollector`, where ``envs`` is the vector
    environment, and the trajectory infos of the methods are
    :class:`~rlpyt.samplers.vector._trajectories.Trajectories`.

    Attributes:
        completed_at: time step and index of the environment of each trajectory completed in the
            last batch.
    """

    mid_batch_reset = True
    completed_at: Sequence[tuple[int, int]] = ()

    _loop: VectorLoop | None = None
    _sink: BatchSink | None = None

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[AgentInputs, Any]:
        """Reset all environments, then take a random number of random steps in each.

        All are stepped together, so each is reset again, with the same seed, when no more steps are
        to come than it shall take.
        """
        env: Any = self.envs
        B = env.num_envs
        inputs = null_vector_inputs(env, env.reset())
        trajectories = Trajectories(self.TrajInfoCls, B)
        if not max_decorrelation_steps:
            return inputs, trajectories
        if self.rank == 0:
            logger.log(f"Sampler decorrelating envs, max steps: {int(max_decorrelation_steps)}")
        n_steps = np.array(
            [1 + int(self._start_rng(b).random() * max_decorrelation_steps) for b in range(B)]
        )
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
        """One step: random where the start ``runs`` [B] already, with null actions elsewhere."""
        env: Any = self.envs
        null_action = env.action_space.null_value()
        action = env.sample_actions(runs)
        step = env.step(action)
        trajectories.step(inputs.observation, action, step.reward, step.done, None, step.env_info)
        traj_done = getattr(step.env_info, "traj_done", step.done)
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
        """Fill the batch; return the same two, and the completed trajectory infos."""
        self.agent.sample_mode(itr)
        if self._loop is None:
            env: Any = self.envs
            actions = LocalActions(self.agent, agent_inputs, env.action_space.null_value())
            self._loop = VectorLoop(env, traj_infos, actions)
            self._sink = BatchSink(self.samples_np, agent_inputs)
        assert self._sink is not None
        completed = self._loop.run(self.batch_T, self._sink)
        self.completed_at = self._loop.completed_at
        return agent_inputs, traj_infos, completed


class VectorEvalCollector:
    """Evaluates the agent in a vector environment, which is reset before each evaluation.

    Args:
        envs: the vector environment.
        agent: acts in this process.
        TrajInfoCls: of the trajectories.
        max_T: time steps of one evaluation; None for no limit.
        max_trajectories: ends the evaluation after the step at which so many were completed.
        quota: number of trajectories each environment shall complete; None for no such number.
    """

    envs: Any
    agent: Any
    TrajInfoCls: Any
    max_T: int | None
    max_trajectories: int | None
    quota: Sequence[int] | None

    def __init__(
        self,
        envs: Any,
        agent: Any,
        TrajInfoCls: Any,
        max_T: int | None,
        max_trajectories: int | None = None,
        quota: Sequence[int] | None = None,
    ) -> None:
        save__init__args(locals())

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos."""
        env = self.envs
        inputs = null_vector_inputs(env, env.reset())
        # The mode first: leaving sample mode, a recurrent agent puts its state aside.
        self.agent.eval_mode(itr)
        self.agent.reset()
        actions = LocalActions(self.agent, inputs, env.action_space.null_value())
        trajectories = Trajectories(self.TrajInfoCls, env.num_envs)
        loop = VectorLoop(env, trajectories, actions, self.quota)
        limit = self.max_trajectories if self.quota is None else sum(self.quota)

        def is_enough(completed: list[Any]) -> bool:
            return limit is not None and len(completed) >= limit

        n_steps = sys.maxsize if self.max_T is None else self.max_T
        completed = loop.run(n_steps, NoSink(), stop=is_enough)
        reason = "trajectories" if is_enough(completed) else "time steps"
        logger.log(f"Evaluation ended at its limit of {reason}: {len(completed)} trajectories.")
        return completed

"""The step loop over a vector environment: one step of all environments, one of the agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._batch_writer import BatchSink, NoSink, Rows
from rlpyt.samplers._step_loop import LocalActions
from rlpyt.samplers.vector._trajectories import Trajectories
from rlpyt.utils.buffer import buffer_from_example, numpify_buffer
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

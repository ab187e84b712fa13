"""The one loop in which environments are stepped, and the choices which collectors make about it.

actions    who acts: the agent in this process, or a server over shared memory
on_done    what follows the end of an episode: reset at once, or hold until the batch ends
sink       where steps are recorded: a sampler batch, or nowhere (evaluation)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import TrajInfo
from rlpyt.samplers._actions import LocalActions, ServedActions
from rlpyt.samplers._resets import HoldUntilBatchEnd, ResetNow
from rlpyt.samplers._rows import Rows
from rlpyt.samplers._sinks import BatchSink, NoSink
from rlpyt.utils._members import LifeSign
from rlpyt.utils.buffer import numpify_buffer
from rlpyt.utils.types import Nested


class StepLoop:
    """Steps environments, keeps their trajectories and the agent's inputs.

    Args:
        envs: B environments.
        traj_infos: the B running trajectories; finished ones are replaced in place.
        TrajInfoCls: makes new ones.
        actions: who acts.
        on_done: what follows the end of an episode.
        signs: values of the :class:`~rlpyt.utils._members.LifeSign` of this process.
        env_ranks: index of each environment over all processes, for the signs.

    Attributes:
        completed_at: time step and index of the environment of each trajectory which the last
            :meth:`run` completed.
    """

    def __init__(
        self,
        envs: Sequence[Any],
        traj_infos: list[Any],
        TrajInfoCls: Any,
        actions: LocalActions | ServedActions,
        on_done: ResetNow | HoldUntilBatchEnd,
        signs: Any,
        env_ranks: Sequence[int] | None = None,
    ) -> None:
        self.envs = envs
        self.inputs = actions.inputs
        self.traj_infos = traj_infos
        self.TrajInfoCls = TrajInfoCls
        self.actions = actions
        self.on_done = on_done
        self.completed_at: list[tuple[int, int]] = []
        self._signs = signs
        self._env_ranks = list(range(len(envs))) if env_ranks is None else list(env_ranks)
        self._observation = Rows(self.inputs.observation)
        # The statistics which every trajectory has do not look into agent_info.
        self._reads_info = getattr(TrajInfoCls, "step", None) is not TrajInfo.step

    def run(
        self,
        n_steps: int,
        sink: BatchSink | NoSink,
        stop: Callable[[], bool] | None = None,
        report: Callable[[tuple[int, int], Any], None] | None = None,
    ) -> list[Any]:
        """Take ``n_steps`` steps in every environment, or fewer if ``stop()``.

        Args:
            n_steps: in every environment.
            sink: where they are recorded.
            stop: asked after every step, if there may be a reason.
            report: called at once with place, as in ``completed_at``, and trajectory info.

        Returns:
            The trajectory infos which were completed.
        """
        actions, on_done, inputs, signs = self.actions, self.on_done, self.inputs, self._signs
        done, reward = actions.done, np.asarray(inputs.prev_reward)
        completed: list[Any] = []
        self.completed_at = []
        on_done.begin_batch()
        active, waiting = self._split()
        sink.begin()
        for t in range(n_steps):
            sink.observe(t)
            chosen = actions.choose()
            if chosen is None:
                break
            action, agent_info = chosen
            sink.acted(t, action, agent_info)
            info = numpify_buffer(agent_info) if self._reads_info and agent_info else agent_info
            over, n_completed = waiting.copy(), len(completed)
            for b in active:
                signs[LifeSign.PLACE] = self._env_ranks[b]
                traj_info = self._step_env(t, b, action[b], info, sink)
                if traj_info is not None:
                    completed.append(traj_info)
                    self.completed_at.append((t, b))
                    if report is not None:
                        report((t, b), traj_info)
                if done[b]:
                    over.append(b)
            signs[LifeSign.PLACE] = -1
            if waiting:
                reward[waiting], done[waiting] = 0, True
                sink.blank(t, waiting)
            sink.rewarded(t, reward, done)
            actions.advance(action, over)
            if over or len(completed) > n_completed:
                active, waiting = self._split()
            signs[LifeSign.STEPS] = t + 1
            if stop is not None and stop():
                break
        actions.finish(sink)
        return completed

    def reset_if_needed(self) -> None:
        """Reset environments between batches, where that was put off."""
        self.on_done.reset_if_needed(lambda b: LifeSign.enter(self._signs, self._env_ranks[b]))
        self._signs[LifeSign.PLACE] = -1

    def _split(self) -> tuple[list[int], list[int]]:
        """Who is stepped, and who waits."""
        waiting = self.on_done.waiting
        return np.flatnonzero(~waiting).tolist(), np.flatnonzero(waiting).tolist()

    def _step_env(
        self, t: int, b: int, action: Nested, agent_info: Nested, sink: BatchSink | NoSink
    ) -> Any:
        """Step one environment; return its trajectory info if the trajectory is complete."""
        observation, reward, done, env_info = self.envs[b].step(action)
        if reward != reward:
            raise ValueError(
                f"environment {b} ({type(self.envs[b]).__name__}) returned reward {reward} for "
                f"action {action}: mend the environment, or clip the action"
            )
        traj_info = self.traj_infos[b]
        info = agent_info[b] if self._reads_info and agent_info else None
        traj_info.step(self.inputs.observation[b], action, reward, done, info, env_info)
        # ``done`` ends the episode of the learner; a trajectory may go on (lost lives in Atari).
        traj_done = getattr(env_info, "traj_done", done)
        sink.stepped(t, b, observation, env_info)
        completed = None
        if traj_done:
            completed = traj_info.terminate(observation)
            self.traj_infos[b] = self.TrajInfoCls()
        if done or traj_done:
            LifeSign.enter(self._signs, self._env_ranks[b])
            observation = self.on_done.next_observation(b, observation, traj_done)
        try:
            self._observation.write(b, observation)
        except Exception as error:
            raise ValueError(
                f"the observation of environment {b} ({type(self.envs[b]).__name__}) does not fit "
                f"its buffer ({error}): every observation must have the shape and fields of the "
                "first one"
            ) from error
        self.inputs.prev_reward[b] = reward
        self.actions.done[b] = done
        return completed

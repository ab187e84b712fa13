"""The one loop in which environments are stepped, and the choices which collectors make about it.

actions    who acts: the agent in this process, or a server over shared memory
on_done    what follows the end of an episode: reset at once, or hold until the batch ends
sink       where steps are recorded: a sampler batch, or nowhere (evaluation)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.core.records import AgentInputs, TrajInfo
from rlpyt.samplers._batch_writer import BatchSink, NoSink, Rows, plain
from rlpyt.utils.buffer import buffer_from_example, numpify_buffer, torchify_buffer
from rlpyt.utils.processes.child import Heartbeat
from rlpyt.utils.types import BoolArray, Nested


class StepLoop:
    """Steps environments, keeps their trajectories and the agent's inputs.

    Args:
        envs: B environments.
        traj_infos: the B running trajectories; finished ones are replaced in place.
        TrajInfoCls: makes new ones.
        actions: who acts.
        on_done: what follows the end of an episode.
        signs: values of the :class:`~rlpyt.utils.processes.child.Heartbeat` of this process.
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
                signs[Heartbeat.PLACE] = self._env_ranks[b]
                traj_info = self._step_env(t, b, action[b], info, sink)
                if traj_info is not None:
                    completed.append(traj_info)
                    self.completed_at.append((t, b))
                    if report is not None:
                        report((t, b), traj_info)
                if done[b]:
                    over.append(b)
            signs[Heartbeat.PLACE] = -1
            if waiting:
                reward[waiting], done[waiting] = 0, True
                sink.blank(t, waiting)
            sink.rewarded(t, reward, done)
            actions.advance(action, over)
            if over or len(completed) > n_completed:
                active, waiting = self._split()
            signs[Heartbeat.STEPS] = t + 1
            if stop is not None and stop():
                break
        actions.finish(sink)
        return completed

    def reset_if_needed(self) -> None:
        """Reset environments between batches, where that was put off."""
        self.on_done.reset_if_needed(lambda b: Heartbeat.beat(self._signs, self._env_ranks[b]))
        self._signs[Heartbeat.PLACE] = -1

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
            Heartbeat.beat(self._signs, self._env_ranks[b])
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


class LocalActions:
    """The agent acts in this process, on torch views of the numpy inputs.

    Attributes:
        inputs: the agent's next inputs [B,...], which the loop writes in place.
        done: [B], whether the last step ended an episode of the learner.
    """

    def __init__(self, agent: Any, inputs: AgentInputs, null_action: Nested) -> None:
        self.agent = agent
        self.inputs = inputs
        self.done: BoolArray = np.zeros(len(inputs.prev_reward), dtype=bool)
        self._inputs_pyt = torchify_buffer(inputs)
        self._prev_action = Rows(inputs.prev_action)
        self._null_action = null_action

    @classmethod
    def of(cls, collector: Any, inputs: AgentInputs, may_stop: bool = False) -> LocalActions:
        """For the agent of ``collector``, and these inputs."""
        return cls(collector.agent, inputs, collector.envs[0].action_space.null_value())

    def choose(self) -> tuple[Nested, Nested] | None:
        """Return action [B,...], numpy, and agent_info [B,...], or None to stop."""
        action, agent_info = self.agent.step(*self._inputs_pyt)
        is_tensor = type(action) is torch.Tensor
        return action.numpy() if is_tensor else numpify_buffer(action), agent_info

    def advance(self, action: Nested, over: Sequence[int]) -> None:
        """Let the inputs follow from the step; environments ``over`` begin anew."""
        self._prev_action.write(slice(None), action)
        for b in over:
            self.inputs.prev_action[b] = self._null_action
            self.inputs.prev_reward[b] = 0
            self.agent.reset_one(b)

    def finish(self, sink: BatchSink | NoSink) -> None:
        """After the last step: record the agent's value of its present inputs."""
        sink.bootstrap(lambda: numpify_buffer(self.agent.value(*self._inputs_pyt)))


class ServedActions:
    """Actions are chosen in another process, for many workers at once, over shared memory.

    A step costs one release and one acquire of a semaphore. The server reads ``done``, and starts
    the agent anew where that is set.

    Attributes:
        inputs: observation, previous action and reward: a part of the step buffer.
        done: likewise.
    """

    def __init__(self, step_buffer_np: Nested, sync: Any, may_stop: bool = False) -> None:
        step = plain(step_buffer_np)
        self.inputs = AgentInputs(step.observation, step.action, step.reward)
        self.done: BoolArray = step.done
        self._agent_info = step.agent_info
        self._sync = sync
        self._may_stop = may_stop

    @classmethod
    def of(cls, collector: Any, inputs: AgentInputs, may_stop: bool = False) -> ServedActions:
        """For the step buffer of ``collector``; ``inputs`` is unused."""
        return cls(collector.step_buffer_np, collector.sync, may_stop)

    def choose(self) -> tuple[Nested, Nested] | None:
        """Return copies of action [B,...], and agent_info [B,...], or None to stop."""
        self._sync.obs_ready.release()
        self._sync.act_ready.acquire()
        if self._may_stop and self._sync.stop_eval.value:
            return None
        # A copy, since environments may keep what they were given.
        return _copy(self.inputs.prev_action), self._agent_info

    def advance(self, action: Nested, over: Sequence[int]) -> None:
        """The server does so."""

    def finish(self, sink: BatchSink | NoSink) -> None:
        """After the last step, or instead of it: let the server look at the present inputs."""
        self._sync.obs_ready.release()


def _copy(buffer: Nested) -> Nested:
    if isinstance(buffer, tuple):
        return buffer._make([_copy(part) for part in buffer])  # type: ignore[attr-defined]
    return None if buffer is None else buffer.copy()


class ResetNow:
    """A finished environment is reset at once: the next row of the batch is a new episode."""

    mid_batch_reset = True

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        self._envs = envs
        self.waiting: BoolArray = np.zeros(len(envs), dtype=bool)

    def begin_batch(self) -> None:
        """Nothing was put off."""

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        """Return what the agent sees after the last ``observation`` of an episode."""
        return self._envs[b].reset() if traj_done else observation

    def reset_if_needed(self, announce: Callable[[int], None]) -> None:
        """Nothing was put off."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing is remembered."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing is remembered."""


class HoldUntilBatchEnd:
    """A finished environment waits; the rest of its batch is blank, with ``done`` True.

    Where only the learner's episode ended (a lost life), the environment goes on in the next batch
    from the observation which was held back.
    """

    mid_batch_reset = False

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        self._envs = envs
        self._inputs = inputs
        self.waiting: BoolArray = np.zeros(len(envs), dtype=bool)
        self._need_reset: BoolArray = np.zeros(len(envs), dtype=bool)
        self._held = buffer_from_example(inputs.observation[0], len(envs))

    def begin_batch(self) -> None:
        """Let every environment go on."""
        for b in np.flatnonzero(self.waiting):
            self._inputs.observation[b] = self._held[b]
        self.waiting[:] = False

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        """Return what the agent sees after the last ``observation`` of an episode."""
        self.waiting[b] = True
        self._need_reset[b] = traj_done
        self._held[b] = observation
        return 0

    def reset_if_needed(self, announce: Callable[[int], None]) -> None:
        """Reset the environments whose trajectory ended; ``announce`` each before its reset."""
        for b in np.flatnonzero(self._need_reset).tolist():
            announce(b)
            self._held[b] = self._envs[b].reset()
        self._need_reset[:] = False

    def state_dict(self) -> dict[str, Any]:
        """Return who waits, for what, and with which observation."""
        return {"waiting": self.waiting, "need_reset": self._need_reset, "held": self._held}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` returned."""
        self.waiting[:] = state["waiting"]
        self._need_reset[:] = state["need_reset"]
        self._held[:] = state["held"]


def signs_of(sync: Any) -> Any:
    """Return the values of this process's heartbeat, or a list in its place if nobody watches."""
    is_watched = sync is not None and "heartbeat" in sync
    return sync["heartbeat"].values if is_watched else list(Heartbeat.IDLE)


def reset_all(
    envs: Sequence[Any], signs: Any, env_ranks: Sequence[int] | None = None
) -> list[Nested]:
    """Reset environments in turn, leaving signs of it; return their observations."""
    observations = []
    for b, env in enumerate(envs):
        Heartbeat.beat(signs, b if env_ranks is None else env_ranks[b])
        observations.append(env.reset())
    Heartbeat.beat(signs, -1)
    return observations

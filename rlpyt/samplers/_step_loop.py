"""The loop that steps environments, for every collector, and the two choices collectors make.

actions    source of actions: the agent in this process (here) or a server over shared memory (in
           ``parallel.gpu.collectors``)
on_done    response to the end of an episode: a reset at once, or a wait until the batch ends
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs, NotFiniteError, TrajInfo, record_success
from rlpyt.core.rows import (
    NUMBERS,
    MisfitError,
    as_number,
    named,
    observation_rows,
    returned_by,
    rows_of,
)
from rlpyt.distributions.noise import ActingNoise
from rlpyt.processes.child import Heartbeat
from rlpyt.samplers._batch_writer import NO_BATCH, NoBatch
from rlpyt.utils.buffer import buffer_from_example, map_buffer, numpify_buffer, torchify_buffer
from rlpyt.utils.types import BoolArray, Nested


class StepLoop:
    """Loop that steps environments, and keeps their trajectories and the agent's inputs.

    Args:
        envs: B environments.
        traj_infos: trajectory infos of the B running trajectories; finished ones are replaced in
            place.
        TrajInfoCls: class of the new ones.
        actions: source of the actions.
        on_done: rule for the end of an episode.
        heartbeat: values of the :class:`~rlpyt.processes.child.Heartbeat` of this process.
        env_ranks: indexes of the environments over all processes; 0 to B - 1 if None.

    Attributes:
        completed: trajectory infos that the present or last :meth:`run` completed.
        completed_at: their time steps and environments.
    """

    def __init__(
        self,
        envs: Sequence[Any],
        traj_infos: list[Any],
        TrajInfoCls: Any,
        actions: Actions,
        on_done: EndRule,
        heartbeat: Any,
        env_ranks: Sequence[int] | None = None,
    ) -> None:
        self.envs = envs
        self.inputs = actions.inputs
        self.traj_infos = traj_infos
        self.TrajInfoCls = TrajInfoCls
        self.actions = actions
        self.on_done = on_done
        self.completed: list[Any] = []
        self.completed_at: list[tuple[int, int]] = []
        self._heartbeat = heartbeat
        self._env_ranks = list(range(len(envs)) if env_ranks is None else env_ranks)
        self._observation = observation_rows(self.inputs.observation, 1)
        self._reward = np.asarray(self.inputs.prev_reward)
        self._report: Callable[[tuple[int, int], Any], None] | None = None
        self._active: list[int] = []
        self._waiting: list[int] = []
        self._has_completed = False  # Whether the last step ended a trajectory.
        # agent_info is divided only for a class that may use it.
        self._reads_info = type(traj_infos[0]).step is not TrajInfo.step

    def run(
        self,
        n_steps: int,
        batch: NoBatch = NO_BATCH,
        stop: Callable[[], bool] | None = None,
        report: Callable[[tuple[int, int], Any], None] | None = None,
    ) -> list[Any]:
        """Take ``n_steps`` steps in every environment, or fewer if ``stop()``.

        Args:
            n_steps: number of steps.
            batch: rows to record the steps in; by default only trajectories are recorded.
            stop: condition to end early, checked after every step.
            report: function called with time step, environment rank and trajectory info (None if
                ``TrajInfoCls`` leaves it out) as soon as a trajectory is complete.

        Returns:
            The completed trajectory infos.
        """
        actions = self.actions
        self.completed, self.completed_at, self._report = [], [], report
        self.on_done.begin_batch()
        self._split()
        observations = batch.begin(self.inputs)
        for t in range(n_steps):
            for rows, present in observations:
                rows[t] = present
            chosen = actions.choose()
            if chosen is None:
                break
            action, agent_info = chosen
            # Before the environments step, since agent_info may be views of the inputs.
            batch.add_action(t, action, agent_info)
            over = self._step_envs(t, action, agent_info, batch)
            actions.advance(action, over, self._waiting)
            if stop is not None and stop():
                break
        actions.finish(batch.bootstrap_value, self._waiting)
        return self.completed

    def _step_envs(self, t: int, action: Nested, agent_info: Nested, batch: NoBatch) -> list[int]:
        """Step all environments but those that wait; return these and those that ended."""
        heartbeat, waiting, self._has_completed = self._heartbeat, self._waiting, False
        reward, done = self._reward, self.actions.done
        info = agent_info if self._reads_info and agent_info else None
        over = waiting.copy()
        for b in self._active:
            heartbeat[Heartbeat.PLACE] = self._env_ranks[b]
            if self._step_env(t, b, action[b], None if info is None else info[b], batch):
                over.append(b)
        heartbeat[Heartbeat.PLACE] = -1
        if waiting:
            reward[waiting], done[waiting] = 0, True
        batch.add_outcome(t, reward, done, waiting)
        if over or self._has_completed:
            self._split()
        heartbeat[Heartbeat.STEPS] = t + 1
        return over

    def _step_env(self, t: int, b: int, action: Nested, agent_info: Nested, batch: NoBatch) -> bool:
        """Step one environment; return whether this ended an episode of the learner."""
        inputs, env, traj_info = self.inputs, self.envs[b], self.traj_infos[b]
        try:
            observation, reward, done, env_info = env.step(action)
            if type(reward) not in NUMBERS or reward != reward:
                reward = as_number(reward, action)
            traj_info.step(inputs.observation[b], action, reward, done, agent_info, env_info)
            batch.add_step(t, b, env_info, observation)
            # ``done`` ends the learner's episode; a trajectory may continue (lost lives in Atari).
            traj_done = getattr(env_info, "traj_done", done)
            if traj_done:
                self._complete(t, b, observation, env_info)
            if done or traj_done:
                Heartbeat.beat(self._heartbeat, self._env_ranks[b])
                observation = self.on_done.next_observation(b, observation, traj_done)
            self._observation[b] = observation
        except (MisfitError, NotFiniteError) as error:
            raise named(error, env, self._env_ranks[b]) from error
        self._reward[b] = reward
        self.actions.done[b] = done
        return bool(done)

    def _complete(self, t: int, b: int, observation: Nested, env_info: Nested) -> None:
        """Keep a completed trajectory info, report it, and begin the next one."""
        self._has_completed = True
        record_success(self.traj_infos[b], env_info)
        traj_info = self.traj_infos[b].terminate(observation)
        self.traj_infos[b] = self.TrajInfoCls()
        if traj_info is not None:
            self.completed.append(traj_info)
            self.completed_at.append((t, b))
        if self._report is not None:
            self._report((t, self._env_ranks[b]), traj_info)

    def reset_waiting(self) -> None:
        """Reset environments between batches, where that was postponed."""
        on_done = self.on_done
        for b in np.flatnonzero(on_done.need_reset).tolist():
            Heartbeat.beat(self._heartbeat, self._env_ranks[b])
            with returned_by(self.envs[b], self._env_ranks[b]):
                on_done.hold(b, self.envs[b].reset())
        on_done.need_reset[:] = False
        self._heartbeat[Heartbeat.PLACE] = -1

    def _split(self) -> None:
        """List the environments to step, and those that wait."""
        waiting = self.on_done.waiting
        self._active = np.flatnonzero(~waiting).tolist()
        self._waiting = np.flatnonzero(waiting).tolist()


def heartbeat_of(sync: Any) -> Any:
    """Return the values of this process's heartbeat, or a list in its place if nobody watches."""
    is_watched = sync is not None and "heartbeat" in sync
    return sync["heartbeat"].values if is_watched else list(Heartbeat.IDLE)


# --- Who acts -----------------------------------------------------------------------------------


class Actions:
    """Base class of action sources, for the environments of a collector.

    Args:
        collector: collector of training or evaluation.
        inputs: first inputs of an agent in this process.
        null_action: action that precedes an episode.
        noise: random numbers for acting in this process; None for torch's global generator.
        may_stop: whether a server may end the loop, as it may in evaluation.

    Attributes:
        inputs: next inputs of the agent, numpy buffers [B,...], which the loop writes in place.
        done: [B], whether the last step ended an episode of the learner.
    """

    inputs: AgentInputs
    done: BoolArray

    def __init__(
        self,
        collector: Any,
        inputs: AgentInputs,
        null_action: Nested,
        noise: ActingNoise | None = None,
        may_stop: bool = False,
    ) -> None:
        raise NotImplementedError

    def choose(self) -> tuple[Nested, Nested] | None:
        """Return action [B,...], numpy, and agent_info [B,...], or None to stop."""
        raise NotImplementedError

    def advance(self, action: Nested, over: Sequence[int], waiting: Sequence[int] = ()) -> None:
        """Make ``action`` the previous one.

        Environments ``over`` begin an episode, those of them that wait with the next batch.
        """

    def finish(self, bootstrap_value: Nested = None, waiting: Sequence[int] = ()) -> None:
        """Begin an episode where environments wait, and write the agent's value [1,B].

        The value is that of the inputs after the last step; it is written if it is recorded.
        """


class LocalActions(Actions):
    """Actions of an agent in this process, which reads torch views of the numpy inputs."""

    def __init__(
        self,
        collector: Any,
        inputs: AgentInputs,
        null_action: Nested,
        noise: ActingNoise | None = None,
        may_stop: bool = False,
    ) -> None:
        self.agent: AgentLike = collector.agent
        self.inputs = inputs
        self.done = np.zeros(len(inputs.prev_reward), dtype=bool)
        self._inputs_pyt = torchify_buffer(inputs)
        self._prev_action = rows_of(inputs.prev_action)
        self._null_action = null_action
        self._noise = nullcontext() if noise is None else noise

    def choose(self) -> tuple[Nested, Nested]:
        with self._noise:
            action, agent_info = self.agent.step(*self._inputs_pyt)
        # Environments get copies, which they may change or keep.
        if type(action) is torch.Tensor:
            self._chosen = action.numpy()
            return self._chosen.copy(), agent_info
        self._chosen = numpify_buffer(action)
        return map_buffer(np.copy, self._chosen), agent_info

    def advance(self, action: Nested, over: Sequence[int], waiting: Sequence[int] = ()) -> None:
        self._prev_action[:] = self._chosen
        for b in over:
            self.inputs.prev_action[b] = self._null_action
            self.inputs.prev_reward[b] = 0
            if b not in waiting:
                self.agent.reset_one(b)

    def finish(self, bootstrap_value: Nested = None, waiting: Sequence[int] = ()) -> None:
        for b in waiting:  # Once for each episode.
            self.agent.reset_one(b)
        if bootstrap_value is not None:
            bootstrap_value[:] = numpify_buffer(self.agent.value(*self._inputs_pyt))


# --- What follows the end of an episode ---------------------------------------------------------


class EndRule:
    """Base class of the rules for the end of an episode.

    Args:
        envs: B environments.
        inputs: inputs of the agent.

    Attributes:
        waiting: [B], environments that are not stepped.
        need_reset: [B], environments to reset between batches.
        held: [B,...], observations from which waiting environments continue.
    """

    held: Nested = None

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        self._envs, self._inputs = envs, inputs
        self.waiting: BoolArray = np.zeros(len(envs), dtype=bool)
        self.need_reset: BoolArray = np.zeros(len(envs), dtype=bool)

    def begin_batch(self) -> None:
        """Release the environments that waited for this batch."""

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        """Return the agent's next input after the last ``observation`` of an episode."""
        raise NotImplementedError

    def hold(self, b: int, observation: Nested) -> None:
        """Keep the first ``observation`` of the next batch, where an environment waits for it."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments whose reset waits for the next batch."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""


class ResetNow(EndRule):
    """Rule that resets a finished environment at once: the next row is a new episode."""

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        return self._envs[b].reset() if traj_done else observation


class HoldUntilBatchEnd(EndRule):
    """Rule that lets a finished environment wait; the rest of its batch is blank, ``done`` True.

    Where only the learner's episode ended (a lost life), the environment continues in the next
    batch from the observation that was held back.
    """

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        super().__init__(envs, inputs)
        self._blank = buffer_from_example(inputs.observation[0], 1)[0]
        self.held = buffer_from_example(inputs.observation[0], len(envs))
        self._held_rows = observation_rows(self.held, 1)

    def begin_batch(self) -> None:
        for b in np.flatnonzero(self.waiting):
            self._inputs.observation[b] = self.held[b]
        self.waiting[:] = False

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        self.waiting[b] = True
        self.need_reset[b] = traj_done
        if not traj_done:
            self.hold(b, observation)
        return self._blank

    def hold(self, b: int, observation: Nested) -> None:
        self._held_rows[b] = observation

    def state_dict(self) -> dict[str, Any]:
        return {"waiting": self.waiting, "need_reset": self.need_reset, "held": self.held}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.waiting[:] = state["waiting"]
        self.need_reset[:] = state["need_reset"]
        self.held[:] = state["held"]

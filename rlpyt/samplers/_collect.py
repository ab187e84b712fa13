"""The one loop in which environments are stepped, and the choices which collectors make about it.

actions    who acts: the agent in this process, or (later) a server over shared memory
on_done    what follows the end of an episode: reset at once, or hold until the batch ends
sink       where steps are recorded: a sampler batch, or nowhere (evaluation)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.samplers.collectors import DecorrelatingStartCollector
from rlpyt.utils.buffer import buffer_from_example, numpify_buffer, torchify_buffer
from rlpyt.utils.types import BoolArray, NDArray, Nested


class LocalActions:
    """The agent acts in this process, on torch views of the numpy inputs."""

    def __init__(self, agent: Any, inputs: AgentInputs) -> None:
        self.agent = agent
        self.inputs = inputs
        self._inputs_pyt = torchify_buffer(inputs)

    def choose(self) -> tuple[Nested, Nested]:
        """Return numpy action and agent_info, [B,...] each."""
        action, agent_info = self.agent.step(*self._inputs_pyt)
        return numpify_buffer(action), numpify_buffer(agent_info)

    def forget(self, b: int) -> None:
        """Start environment ``b`` of the agent anew."""
        self.agent.reset_one(b)

    def value(self) -> NDArray:
        """Return the agent's value [B] of its present inputs, without advancing its state."""
        value: NDArray = numpify_buffer(self.agent.value(*self._inputs_pyt))
        return value


class ResetNow:
    """A finished environment is reset at once: the next row of the batch is a new episode."""

    mid_batch_reset = True

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs) -> None:
        self._envs = envs
        self.waiting: BoolArray = np.zeros(len(envs), dtype=bool)

    def begin_batch(self) -> None:
        """Nothing was put off."""

    def next_observation(self, b: int, observation: Nested, done: bool, traj_done: bool) -> Nested:
        """Return what the agent sees next, given what ``step`` returned."""
        return self._envs[b].reset() if traj_done else observation

    def reset_if_needed(self, actions: LocalActions) -> None:
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

    def next_observation(self, b: int, observation: Nested, done: bool, traj_done: bool) -> Nested:
        """Return what the agent sees next, given what ``step`` returned."""
        if not (done or traj_done):
            return observation
        self.waiting[b] = True
        self._need_reset[b] = traj_done
        self._held[b] = observation
        return 0

    def reset_if_needed(self, actions: LocalActions) -> None:
        """Reset the environments whose trajectory ended."""
        for b in np.flatnonzero(self._need_reset).tolist():
            self._held[b] = self._envs[b].reset()
            actions.forget(b)
        self._need_reset[:] = False

    def state_dict(self) -> dict[str, Any]:
        """Return who waits, for what, and with which observation."""
        return {"waiting": self.waiting, "need_reset": self._need_reset, "held": self._held}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` returned."""
        self.waiting[:] = state["waiting"]
        self._need_reset[:] = state["need_reset"]
        self._held[:] = state["held"]


class BatchSink:
    """Records steps in a sampler batch [T,B,...]."""

    def __init__(self, samples_np: Nested) -> None:
        self._agent, self._env = samples_np.agent, samples_np.env
        self._agent_info = _or_none(self._agent.agent_info)
        self._env_info = _or_none(self._env.env_info)
        self._next_observation = getattr(self._env, "next_observation", None)

    def begin(self, inputs: AgentInputs) -> None:
        """Record what precedes the first row; later rows follow from the overlapping views."""
        self._agent.prev_action[0] = inputs.prev_action
        self._env.prev_reward[0] = inputs.prev_reward

    def observe(self, t: int, observation: Nested) -> None:
        """Record what the agent sees."""
        self._env.observation[t] = observation

    def stepped(self, t: int, b: int, observation: Nested, env_info: Nested) -> None:
        """Record what one environment returned."""
        if self._env_info is not None:
            try:
                self._env_info[t, b] = env_info
            except Exception as error:
                raise ValueError(
                    f"env_info of environment {b} does not fit its buffer ({error}): it was "
                    f"{env_info!r}; every step must return the fields, shapes and dtypes of the "
                    "first one (for a gym environment, declare them with info_example)"
                ) from error
        if self._next_observation is not None:
            self._next_observation[t, b] = observation

    def record(
        self, t: int, action: Nested, agent_info: Nested, reward: NDArray, done: BoolArray
    ) -> None:
        """Record one row of all environments."""
        self._agent.action[t] = action
        self._env.reward[t] = reward
        self._env.done[t] = done
        if self._agent_info is not None:
            self._agent_info[t] = agent_info

    def blank(self, t: int, waiting: BoolArray) -> None:
        """Make the row of waiting environments zeros, with ``done`` True."""
        self._agent.action[t, waiting] = 0
        self._env.reward[t, waiting] = 0
        self._env.done[t, waiting] = True
        if self._agent_info is not None:
            self._agent_info[t, waiting] = 0
        if self._env_info is not None:
            self._env_info[t, waiting] = 0
        if self._next_observation is not None:
            self._next_observation[t, waiting] = 0

    def bootstrap(self, value: Callable[[], NDArray]) -> None:
        """Record the value after the last row, if the batch has room for it."""
        if "bootstrap_value" in self._agent._fields:
            self._agent.bootstrap_value[:] = value()


def _or_none(infos: Nested) -> Nested:
    """``infos`` if it is a record with fields, which there is something to write into."""
    return infos if isinstance(infos, tuple) and infos else None


class NoSink:
    """Records nothing: an evaluation keeps trajectories only."""

    def begin(self, inputs: AgentInputs) -> None: ...

    def observe(self, t: int, observation: Nested) -> None: ...

    def stepped(self, t: int, b: int, observation: Nested, env_info: Nested) -> None: ...

    def record(
        self, t: int, action: Nested, agent_info: Nested, reward: NDArray, done: BoolArray
    ) -> None: ...

    def blank(self, t: int, waiting: BoolArray) -> None: ...

    def bootstrap(self, value: Callable[[], NDArray]) -> None: ...


def never(completed: list[Any]) -> bool:
    """Do not stop before the last step."""
    return False


class StepLoop:
    """Steps environments, keeps their trajectories and the agent's inputs.

    Args:
        envs: B environments.
        inputs: the agent's next inputs, numpy buffers [B,...] which are written in place.
        traj_infos: the B running trajectories; finished ones are replaced in place.
        TrajInfoCls: makes new ones.
        actions: who acts.
        on_done: what follows the end of an episode.
        sink: where steps are recorded.
    """

    def __init__(
        self,
        envs: Sequence[Any],
        inputs: AgentInputs,
        traj_infos: list[Any],
        TrajInfoCls: Any,
        actions: LocalActions,
        on_done: ResetNow | HoldUntilBatchEnd,
        sink: BatchSink | NoSink,
    ) -> None:
        self.envs = envs
        self.inputs = inputs
        self.traj_infos = traj_infos
        self.TrajInfoCls = TrajInfoCls
        self.actions = actions
        self.on_done = on_done
        self.sink = sink
        self._null_action = envs[0].action_space.null_value()
        self._reward: NDArray = np.zeros(len(envs), dtype="float32")
        self._done: BoolArray = np.zeros(len(envs), dtype=bool)

    def run(self, n_steps: int, stop: Callable[[list[Any]], bool] = never) -> list[Any]:
        """Take ``n_steps`` steps in every environment, or fewer if ``stop(completed)``.

        Returns:
            The trajectory infos which were completed.
        """
        inputs, on_done, sink = self.inputs, self.on_done, self.sink
        prev_reward: Any = inputs.prev_reward
        completed: list[Any] = []
        on_done.begin_batch()
        sink.begin(inputs)
        for t in range(n_steps):
            sink.observe(t, inputs.observation)
            action, agent_info = self.actions.choose()
            waited = on_done.waiting.copy()
            for b in range(len(self.envs)):
                if not waited[b]:
                    self._step_env(t, b, action, agent_info, completed)
            sink.record(t, action, agent_info, self._reward, self._done)
            if waited.any():
                sink.blank(t, waited)
            inputs.prev_action[:] = action
            prev_reward[:] = self._reward
            # After recording, since the recorded action may be the very array which is blanked.
            for b in np.flatnonzero(self._done | on_done.waiting).tolist():
                inputs.prev_action[b] = self._null_action
                prev_reward[b] = 0
                self.actions.forget(b)
            if stop(completed):
                break
        sink.bootstrap(self.actions.value)
        return completed

    def _step_env(
        self, t: int, b: int, action: Nested, agent_info: Nested, completed: list[Any]
    ) -> None:
        observation, reward, done, env_info = self.envs[b].step(action[b])
        if reward != reward:
            raise ValueError(
                f"environment {b} ({type(self.envs[b]).__name__}) returned reward {reward} for "
                f"action {action[b]}: mend the environment, or clip the action"
            )
        traj_info = self.traj_infos[b]
        info = agent_info[b] if agent_info else agent_info
        traj_info.step(self.inputs.observation[b], action[b], reward, done, info, env_info)
        # ``done`` ends the episode of the learner; a trajectory may go on (lost lives in Atari).
        traj_done = getattr(env_info, "traj_done", done)
        self.sink.stepped(t, b, observation, env_info)
        if traj_done:
            completed.append(traj_info.terminate(observation))
            self.traj_infos[b] = self.TrajInfoCls()
        seen = self.on_done.next_observation(b, observation, done, traj_done)
        try:
            self.inputs.observation[b] = seen
        except Exception as error:
            raise ValueError(
                f"the observation of environment {b} ({type(self.envs[b]).__name__}) does not fit "
                f"its buffer ({error}): every observation must have the shape and fields of the "
                "first one"
            ) from error
        self._reward[b] = reward
        self._done[b] = done


class LoopCollector(DecorrelatingStartCollector):
    """Collects batches in the one step loop; subclasses name their choices."""

    actions: type[LocalActions]
    on_done: type[ResetNow] | type[HoldUntilBatchEnd]

    _loop: StepLoop | None = None
    _loop_parts: tuple[Any, ...] = ()
    _put_off: dict[str, Any] = {}

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: list[Any], itr: int
    ) -> tuple[AgentInputs, list[Any], list[Any]]:
        """Fill the batch.

        Args:
            agent_inputs: numpy buffers [B,...], written in place.
            traj_infos: of the B running trajectories, written in place.
            itr: the runner's iteration.

        Returns:
            The same two, and the list of completed trajectory infos.
        """
        self.agent.sample_mode(itr)
        loop = self._loop_over(agent_inputs, traj_infos)
        return agent_inputs, traj_infos, loop.run(self.batch_T)

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        """Reset environments between batches, where that was put off."""
        if self._loop is not None:
            self._loop.on_done.reset_if_needed(self._loop.actions)

    def state_dict(self) -> dict[str, Any]:
        """Return what was put off to the next batch."""
        return self._put_off if self._loop is None else self._loop.on_done.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state`` with the next batch."""
        self._loop, self._put_off = None, state

    def _loop_over(self, agent_inputs: AgentInputs, traj_infos: list[Any]) -> StepLoop:
        """The loop over these objects; made once, since its views of them serve every batch."""
        parts = (agent_inputs, traj_infos, self.samples_np, self.envs, self.agent, self.TrajInfoCls)
        if self._loop is None or any(a is not b for a, b in zip(parts, self._loop_parts)):
            put_off = self.state_dict()
            self._loop_parts = parts
            self._loop = StepLoop(
                self.envs,
                agent_inputs,
                traj_infos,
                self.TrajInfoCls,
                self.actions(self.agent, agent_inputs),
                self.on_done(self.envs, agent_inputs),
                BatchSink(self.samples_np),
            )
            if put_off:
                self._loop.on_done.load_state_dict(put_off)
        return self._loop

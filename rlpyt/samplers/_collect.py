"""The one loop in which environments are stepped, and the choices which collectors make about it.

actions    who acts: the agent in this process, or a server over shared memory
on_done    what follows the end of an episode: reset at once, or hold until the batch ends
sink       where steps are recorded: a sampler batch, or nowhere (evaluation)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs, TrajInfo
from rlpyt.samplers._actions import LocalActions as LocalActions
from rlpyt.samplers._actions import ServedActions as ServedActions
from rlpyt.samplers._resets import HoldUntilBatchEnd as HoldUntilBatchEnd
from rlpyt.samplers._resets import ResetNow as ResetNow
from rlpyt.samplers._resets import ResetUntilQuota
from rlpyt.samplers._rows import Rows
from rlpyt.samplers._sinks import BatchSink as BatchSink
from rlpyt.samplers._sinks import NoSink as NoSink
from rlpyt.samplers.collectors import (
    BaseEvalCollector,
    DecorrelatingStartCollector,
    null_inputs,
    reset_all,
    signs_of,
)
from rlpyt.utils._pool import LifeSign
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
        signs: values of the :class:`~rlpyt.utils._pool.LifeSign` of this process.
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


# --- Collectors -----------------------------------------------------------------------------------


class LoopCollector(DecorrelatingStartCollector):
    """Collects batches in the one step loop; subclasses name their choices.

    Attributes:
        completed_at: time step and index of the environment of each trajectory completed in the
            last batch.
    """

    actions: type[LocalActions] | type[ServedActions]
    on_done: type[ResetNow] | type[HoldUntilBatchEnd]

    _loop: StepLoop | None = None
    _loop_parts: tuple[Any, ...] = ()
    _sinks: tuple[tuple[Any, BatchSink], ...] = ()
    _put_off: dict[str, Any] = {}

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: list[Any], itr: int
    ) -> tuple[AgentInputs, list[Any], list[Any]]:
        """Fill the batch.

        Args:
            agent_inputs: numpy buffers [B,...], written in place; unused if actions are served.
            traj_infos: of the B running trajectories, written in place.
            itr: the runner's iteration.

        Returns:
            The same two, and the list of completed trajectory infos.
        """
        if self.agent is not None:
            self.agent.sample_mode(itr)
        loop = self._loop_over(agent_inputs, traj_infos)
        completed = loop.run(self.batch_T, self._sink(loop.inputs))
        self.completed_at = loop.completed_at
        return agent_inputs, traj_infos, completed

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        """Reset environments between batches, where that was put off."""
        if self._loop is not None:
            self._loop.on_done.reset_if_needed()

    def state_dict(self) -> dict[str, Any]:
        """Return what was put off to the next batch."""
        return self._put_off if self._loop is None else self._loop.on_done.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state`` with the next batch."""
        self._loop, self._put_off = None, state

    def _loop_over(self, agent_inputs: AgentInputs, traj_infos: list[Any]) -> StepLoop:
        """The loop over these objects; made once, since its views of them serve every batch."""
        parts = (agent_inputs, traj_infos, self.envs, self.agent, self.TrajInfoCls)
        if self._loop is None or any(a is not b for a, b in zip(parts, self._loop_parts)):
            put_off = self.state_dict()
            self._loop_parts, self._sinks = parts, ()
            actions = self.actions.of(self, agent_inputs)
            self._loop = StepLoop(
                self.envs,
                traj_infos,
                self.TrajInfoCls,
                actions,
                self.on_done(self.envs, actions.inputs),
                signs_of(self.sync),
                self.env_ranks,
            )
            if put_off:
                self._loop.on_done.load_state_dict(put_off)
        return self._loop

    def _sink(self, inputs: AgentInputs) -> BatchSink:
        """For the buffer of the moment: there are two in asynchronous sampling."""
        for samples_np, sink in self._sinks:
            if samples_np is self.samples_np:
                return sink
        sink = BatchSink(self.samples_np, inputs)
        self._sinks = (*self._sinks[-1:], (self.samples_np, sink))
        return sink


class LoopEvalCollector(BaseEvalCollector):
    """Evaluates in the one step loop, in environments which are reset before each evaluation.

    Attributes:
        quota: number of trajectories each environment shall complete; None for no such number, and
            then all count which are complete after ``max_T`` steps.
        env_ranks: index of each environment among all of the evaluation.
    """

    actions: type[LocalActions] | type[ServedActions]

    quota: Sequence[int] | None = None
    env_ranks: Sequence[int] | None = None

    def run_evaluation(self, itr: int) -> list[Any]:
        """Reset everything, then step until the end; return the completed trajectory infos."""
        signs = signs_of(self.sync)
        inputs = null_inputs(self.envs, reset_all(self.envs, signs, self.env_ranks))
        if self.agent is not None:
            # The mode first: leaving sample mode, a recurrent agent puts its state aside.
            self.agent.eval_mode(itr)
            self.agent.reset()
        actions = self.actions.of(self, inputs)
        if actions.inputs is not inputs:
            for buffer, start in zip(actions.inputs, inputs):
                buffer[:] = start
        actions.done[:] = False
        if self.quota is None:
            on_done = ResetNow(self.envs, inputs)
        else:
            on_done = ResetUntilQuota(self.envs, inputs, self.quota)
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        loop = StepLoop(
            self.envs,
            traj_infos,
            self.TrajInfoCls,
            actions,
            on_done,
            signs,
            self.env_ranks,
        )
        self._n_completed = 0
        n_steps = sys.maxsize if self.max_T is None else self.max_T
        return loop.run(
            n_steps, NoSink(), stop=lambda: self.is_enough(on_done), report=self._count_and_report
        )

    def is_enough(self, on_done: ResetNow) -> bool:
        """Whether to stop before ``max_T``; asked after every step."""
        return bool(on_done.waiting.all())

    def report(self, place: tuple[int, int], traj_info: Any) -> None:
        """Tell others about a completed trajectory at once.

        Args:
            place: its last time step, and the index of its environment in the evaluation.
            traj_info: of the trajectory.
        """

    def _count_and_report(self, place: tuple[int, int], traj_info: Any) -> None:
        self._n_completed += 1
        t, b = place
        self.report((t, b if self.env_ranks is None else self.env_ranks[b]), traj_info)

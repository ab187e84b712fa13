"""Collectors in the one step loop: subclasses name their choices, and have no loop of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._actions import LocalActions, ServedActions
from rlpyt.samplers._collect import StepLoop
from rlpyt.samplers._resets import HoldUntilBatchEnd, ResetNow, ResetUntilQuota
from rlpyt.samplers._sinks import BatchSink, NoSink
from rlpyt.samplers._starts import null_inputs, reset_all, signs_of
from rlpyt.samplers.collectors import BaseEvalCollector, DecorrelatingStartCollector


class LoopCollector(DecorrelatingStartCollector):
    """Collects batches in the one step loop; subclasses name their choices."""

    actions: type[LocalActions] | type[ServedActions]
    on_done: type[ResetNow] | type[HoldUntilBatchEnd]

    _loop: StepLoop | None = None
    _loop_parts: tuple[Any, ...] = ()
    _sinks: tuple[tuple[Any, BatchSink], ...] = ()
    _put_off: dict[str, Any] = {}
    _completed: Sequence[tuple[Any, tuple[int, int]]] = ()

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
        self._completed = list(zip(completed, loop.completed_at))
        return agent_inputs, traj_infos, completed

    def place_of(self, traj_info: Any) -> tuple[int, int] | None:
        """Time step and index of the environment where a trajectory of the last batch ended.

        Returns:
            None for trajectory infos which a subclass made by itself.
        """
        return next((place for info, place in self._completed if info is traj_info), None)

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        """Reset environments between batches, where that was put off."""
        if self._loop is not None:
            self._loop.reset_if_needed()

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
        observations = reset_all(self.envs, signs, self.env_ranks)
        inputs = null_inputs(self.envs, observations, self.env_ranks)
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

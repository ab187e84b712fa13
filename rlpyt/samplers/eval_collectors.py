"""Evaluation: its collectors, and when it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._batch_writer import NoSink
from rlpyt.samplers._step_loop import (
    LocalActions,
    ResetNow,
    ServedActions,
    StepLoop,
    reset_all,
    signs_of,
)
from rlpyt.samplers.buffer import null_inputs
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class BaseEvalCollector:
    """Steps its environments to evaluate the agent; records trajectories only.

    Args:
        rank: of the process.
        envs: evaluation environments.
        TrajInfoCls: of the trajectories.
        traj_infos_queue: to send completed ones to.
        max_T: time steps of one evaluation; None for no limit.
        agent: if it acts in this process.
        sync: semaphores and flags.
        step_buffer_np: [B,...] shared with an action server.
    """

    envs: Sequence[Any]
    TrajInfoCls: Any
    max_T: int | None
    agent: Any
    sync: Any
    step_buffer_np: Nested
    traj_infos_queue: Any

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        TrajInfoCls: Any,
        traj_infos_queue: Any,
        max_T: int | None,
        agent: Any = None,
        sync: Any = None,
        step_buffer_np: Nested = None,
    ) -> None:
        save__init__args(locals())

    def collect_evaluation(self, itr: int) -> Any:
        """Run one evaluation."""
        raise NotImplementedError


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
        actions = self.actions.of(self, inputs, may_stop=True)
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


class ResetUntilQuota(ResetNow):
    """Every environment completes the number of trajectories it was given, then waits for good.

    Which trajectories count is settled before the first step, so short ones are not favoured.

    Args:
        envs: the environments.
        inputs: of the agent.
        quota: number of trajectories of each environment.
    """

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs, quota: Sequence[int]) -> None:
        super().__init__(envs, inputs)
        self._left = list(quota)
        self.waiting[:] = [n == 0 for n in quota]

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        if traj_done:
            self._left[b] -= 1
            if self._left[b] == 0:
                self.waiting[b] = True
                return observation
        return super().next_observation(b, observation, traj_done)

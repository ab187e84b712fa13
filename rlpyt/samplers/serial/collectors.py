"""Evaluation in the process of the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.core.protocols import AgentLike
from rlpyt.samplers._step_loop import LocalActions, StepLoop
from rlpyt.samplers.eval_collectors import LoopEvalCollector
from rlpyt.utils.logging import logger


class SerialEvalCollector(LoopEvalCollector):
    """Evaluation collector, which resets its environments before each evaluation.

    Args:
        envs: evaluation environments.
        agent: agent that acts in this process.
        TrajInfoCls: class of the trajectory infos.
        max_T: number of time steps in one evaluation; None for no limit.
        max_trajectories: number of completed trajectories after which an evaluation ends.
    """

    kind = "local evaluation"
    actions = LocalActions

    def __init__(
        self,
        envs: Sequence[Any],
        agent: AgentLike,
        TrajInfoCls: Any,
        max_T: int | None,
        max_trajectories: int | None = None,
    ) -> None:
        super().__init__(0, envs, TrajInfoCls, None, max_T, agent)
        self.max_trajectories = max_trajectories

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos.

        Incomplete trajectories are left out, which favours short episodes if ``max_T`` is small;
        with ``max_trajectories``, those that complete first are returned. With a ``quota``, the
        trajectories that count are settled before the first step.
        """
        completed = self.run_evaluation(itr)
        at_limit = ", the limit" if self._is_limited(len(completed)) else ""
        logger.log(f"Evaluation ended with {len(completed)} trajectories{at_limit}.")
        return completed

    def is_enough(self, loop: StepLoop) -> bool:
        return self._is_limited(len(loop.completed)) or super().is_enough(loop)

    def _is_limited(self, n_completed: int) -> bool:
        limit = self.max_trajectories if self.quota is None else sum(self.quota)
        return limit is not None and n_completed >= limit

"""Evaluation in the process of the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.samplers._step_loop import LocalActions, ResetNow
from rlpyt.samplers.eval_collectors import LoopEvalCollector
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args


class SerialEvalCollector(LoopEvalCollector):
    """Evaluates the agent in environments which are reset before each evaluation.

    Args:
        envs: evaluation environments.
        agent: acts in this process.
        TrajInfoCls: of the trajectories.
        max_T: time steps of one evaluation; None for no limit.
        max_trajectories: ends the evaluation after the step at which so many were completed.
    """

    actions = LocalActions
    sync = step_buffer_np = traj_infos_queue = None

    max_trajectories: int | None

    def __init__(
        self,
        envs: Sequence[Any],
        agent: Any,
        TrajInfoCls: Any,
        max_T: int | None,
        max_trajectories: int | None = None,
    ) -> None:
        save__init__args(locals())

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos.

        Incomplete trajectories are left out, which favours short episodes if ``max_T`` is small;
        with ``max_trajectories``, those which complete first are returned. With a ``quota`` it was
        settled before which ones count.
        """
        completed = self.run_evaluation(itr)
        limit = "trajectories" if self._is_limited() else "time steps"
        logger.log(f"Evaluation ended at its limit of {limit}: {len(completed)} trajectories.")
        return completed

    def is_enough(self, on_done: ResetNow) -> bool:
        return self._is_limited() or super().is_enough(on_done)

    def _is_limited(self) -> bool:
        limit = self.max_trajectories if self.quota is None else sum(self.quota)
        return limit is not None and self._n_completed >= limit

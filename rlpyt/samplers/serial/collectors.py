"""Evaluation in the process of the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.samplers._collect import LocalActions, NoSink, ResetNow, StepLoop
from rlpyt.samplers.collectors import BaseEvalCollector, null_inputs
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args


class SerialEvalCollector(BaseEvalCollector):
    """Evaluates the agent in environments which are reset before each evaluation.

    Args:
        envs: evaluation environments.
        agent: acts in this process.
        TrajInfoCls: of the trajectories.
        max_T: time steps of one evaluation.
        max_trajectories: ends the evaluation after the step at which so many were completed.
    """

    max_trajectories: int | None

    def __init__(
        self,
        envs: Sequence[Any],
        agent: Any,
        TrajInfoCls: Any,
        max_T: int,
        max_trajectories: int | None = None,
    ) -> None:
        save__init__args(locals())

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos.

        Incomplete trajectories are left out, which favours short episodes if ``max_T`` is small;
        with ``max_trajectories``, those which complete first are returned.
        """
        inputs = null_inputs(self.envs, [env.reset() for env in self.envs])
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        # The mode first: leaving sample mode, a recurrent agent puts its state aside.
        self.agent.eval_mode(itr)
        self.agent.reset()
        loop = StepLoop(
            self.envs,
            inputs,
            traj_infos,
            self.TrajInfoCls,
            LocalActions(self.agent, inputs),
            ResetNow(self.envs, inputs),
            NoSink(),
        )
        completed = loop.run(self.max_T, stop=self._enough)
        limit = "trajectories" if self._enough(completed) else "time steps"
        logger.log(f"Evaluation ended at its limit of {limit}: {len(completed)} trajectories.")
        return completed

    def _enough(self, completed: list[Any]) -> bool:
        return self.max_trajectories is not None and len(completed) >= self.max_trajectories

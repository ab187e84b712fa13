"""Who chooses actions for the workers of a sampler: mixins which differ in groups and overlap."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rlpyt.samplers._serve import Group, serve
from rlpyt.samplers._workers import TrajInfoQueue
from rlpyt.utils.types import Nested

EVAL_TRAJ_CHECK = 20  # Unused: the number of trajectories is looked at in every step.


class _ServerBase:
    """Serves groups of workers, which the sampler names in ``training_groups`` and the like."""

    _overlap = True

    agent: Any
    batch_spec: Any
    samples_np: Nested
    sync: Any
    eval_max_T: int | None
    eval_max_trajectories: int | None
    eval_n_episodes: int | None
    eval_traj_infos_queue: TrajInfoQueue

    def training_groups(self) -> Sequence[Group]:
        """The groups of workers, in the order of their environments."""
        raise NotImplementedError

    def evaluation_groups(self) -> Sequence[Group]:
        """Likewise for evaluation."""
        raise NotImplementedError

    def bootstrap_values(self) -> Sequence[Any]:
        """For each group, the part of the batch for its bootstrap values [B], or None."""
        raise NotImplementedError

    def serve_actions(self, itr: int) -> None:
        """Choose the actions of one batch."""
        groups = self.training_groups()
        serve(groups, self.batch_spec.T, self._overlap)
        for group, bootstrap_value in zip(groups, self.bootstrap_values()):
            group.finish(bootstrap_value)
            if len(groups) > 1:
                self.agent.toggle_alt()

    def serve_actions_evaluation(self, itr: int) -> list[Any]:
        """Choose the actions of one evaluation, until its limit of steps or trajectories.

        Returns:
            An empty list: all trajectory infos are in the queue.
        """
        self.agent.reset()
        groups = self.evaluation_groups()
        n_steps = sys.maxsize if self.eval_max_T is None else self.eval_max_T
        if serve(groups, n_steps, self._overlap, stop=self._limit_is_reached()):
            self.sync.stop_eval.value = True
            for group in groups:
                group.release_actions()
        for group in groups:
            group.await_observations()
            group.finish()
        return []

    def _limit_is_reached(self) -> Any:
        """What is asked before each step, or None if there is no limit but that of steps."""
        limit = self.eval_max_trajectories or self.eval_n_episodes
        queue, before = self.eval_traj_infos_queue, self.eval_traj_infos_queue.n_infos
        return None if limit is None else lambda: queue.n_infos - before >= limit


class ActionServer(_ServerBase):
    """All environments step, then actions are chosen for all of them."""


class AlternatingActionServer(_ServerBase):
    """Actions are chosen for one half of the environments while the other half steps."""


class NoOverlapAlternatingActionServer(_ServerBase):
    """The same, but a half begins to step only after the other half has finished."""

    _overlap = False

"""Two halves of the environments in turn: one steps while the agent acts for the other."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.base import check_recurrence
from rlpyt.samplers.parallel.gpu.action_server import (
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class AlternatingSamplerBase(GpuSamplerBase):
    """Serves the workers in two halves; the first half has the first half of the batch.

    ``batch_B``, ``eval_n_envs`` and the number of workers have to be even. A recurrent agent has to
    be of the alternating kind, which keeps one state for each half.

    Args as of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.

    Attributes:
        half_B: environments of a half.
        obs_ready_pair, act_ready_pair: semaphores of the workers of each half.
        step_buffer_np_pair, agent_inputs_pair: of each half.
        bootstrap_value_pair: parts of the batch [B/2], if the batch has them.
        eval_...: likewise for evaluation.
    """

    alternating = True

    _n_groups = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("batch_B", "eval_n_envs"):
            number = self.batch_spec.B if name == "batch_B" else self.eval_n_envs
            if number % 2:
                raise ValueError(
                    f"{name} is {number}: alternating sampling steps two halves, so choose an even "
                    "number"
                )

    def initialize(self, agent: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As of the parent class.

        Raises:
            TypeError: for a recurrent agent with a single state.
            ValueError: also if the number of workers is odd.
        """
        self._require_alternating(agent)
        return super().initialize(agent, *args, **kwargs)

    def _require_alternating(self, agent: Any) -> None:
        check_recurrence(self, agent)
        agent.alternating = True

    def _get_n_envs_list(
        self, affinity: Any = None, n_worker: int | None = None, B: int | None = None
    ) -> list[int]:
        """Number of environments of each worker; both halves have the same."""
        return super()._get_n_envs_list(affinity, n_worker, B)

    def _make_groups(self) -> None:
        super()._make_groups()
        self._make_alternating_pairs()

    def _make_alternating_pairs(self) -> None:
        """Name what belongs to each half."""
        self.half_B = self._specs[-1].stop // 2
        parts: list[tuple[Any, ...]] = [("", self._groups, self._specs, self.step_buffer_np)]
        if self.eval_n_envs > 0:
            parts.append(("eval_", self._eval_groups, self.eval_specs, self.eval_step_buffer_np))
        for prefix, groups, specs, step_buffer_np in parts:
            columns = self._group_columns(specs)
            pairs = dict(
                obs_ready_pair=[group.obs_ready for group in groups],
                act_ready_pair=[group.act_ready for group in groups],
                step_buffer_np_pair=[step_buffer_np[part] for part in columns],
                agent_inputs_pair=[group.agent_inputs for group in groups],
            )
            for name, pair in pairs.items():
                setattr(self, prefix + name, tuple(pair))
        self.bootstrap_value_pair = tuple(self.bootstrap_values())


class AlternatingSampler(AlternatingActionServer, AlternatingSamplerBase):
    """A half steps as soon as its actions are chosen."""


class NoOverlapAlternatingSampler(NoOverlapAlternatingActionServer, AlternatingSamplerBase):
    """A half steps only after the other half has finished to."""

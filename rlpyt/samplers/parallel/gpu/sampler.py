"""Workers which only step environments; the agent acts here, for all of them in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._serve import Group
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.action_server import ActionServer, _ServerBase
from rlpyt.samplers.parallel.gpu.collectors import (
    GpuEvalCollector as GpuEvalCollector,
    GpuResetCollector as GpuResetCollector,
)
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.collections import AttrDict, record
from rlpyt.utils.processes.primitives import Semaphore
from rlpyt.utils.types import Array, Nested


@record
class StepBuffer(NamedTuple):
    """What workers and action server exchange in every step."""

    observation: Nested  # [B,...]
    action: Nested  # [B,...], of the last step
    reward: Array  # [B] float32, likewise
    done: Array  # [B] bool, likewise
    agent_info: Nested  # [B,...]


class GpuSamplerBase(_ServerBase, ParallelSamplerBase):
    """Shares a step buffer with the workers; the agent may be on a GPU or on the CPU.

    Args as of :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.

    Attributes:
        step_buffer_np: what is exchanged in a step, [B,...].
        step_buffer_pyt: the same memory as torch tensors.
        agent_inputs: those of them which the agent acts on.
        eval_step_buffer_np, eval_step_buffer_pyt, eval_agent_inputs: likewise for evaluation.
        sync: also ``obs_ready`` and ``act_ready``, lists with a semaphore for each worker.
    """

    gpu = True

    _fitting_collectors = (GpuResetCollector, GpuEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = GpuResetCollector,
        eval_CollectorCls: Any = GpuEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)

    # --- Work ----------------------------------------------------------------------------------

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch, choosing the actions here."""
        batch = super().obtain_samples(itr)
        for group in self.training_groups():
            group.require_drained()
        return batch

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation, choosing the actions here."""
        traj_infos = super().evaluate_agent(itr)
        for group in self.evaluation_groups():
            group.require_drained()
        return traj_infos

    def _prepare_agent(self, itr: int, to_evaluate: bool) -> None:
        if to_evaluate:
            self.agent.eval_mode(itr)
        else:
            self.agent.sample_mode(itr)

    def _during_batch(self, itr: int) -> None:
        self.serve_actions(itr)

    def _during_evaluation(self, itr: int) -> list[Any]:
        return list(self.serve_actions_evaluation(itr) or ())  # Users' servers drain the queue.

    def training_groups(self) -> Sequence[Group]:
        return self._groups

    def evaluation_groups(self) -> Sequence[Group]:
        return self._eval_groups

    def bootstrap_values(self) -> Sequence[Any]:
        value = getattr(self.samples_np.agent, "bootstrap_value", None)
        columns = self._group_columns(self._specs)
        return [None if value is None else value[0, part] for part in columns]

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every worker, and of the agent here."""
        return {**super().state_dict(), "agent": self.agent.sample_state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.agent.load_sample_state_dict(state["agent"])

    # --- Hooks -----------------------------------------------------------------------------------

    def _agent_init(
        self, agent: Any, env: Any, global_B: int = 1, env_ranks: list[int] | None = None
    ) -> None:
        """Initialize the agent, which stays in this process."""
        agent.initialize(env.spaces, share_memory=False, global_B=global_B, env_ranks=env_ranks)
        self.agent = agent

    def _build_buffers(self, env: Any, bootstrap_value: bool) -> dict[str, Any]:
        examples = super()._build_buffers(env, bootstrap_value)
        self._null_action = env.action_space.null_value()  # Also where users call only the hooks.
        self._build_step_buffers(examples, self.batch_spec.B, self.eval_n_envs)
        return examples

    def _build_step_buffers(self, examples: dict[str, Any], B: int, n_eval_envs: int) -> None:
        """Make what is shared in every step, for the environments which are served here."""
        self.step_buffer_pyt, self.step_buffer_np = build_step_buffer(examples, B)
        self.agent_inputs = _inputs(self.step_buffer_pyt)
        if self.eval_n_envs > 0:
            buffers = build_step_buffer(examples, n_eval_envs)
            self.eval_step_buffer_pyt, self.eval_step_buffer_np = buffers
            self.eval_agent_inputs = _inputs(self.eval_step_buffer_pyt)

    def _build_parallel_ctrl(self, n_worker: int) -> None:
        super()._build_parallel_ctrl(n_worker)
        pool = self._pool
        self.sync.obs_ready = [Semaphore(pool, released_by=rank) for rank in range(n_worker)]
        self.sync.act_ready = [Semaphore(pool) for _ in range(n_worker)]

    def _assemble_common_kwargs(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        common_kwargs = super()._assemble_common_kwargs(*args, **kwargs)
        common_kwargs["agent"] = None
        return common_kwargs

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: Sequence[int]
    ) -> list[dict[str, Any]]:
        workers_kwargs = super()._assemble_workers_kwargs(affinity, seed, n_envs_list)
        self._specs = self._worker_specs(n_envs_list)
        for spec, worker_kwargs in zip(self._specs, workers_kwargs):
            worker_kwargs["sync"] = AttrDict(
                **worker_kwargs["sync"],
                obs_ready=self.sync.obs_ready[spec.rank],
                act_ready=self.sync.act_ready[spec.rank],
            )
            worker_kwargs["step_buffer_np"] = self.step_buffer_np[spec.columns]
            if self.eval_n_envs > 0:
                columns = self.eval_specs[spec.rank].columns
                worker_kwargs["eval_step_buffer_np"] = self.eval_step_buffer_np[columns]
        self._make_groups()
        return workers_kwargs

    def _make_groups(self) -> None:
        self._groups = self._groups_of(self._specs, self.step_buffer_np, self.agent_inputs)
        if self.eval_n_envs > 0:
            self._eval_groups = self._groups_of(
                self.eval_specs, self.eval_step_buffer_np, self.eval_agent_inputs
            )

    def _groups_of(
        self, specs: Sequence[Any], step_buffer_np: Nested, agent_inputs: Nested
    ) -> list[Group]:
        groups = []
        for number, columns in enumerate(self._group_columns(specs)):
            ranks = [spec.rank for spec in specs if spec.group == number and spec.n_envs]
            groups.append(
                Group(
                    self.agent,
                    [self.sync.obs_ready[rank] for rank in ranks],
                    [self.sync.act_ready[rank] for rank in ranks],
                    step_buffer_np[columns],
                    agent_inputs[columns],
                    self._null_action,
                )
            )
        return groups

    def _group_columns(self, specs: Sequence[Any]) -> list[slice]:
        """The environments of each group."""
        size = specs[-1].stop // self._n_groups
        return [slice(i * size, (i + 1) * size) for i in range(self._n_groups)]


class GpuSampler(ActionServer, GpuSamplerBase):
    """All environments step, then the agent acts for all of them; on a GPU, or on the CPU."""


def build_step_buffer(examples: dict[str, Any], B: int) -> tuple[Nested, Nested]:
    """Make a shared step buffer.

    Args:
        examples: as of :func:`~rlpyt.samplers.buffer.build_samples_buffer`.
        B: environments.

    Returns:
        The buffer as torch tensors, and the same memory as numpy arrays.
    """
    step_buffer_np: Nested = StepBuffer(
        **{name: buffer_from_example(examples[name], B, share_memory=True) for name in _FIELDS}
    )
    return torchify_buffer(step_buffer_np), step_buffer_np


_FIELDS = ("observation", "action", "reward", "done", "agent_info")


def _inputs(step_buffer_pyt: Nested) -> AgentInputs:
    step = step_buffer_pyt
    return AgentInputs(step.observation, step.action, step.reward)

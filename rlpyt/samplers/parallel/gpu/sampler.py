"""Samplers whose workers only step environments; the agent acts for all of them in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rlpyt.core.protocols import AgentLike, EnvLike
from rlpyt.core.records import AgentInputs
from rlpyt.processes.primitives import Semaphore
from rlpyt.processes.supervisor import Supervisor
from rlpyt.samplers.parallel._division import worker_specs
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    Group,
    NoOverlapAlternatingActionServer,
    Served,
    connect_workers,
    serve_again,
)
from rlpyt.samplers.parallel.gpu.collectors import (
    GpuEvalCollector as GpuEvalCollector,
    GpuResetCollector as GpuResetCollector,
)
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.collections import record
from rlpyt.utils.types import Array, Nested


@record
class StepBuffer(NamedTuple):
    """Arrays that workers and action server exchange in every step."""

    observation: Nested  # [B,...]
    action: Nested  # [B,...], of the last step
    reward: Array  # [B] float32, of the last step
    done: Array  # [B] bool, of the last step
    agent_info: Nested  # [B,...]


class GpuSamplerBase(ParallelSamplerBase):
    """Base class of samplers that share a step buffer with their workers.

    The agent may be on a GPU or on the CPU. An action server from
    :mod:`~rlpyt.samplers.parallel.gpu.action_server` stands first among the bases. The arguments
    are as for :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.

    Attributes:
        step_buffer_np: arrays exchanged in a step, [B,...].
        step_buffer_pyt: torch tensors in the memory of ``step_buffer_np``.
        agent_inputs: inputs of the agent among these tensors.
        eval_step_buffer_np, eval_step_buffer_pyt, eval_agent_inputs: buffers of evaluation.
        groups, eval_groups: workers that are served together.
        sync: flag ``stop_eval``; ``obs_ready`` and ``act_ready``, with a semaphore for each worker.
    """

    gpu = True

    null_action: Nested
    step_buffer_np: Nested
    step_buffer_pyt: Nested
    agent_inputs: Nested
    groups: list[Group]
    eval_step_buffer_np: Nested
    eval_step_buffer_pyt: Nested
    eval_agent_inputs: Nested
    eval_groups: list[Group]

    _stops_evaluation = False
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

    # --- Work -------------------------------------------------------------------------------------

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch, choosing the actions here."""
        batch = super().obtain_samples(itr)
        for group in self.groups:
            group.require_drained()
        return batch

    def _evaluate_once(self, itr: int) -> list[Any]:
        traj_infos = super()._evaluate_once(itr)
        for group in self.eval_groups:
            group.require_drained()
        return traj_infos

    def serve_actions(self, itr: int) -> None:
        """Choose the actions of one batch; implemented by the action server."""
        raise NotImplementedError

    def serve_actions_evaluation(self, itr: int) -> list[Any]:
        """Choose the actions of one evaluation; implemented by the action server."""
        raise NotImplementedError

    def stop_evaluation(self) -> None:
        self._stops_evaluation = True  # The server stops all workers at the same step.

    def _prepare_agent(self, itr: int, to_evaluate: bool) -> None:
        if to_evaluate:
            self.agent.eval_mode(itr)
        else:
            self.agent.sample_mode(itr)

    def _during_batch(self, itr: int) -> None:
        self.serve_actions(itr)

    def _collect_again(self, itr: int) -> None:
        serve_again(self, self._workers.present_columns(), lambda: self.serve_actions(itr))

    def _during_evaluation(self, itr: int) -> list[Any]:
        return list(self.serve_actions_evaluation(itr) or ())  # Users' servers drain the queue.

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every worker, and of the agent and its random numbers here."""
        noises = [group.noise.state_dict() for group in self.groups]
        agent = self.agent.sample_state_dict()
        return {**super().state_dict(), "agent": agent, "acting_noise": noises}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.agent.load_sample_state_dict(state["agent"])
        lost = self.envs_without_state(state)
        if lost:
            self.agent.sample_mode(0)
        for group in self.groups:
            group.reset_agent(lost)
            if len(self.groups) > 1:
                self.agent.toggle_alt()
        for group, noise in zip(self.groups, state["acting_noise"]):
            group.noise.load_state_dict(noise)

    # --- Hooks of the start -----------------------------------------------------------------------

    def _needs_equal_shares(self, worker_process: Any) -> bool:
        servers = (ActionServer, NoOverlapAlternatingActionServer)
        own = type(self).serve_actions_evaluation
        is_ours = own in [server.serve_actions_evaluation for server in servers]
        return super()._needs_equal_shares(worker_process) or not is_ours

    def _agent_init(
        self, agent: AgentLike, env: EnvLike, global_B: int = 1, env_ranks: list[int] | None = None
    ) -> None:
        """Initialize the agent, which stays in this process."""
        agent.initialize(env.spaces, share_memory=False, global_B=global_B, env_ranks=env_ranks)
        self.agent = agent
        self.null_action = env.action_space.null_value()

    def _build_buffers(
        self, env: EnvLike, bootstrap_value: bool, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Make the shared batch and step buffers; pass further arguments to the next base class."""
        examples = super()._build_buffers(env, bootstrap_value, *args, **kwargs)
        add_step_buffers(self, examples, self.batch_spec.B, self.eval_n_envs)
        return examples

    def _build_parallel_ctrl(self, n_worker: int, *args: Any, **kwargs: Any) -> None:
        super()._build_parallel_ctrl(n_worker, *args, **kwargs)
        self.sync.update(step_semaphores(self._supervisor, n_worker))
        self._stops_evaluation = False

    def _assemble_common_kwargs(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**super()._assemble_common_kwargs(*args, **kwargs), "agent": None}

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: Sequence[int]
    ) -> list[dict[str, Any]]:
        workers_kwargs = super()._assemble_workers_kwargs(affinity, seed, n_envs_list)
        connect_workers(self, workers_kwargs, worker_specs(n_envs_list, self._n_groups))
        return workers_kwargs


class GpuSampler(ActionServer, GpuSamplerBase):
    """Sampler in which all environments step, then one agent acts for all, on a GPU or the CPU."""


def build_step_buffer(examples: dict[str, Any], B: int) -> tuple[Nested, Nested]:
    """Make a shared step buffer.

    Args:
        examples: examples from :func:`~rlpyt.samplers.buffer.build_samples_buffer`.
        B: number of environments.

    Returns:
        The buffer [B,...] as torch tensors, and as numpy arrays in the same memory.
    """
    step_buffer_np: Nested = StepBuffer._make(
        buffer_from_example(examples[name], B, share_memory=True) for name in StepBuffer._fields
    )
    return torchify_buffer(step_buffer_np), step_buffer_np


def add_step_buffers(sampler: Served, examples: dict[str, Any], B: int, n_eval_envs: int) -> None:
    """Make the step buffers of ``sampler``, for ``B`` environments and for evaluation."""
    sampler.step_buffer_pyt, sampler.step_buffer_np = build_step_buffer(examples, B)
    sampler.agent_inputs = _inputs(sampler.step_buffer_pyt)
    if sampler.eval_n_envs > 0:
        buffers = build_step_buffer(examples, n_eval_envs)
        sampler.eval_step_buffer_pyt, sampler.eval_step_buffer_np = buffers
        sampler.eval_agent_inputs = _inputs(sampler.eval_step_buffer_pyt)


def _inputs(step: Nested) -> AgentInputs:
    return AgentInputs(step.observation, step.action, step.reward)


def step_semaphores(supervisor: Supervisor, n_worker: int) -> dict[str, list[Semaphore]]:
    """Return the semaphores of each worker, for ``sync``."""
    return dict(
        obs_ready=[Semaphore(supervisor, released_by=rank) for rank in range(n_worker)],
        act_ready=[Semaphore(supervisor, acquired_by=rank) for rank in range(n_worker)],
    )

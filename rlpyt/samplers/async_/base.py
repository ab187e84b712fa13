"""Base classes of asynchronous samplers, which start in two processes and fill two batches.

:meth:`AsyncSamplerMixin.async_initialize` runs in the runner's process and makes everything
that is shared; ``initialize`` runs in the sampler's process and starts environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.processes.allocator import tune_allocator
from rlpyt.processes.launch import can_be_pinned, pin_process
from rlpyt.samplers._env_statistics import shared_statistics
from rlpyt.samplers.base import BaseSampler, configure_traj_infos, set_alternation
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import EnvStreams, make_seed, set_seed
from rlpyt.utils.shared_array import get_context, shared_memory_for
from rlpyt.utils.types import Nested


class AsyncSamplerMixin(BaseSampler):
    """Mixin with the shared half of an asynchronous sampler; list it first among the bases.

    Attributes:
        double_buffer: two batches [T,B,...], numpy.
        examples: examples from :func:`~rlpyt.samplers.buffer.build_samples_buffer`.
        seed: seed from which the seeds of the environments are derived.
    """

    start_method: str | None = None
    example_subprocess: bool | None = None
    samples_pyt: Nested = None  # The batches are read in another process.
    rank, world_size = 0, 1

    agent: AgentLike
    seed: int
    samples_np: Nested = None
    double_buffer: tuple[Nested, Nested]
    null_action: Nested
    examples: dict[str, Any]

    def async_initialize(
        self,
        agent: AgentLike,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> tuple[tuple[Nested, Nested], dict[str, Any]]:
        """Initialize the agent in shared memory, and make both batches; in the runner's process.

        Args:
            agent: agent to initialize with the spaces of the environments.
            bootstrap_value: whether to record the agent's value after the last step of a batch.
            traj_info_kwargs: attributes ``_<name>`` of ``TrajInfoCls`` to set in all processes.
            seed: seed of the environments; drawn if None.

        Returns:
            Both batches, and examples of what they hold.
        """
        set_alternation(self, agent)
        self.agent = agent
        self.seed = make_seed() if seed is None else seed
        self._bootstrap_value = bootstrap_value
        self._traj_info_kwargs = traj_info_kwargs or {}
        configure_traj_infos(self.TrajInfoCls, self._traj_info_kwargs)
        B = self.batch_spec.B
        start_method = get_context(self.start_method).get_start_method()
        subprocess = self.example_subprocess
        if subprocess is None:
            subprocess = start_method == "fork"
        with EnvStreams():
            env = self._example_env()
        with closing(env), shared_memory_for(start_method):
            agent.initialize(env.spaces, share_memory=True, global_B=B, env_ranks=list(range(B)))
            examples: dict[str, Any] = {}
            first, second = (
                build_samples_buffer(
                    agent,
                    env,
                    self.batch_spec,
                    bootstrap_value,
                    agent_shared=True,
                    env_shared=True,
                    subprocess=subprocess,
                    examples=examples,
                    next_observation=self.record_next_observation,
                )[1]
                for _ in range(2)
            )
            self._statistics = shared_statistics(env, B)
            self.null_action = env.action_space.null_value()
        self.double_buffer, self.samples_np, self.examples = (first, second), first, examples
        return self.double_buffer, examples

    def shared_state_dict(self) -> dict[str, Any]:
        """Return the state that the runner's process has: running statistics of environments."""
        return {} if self._statistics is None else {"statistics": self._statistics.rows.copy()}

    def load_shared_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the environments begin with the state of an earlier run, before they are made."""
        if self._statistics is not None and "statistics" in state:
            self._statistics.rows[:] = state["statistics"]


class AsyncParallelSamplerMixin(AsyncSamplerMixin, ParallelSamplerBase):
    """Mixin whose workers write into the free batch; list it first among the bases."""

    def obtain_samples(self, itr: int, db_idx: int = 0) -> Any:
        """Fill one batch.

        Args:
            itr: iteration of the sampler.
            db_idx: index of the batch to fill, 0 or 1.

        Returns:
            The infos of the completed trajectories.
        """
        self.sync.db_idx.value = db_idx
        _, traj_infos = super().obtain_samples(itr)
        return traj_infos


def prepare_sampler_process(affinity: Mapping[str, Any], seed: int, name: str = "Sampler") -> None:
    """Prepare a process that samples: CPUs, one torch thread, allocator, seed.

    Args:
        affinity: dictionary, optionally with ``master_cpus``, used unless ``set_affinity`` is
            False.
        seed: seed of the global random generators.
        name: name of the process in the log.

    Raises:
        ValueError: if the affinity is a list, which only samplers with action servers take.
    """
    if not isinstance(affinity, Mapping):
        raise ValueError(
            f"affinity['sampler'] is {affinity!r}: a list names action servers, which only "
            "AsyncGpuSampler and the alternating ones have; give one dictionary"
        )
    cpus = affinity.get("master_cpus")
    is_pinned = affinity.get("set_affinity", True) and can_be_pinned()
    if cpus is not None and is_pinned:
        pin_process(cpus)
    torch.set_num_threads(1)
    tune_allocator()
    set_seed(seed)
    logger.log(
        f"{name} process initialized, CPU affinity {cpus if is_pinned and cpus else 'not set'}."
    )

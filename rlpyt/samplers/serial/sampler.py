"""The simplest sampler, and the one to debug with: agent and environments in one process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs
from rlpyt.core.statistics import Statistics, continue_statistics, merged, statistics_of
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers._env_states import SamplingParts, envs_without_state
from rlpyt.samplers._env_statistics import give_statistics
from rlpyt.samplers.base import BaseSampler, configure_traj_infos, make_env, set_alternation
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import check_names
from rlpyt.utils.seed import EnvStreams, Purpose, env_seeds, set_envs_seeds
from rlpyt.utils.types import Nested


class Part(NamedTuple):
    """Part of a larger batch, which several serial samplers fill together."""

    env_ranks: Sequence[int]  # indexes of the environments over all processes
    eval_env_ranks: Sequence[int]
    global_B: int  # number of environments in all processes
    examples: dict[str, Any] | None = None  # of what the buffers hold; None to step for them


class SerialSampler(BaseSampler):
    """Sampler that steps environments one after the other, in the runner's process.

    Arguments as for :class:`~rlpyt.samplers.base.BaseSampler`.
    """

    agent: AgentLike
    agent_inputs: AgentInputs
    traj_infos: list[Any]
    collector: Any = None
    eval_collector: Any = None
    _open_envs: Sequence[Any] = ()  # Environments that are not closed yet.
    device: torch.device | None = None  # Device of the batch; None for the CPU, with numpy arrays.

    _fitting_collectors: tuple[Any, Any] = (CpuResetCollector, SerialEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = CpuResetCollector,
        eval_CollectorCls: Any = SerialEvalCollector,
        **kwargs: Any,
    ) -> None:
        check_names(type(self), kwargs)
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
        self._check_settings()

    @property
    def _all_envs(self) -> tuple[list[Any], list[Any]]:
        """The training and the evaluation environments."""
        training, evaluation = (
            [] if collector is None else list(collector.envs)
            for collector in (self.collector, self.eval_collector)
        )
        return training, evaluation

    def initialize(
        self,
        agent: AgentLike,
        affinity: Any = None,
        seed: int | None = None,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
        part: Part | None = None,
    ) -> dict[str, Any]:
        """Make environments and buffers, initialize the agent, and start both.

        Args:
            agent: agent, which is initialized with the spaces of the environments.
            affinity: not used; the runner sets the affinity of its process.
            seed: seed from which the environments' seeds are derived, by their indexes over all
                processes; None to leave environments as they were made.
            bootstrap_value: whether to record the agent's value after the last step of a batch.
            traj_info_kwargs: values of attributes ``_<name>`` of ``TrajInfoCls``.
            rank: index of this process among ``world_size``.
            world_size: number of processes that sample the same way.
            part: part of a larger batch that this sampler fills; None for the one that follows
                from ``rank`` and ``world_size``.

        Returns:
            Examples of the buffers' entries, see
            :func:`~rlpyt.samplers.buffer.build_samples_buffer`.
        """
        if self._open_envs:
            self.shutdown()
        set_alternation(self, agent)
        part = part or self._part_of_rank(rank, world_size)
        env_ranks = list(part.env_ranks)
        self.agent = agent
        self._streams = EnvStreams()
        with self._streams:
            envs = self._make_envs(seed, env_ranks)
        agent.initialize(
            envs[0].spaces, share_memory=False, global_B=part.global_B, env_ranks=env_ranks
        )
        statistics = [statistics_of(env) for env in envs]
        with self._streams:
            self.samples_pyt, self.samples_np, examples = build_samples_buffer(
                agent,
                envs[0],
                self.batch_spec,
                bootstrap_value,
                agent_shared=False,
                env_shared=False,
                subprocess=False,
                examples=part.examples or self._example_outputs(),
                next_observation=self.record_next_observation,
                device=self.device,
            )
            for env, before in zip(envs, statistics):  # The example step does not count.
                continue_statistics(env, before)
            configure_traj_infos(self.TrajInfoCls, traj_info_kwargs)
            self._start(envs, self.samples_np, seed, part)
        self._streams.settle()
        logger.log(f"{type(self).__name__} initialized.")
        return examples

    def _part_of_rank(self, rank: int = 0, world_size: int = 1) -> Part:
        """Return the part of one of several processes that sample the same way."""
        B, n = self.batch_spec.B, self.eval_n_envs
        of_evaluation = range(rank * n, (rank + 1) * n)
        return Part(range(rank * B, (rank + 1) * B), of_evaluation, B * world_size)

    @cached_property
    def _streams(self) -> EnvStreams:
        return EnvStreams()  # Of a subclass that does not call initialize() of this class.

    def _make_envs(self, seed: int | None, env_ranks: Sequence[int]) -> list[Any]:
        """Make the training environments, and seed them."""
        envs = self._make_one_by_one(self.env_kwargs, env_ranks)
        self._seed_envs(envs, env_seeds(seed, env_ranks))
        return envs

    def _make_one_by_one(self, env_kwargs: Any, env_ranks: Sequence[int]) -> list[Any]:
        """Make environments, so that :meth:`shutdown` finds those before one that fails."""
        for pair in enumerate(env_ranks):
            self._open_envs = [*self._open_envs, make_env(self.EnvCls, env_kwargs, *pair)]
        return list(self._open_envs[-len(env_ranks) :])

    def _seed_envs(self, envs: Sequence[Any], seeds: list[int] | None) -> None:
        set_envs_seeds(envs, seeds)

    def _example_outputs(self) -> dict[str, Any] | None:
        """Return examples of what the buffers hold; None to have them made by a step."""
        return None

    def _collected(self, envs: Sequence[Any]) -> Any:
        """Return what a collector is given as its environments."""
        return envs

    def _start(
        self,
        envs: Sequence[Any],
        samples_np: Nested,
        seed: int | None,
        part: Part | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the collectors (``kwargs`` for training), and start them and the agent."""
        part = part or self._part_of_rank()
        env_ranks = list(part.env_ranks)
        # Again, since the example step has drawn from the streams of the first environment.
        self._seed_envs(envs[:1], env_seeds(seed, env_ranks))
        self.collector = self.CollectorCls(
            rank=0,
            envs=self._collected(envs),
            samples_np=samples_np,
            batch_T=self.batch_spec.T,
            TrajInfoCls=self.TrajInfoCls,
            agent=self.agent,
            global_B=part.global_B,
            env_ranks=env_ranks,
            **kwargs,
        )
        if samples_np is not self.samples_np:  # Two batches, of which this is the first.
            self.collector.samples_np = self.samples_np
        self.collector.start_seed = seed
        self.collector.acting_noise = ActingNoise(seed, env_ranks)
        if self.eval_n_envs > 0:
            self._make_evaluation(seed, part.eval_env_ranks)
        self.agent_inputs, self.traj_infos = self.collector.start_envs(self.max_decorrelation_steps)
        self.collector.start_agent()

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch; see :meth:`BaseSampler.obtain_samples`."""
        self._check_started()
        with self._streams:
            self.agent_inputs, self.traj_infos, completed_infos = self.collector.collect_batch(
                self.agent_inputs, self.traj_infos, itr
            )
            self.collector.reset_if_needed(self.agent_inputs)
        return self.samples_pyt, completed_infos

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos.

        Raises:
            ValueError: if the sampler has no evaluation environments.
        """
        self._check_started(to_evaluate=True)
        give_statistics(self._all_envs[1], self.env_statistics())
        infos: list[Any] = self.eval_collector.collect_evaluation(itr)
        return infos

    def stop_evaluation(self) -> None:
        if self.eval_collector is not None:
            self.eval_collector.has_to_end = True

    def env_statistics(self) -> Statistics:
        if self._statistics is not None:  # An asynchronous sampler's.
            return super().env_statistics()
        return merged(map(statistics_of, self._all_envs[0]))

    def shutdown(self) -> None:
        """Close all environments."""
        envs, self._open_envs = self._open_envs, ()
        for env in envs:
            with suppress(Exception):  # As in workers; some have no such method.
                env.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, trajectories, collector and acting agent."""
        return {**self._parts_with_state().state_dict(), "streams": self._streams.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``; the sampler must be initialized with the same sizes.

        Raises:
            ValueError: if ``state`` has another number of environments.
        """
        for name, envs in zip(("envs", "eval_envs"), self._all_envs):
            if len(state[name]) != len(envs):
                raise ValueError(
                    f"the saved sampler had {len(state[name])} {name}, this one has {len(envs)}: "
                    "resume with the same batch_B and eval_n_envs"
                )
        self._parts_with_state().load_state_dict(state)
        self._load_streams(state)

    def _load_streams(self, state: dict[str, Any]) -> None:
        if "streams" in state:  # Not in checkpoints of earlier versions.
            self._streams.load_state_dict(state["streams"])

    def _parts_with_state(self) -> SamplingParts:
        inputs, agent = self.agent_inputs, self.agent
        return SamplingParts(*self._all_envs, inputs, self.traj_infos, self.collector, agent)

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        return envs_without_state(state["envs"])

    def _make_eval_envs(self, env_ranks: Sequence[int]) -> list[Any]:
        """Make the evaluation environments."""
        env_kwargs = self.env_kwargs if self.eval_env_kwargs is None else self.eval_env_kwargs
        return self._make_one_by_one(env_kwargs, env_ranks)

    def _make_evaluation(self, seed: int | None, env_ranks: Sequence[int]) -> None:
        envs = self._make_eval_envs(env_ranks)
        self._seed_envs(envs, env_seeds(seed, env_ranks, Purpose.EVAL_ENVIRONMENT))
        CollectorCls = self.eval_CollectorCls or self._fitting_collectors[1]
        self.eval_collector = CollectorCls(
            envs=self._collected(envs),
            agent=self.agent,
            TrajInfoCls=self.TrajInfoCls,
            max_T=self._eval_time_limit(),
            max_trajectories=self.eval_max_trajectories,
        )
        self.eval_collector.quota = self._eval_quota()
        self.eval_collector.env_ranks = env_ranks
        self.eval_collector.acting_noise = self.collector.acting_noise

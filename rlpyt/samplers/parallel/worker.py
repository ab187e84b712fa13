"""Worker processes of parallel samplers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from rlpyt.core.protocols import EnvLike
from rlpyt.core.statistics import statistics_of
from rlpyt.distributions.noise import ActingNoise
from rlpyt.processes.allocator import tune_allocator
from rlpyt.processes.child import Heartbeat, at_exit
from rlpyt.processes.launch import can_be_pinned, pin_process, use_batch_scheduling
from rlpyt.samplers._env_states import SamplingParts
from rlpyt.samplers._env_statistics import give_statistics
from rlpyt.samplers.base import configure_traj_infos, make_env
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.eval_collectors import LoopEvalCollector
from rlpyt.samplers.parallel._channels import GIVE_STATE, NOTHING, give_state, take_state
from rlpyt.samplers.parallel.old_arguments import complete_in_worker
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import (
    Purpose,
    env_seeds,
    evaluation_streams,
    rng_state,
    set_envs_seeds,
    set_rng_state,
    set_seed,
)


def initialize_worker(
    rank: int,
    seed: int | None = None,
    cpu: int | Sequence[int] | None = None,
    torch_threads: int | None = None,
) -> None:
    """Prepare the process: CPUs, scheduling, torch threads, allocator, seed.

    Args:
        rank: index of the worker, for the log.
        seed: seed of the global random generators; None to leave them.
        cpu: one or several CPUs to run on; None for all.
        torch_threads: number of torch threads; None for 1 if ``cpu`` is given, otherwise for
            torch's own choice.
    """
    affinity = "not set"
    if cpu is not None:
        affinity = "not available on this system"
        if can_be_pinned():
            cpus = [cpu] if isinstance(cpu, int) else [int(c) for c in cpu]
            pin_process(cpus)
            affinity = str(cpus)
    use_batch_scheduling()
    if torch_threads is not None or cpu is not None:
        torch.set_num_threads(torch_threads or 1)
    tune_allocator()
    if seed is not None:
        set_seed(seed)
    logger.log(
        f"Sampler worker {rank} initialized, CPU affinity {affinity}, "
        f"torch threads {torch.get_num_threads()}, seed {seed}."
    )


def sampling_process(common_kwargs: dict[str, Any], worker_kwargs: dict[str, Any]) -> None:
    """Make environments and collectors, and step them whenever the sampler has a task.

    Args:
        common_kwargs: arguments that are the same for all workers.
        worker_kwargs: arguments of this worker; of both, only those of rlpyt 0.1.2 are needed.
    """
    with logger.using(logger.Logger()):  # Files and other sinks are the sampler's.
        c, w = complete_in_worker(common_kwargs, worker_kwargs)
        if c.is_quiet:
            logger.disable()
        initialize_worker(w.rank, w.seed, w.cpus, c.torch_threads)
        worker = SamplingWorker(c, w)
        at_exit(worker.close)
        worker.start()
        while worker.serve_once():
            pass


class SamplingWorker:
    """Environments of one process, and the collectors that step them.

    Args:
        common: settings of all workers.
        own: settings of this worker.
    """

    def __init__(self, common: Any, own: Any) -> None:
        self.common, self.own = common, own
        self.envs: list[EnvLike] = []
        self.eval_envs: list[EnvLike] = []
        self.collector: Any = None
        self.eval_collector: Any = None
        self.agent_inputs: Any = None
        self.traj_infos: list[Any] = []
        self.heartbeat: Heartbeat = own.sync.heartbeat

    def start(self) -> None:
        """Make and start all environments, and wait for the sampler to begin."""
        c, w = self.common, self.own
        configure_traj_infos(c.TrajInfoCls, c.traj_info_kwargs)
        seeds = env_seeds(w.envs_seed, w.env_ranks)
        self._make_envs(self.envs, c.env_kwargs, w.first_env, w.env_ranks, seeds)
        if w.statistics is not None:
            w.statistics.continue_in(self.envs, w.columns)
        self.collector = c.CollectorCls(
            rank=w.rank,
            envs=self.envs,
            samples_np=w.samples_np,
            batch_T=c.batch_T,
            TrajInfoCls=c.TrajInfoCls,
            agent=c.agent,
            sync=w.sync,
            step_buffer_np=w.get("step_buffer_np"),
            global_B=c.global_B,
            env_ranks=w.env_ranks,
        )
        self._choose_batch()
        self.collector.start_seed = w.envs_seed
        is_served = c.agent is None
        self.collector.acting_noise = None if is_served else ActingNoise(w.envs_seed, w.env_ranks)
        if not is_served and "acting_noise" in c:
            self.collector.acting_noise.load_state_dict(c.acting_noise)
        self.agent_inputs, self.traj_infos = self.collector.start_envs(c.max_decorrelation_steps)
        self.collector.start_agent()
        self._publish_statistics()
        if w.n_eval_envs:
            self._make_evaluation()
        self.heartbeat.pause()
        c.ctrl.barrier_out.wait()

    def serve_once(self) -> bool:
        """Do one task of the sampler; return False if the task was to end."""
        ctrl = self.common.ctrl
        self.heartbeat.resume()
        self.collector.reset_if_needed(self.agent_inputs)
        self.heartbeat.pause()
        ctrl.barrier_in.wait()
        if ctrl.quit.value:
            return False
        self.heartbeat.resume()
        if ctrl.state_task.value != NOTHING:
            self._exchange_state(ctrl.state_task.value)
        elif not ctrl.do_eval.value:
            self._collect(ctrl.itr.value)
        elif self.eval_collector is not None:
            # How far it goes beyond its limit depends on timing; training must not depend on that.
            with evaluation_streams(ctrl.itr.value):
                if self.own.statistics is not None:
                    give_statistics(self.eval_envs, self.own.statistics.merged())
                self.eval_collector.collect_evaluation(ctrl.itr.value)
        else:  # As evaluation collectors do in the end: samplers of users count that.
            self.common.eval_traj_infos_queue.put(None)
        self.heartbeat.pause()
        ctrl.barrier_out.wait()
        return True

    def close(self) -> None:
        """Close all environments."""
        for env in (*self.envs, *self.eval_envs):
            with suppress(Exception):
                env.close()

    def _choose_batch(self) -> None:
        if self.own.get("double_buffer") is not None:
            self.collector.samples_np = self.own.double_buffer[self.own.sync.db_idx.value]

    def _collect(self, itr: int) -> None:
        self._choose_batch()
        self.agent_inputs, self.traj_infos, completed = self.collector.collect_batch(
            self.agent_inputs, self.traj_infos, itr
        )
        self._publish_statistics()
        ranks = self.own.env_ranks
        for info in completed:
            # A collector of the user, or an info it adds, may have no place.
            place = isinstance(self.collector, LoopCollector) and self.collector.place_of(info)
            t, b = place or (0, 0)
            self.common.traj_infos_queue.put(info, (t, ranks[b]))

    def _publish_statistics(self) -> None:
        if self.own.statistics is not None:
            self.own.statistics.write(map(statistics_of, self.envs), self.own.columns)

    def _make_envs(
        self, envs: list[EnvLike], env_kwargs: Any, first: int, env_ranks: Sequence[int], seeds: Any
    ) -> None:
        """Append environments one by one, so that :meth:`close` finds those that were made."""
        for index, env_rank in enumerate(env_ranks, start=first):
            Heartbeat.beat(self.heartbeat.values, env_rank)
            envs.append(make_env(self.common.EnvCls, env_kwargs, index, env_rank))
        for env, env_rank, seed in zip(envs, env_ranks, seeds):
            Heartbeat.beat(self.heartbeat.values, env_rank)  # Some are seeded by a reset.
            set_envs_seeds([env], [seed])
        Heartbeat.beat(self.heartbeat.values, -1)

    def _make_evaluation(self) -> None:
        c, w = self.common, self.own
        self._make_envs(
            self.eval_envs,
            c.eval_env_kwargs,
            w.first_eval_env,
            w.eval_env_ranks,
            env_seeds(w.envs_seed, w.eval_env_ranks, Purpose.EVAL_ENVIRONMENT),
        )
        self.eval_collector = c.eval_CollectorCls(
            rank=w.rank,
            envs=self.eval_envs,
            TrajInfoCls=c.TrajInfoCls,
            traj_infos_queue=c.eval_traj_infos_queue,
            max_T=c.eval_max_T,
            agent=c.agent,
            sync=w.sync,
            step_buffer_np=w.get("eval_step_buffer_np"),
        )
        if isinstance(self.eval_collector, LoopEvalCollector):
            self.eval_collector.env_ranks = w.eval_env_ranks
            self.eval_collector.quota = w.eval_quota
            self.eval_collector.acting_noise = self.collector.acting_noise

    # --- State ------------------------------------------------------------------------------------

    def _exchange_state(self, task: int) -> None:
        if task == GIVE_STATE:
            give_state(self.own.state_pipe, self.state_dict())
        else:
            self.load_state_dict(take_state(self.own.state_pipe))

    def _parts_with_state(self) -> SamplingParts:
        inputs = self.own.get("step_buffer_np")  # Of the next action, if that is served.
        inputs = self.agent_inputs if inputs is None else inputs
        envs, agent = (self.envs, self.eval_envs), self.common.agent
        return SamplingParts(*envs, inputs, self.traj_infos, self.collector, agent)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, trajectories, collector, agent and generators."""
        return {**self._parts_with_state().state_dict(), "rng": rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore ``state``."""
        self._parts_with_state().load_state_dict(state)
        self._publish_statistics()
        set_rng_state(state["rng"])

"""Samplers on a Ray cluster: the base of both, and the synchronous one."""

from __future__ import annotations

import inspect
import pickle
from contextlib import closing
from typing import Any

import numpy as np

from rlpyt.core.protocols import AgentLike
from rlpyt.core.statistics import Statistics, merged
from rlpyt.processes.supervisor import WorkerError as WorkerError
from rlpyt.samplers._env_states import envs_without_state
from rlpyt.samplers.base import BaseSampler, make_env, set_alternation
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel._division import (
    WorkerSpec,
    check_affinity,
    count_workers,
    n_envs_of_workers,
    split_envs,
    worker_specs,
)
from rlpyt.samplers.ray.actor import Assignment, Batch, Placed, exchanged, packed, parameters_of
from rlpyt.samplers.ray.actors import Actors
from rlpyt.samplers.ray.states import divided
from rlpyt.samplers.serial.sampler import Part, SerialSampler
from rlpyt.samplers.vector.sampler import FirstEnv, VectorSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import check_names
from rlpyt.utils.seed import EnvStreams, make_seed
from rlpyt.utils.types import Nested

_SETTINGS = tuple(inspect.signature(BaseSampler.__init__).parameters)[1:]


class RaySamplerBase(BaseSampler):
    """Base class of samplers whose environments are in Ray actors, each with an agent.

    The affinity has the number of actors, ``workers_cpus``. Further arguments are as for
    :class:`~rlpyt.samplers.base.BaseSampler`.

    Args:
        SamplerCls: class of the sampler in each actor: ``SerialSampler`` or ``VectorSampler``.
        address: address of the cluster, "auto" for the one that this machine is part of; None for
            ``RAY_ADDRESS``, or a cluster on this machine, which ends with the sampler. A program
            that has called ``ray.init`` stays in its cluster.
        cpus_per_actor: number of CPUs that Ray reserves for an actor, may be a fraction.
        worker_timeout_s: seconds after which an actor counts as hanging in a batch or an
            evaluation; None for no limit.
        on_worker_failure: "raise" to end the run with an error if an actor dies, raises or hangs;
            "restart" to let Ray restart it, with fresh episodes.
        max_restarts_per_hour: number of restarts in an hour; one more failure ends the run.
    """

    agent: AgentLike
    seed: int
    specs: list[WorkerSpec]
    eval_specs: list[WorkerSpec]
    _actors: Actors | None = None
    _restarted: set[int] = set()
    _bootstrap_value: bool
    _traj_info_kwargs: dict[str, Any]

    def __init__(
        self,
        *args: Any,
        SamplerCls: Any = SerialSampler,
        CollectorCls: Any = None,
        eval_CollectorCls: Any = None,
        address: str | None = None,
        cpus_per_actor: float = 1,
        worker_timeout_s: float | None = 300.0,
        on_worker_failure: str = "raise",
        max_restarts_per_hour: int = 10,
        **kwargs: Any,
    ) -> None:
        check_names(type(self), kwargs)
        self._fitting_collectors = SamplerCls._fitting_collectors
        CollectorCls = CollectorCls or self._fitting_collectors[0]
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
        if on_worker_failure not in ("raise", "restart"):
            raise ValueError(f"on_worker_failure is {on_worker_failure!r}: give raise or restart")
        if cpus_per_actor <= 0:
            raise ValueError(f"cpus_per_actor is {cpus_per_actor}: make it positive")
        self.SamplerCls = SamplerCls
        self.address = address
        self.cpus_per_actor = cpus_per_actor
        self.worker_timeout_s = worker_timeout_s
        self.on_worker_failure = on_worker_failure
        self.max_restarts_per_hour = max_restarts_per_hour
        self._check_settings()

    # --- Start ------------------------------------------------------------------------------------

    def _example_env(self, first: int = 0) -> Any:
        """Make one environment, to find out what the batches hold."""
        if not issubclass(self.SamplerCls, VectorSampler):
            return make_env(self.EnvCls, self.env_kwargs, 0, first)
        kwargs: Any = self.env_kwargs
        return FirstEnv(self.EnvCls(**{"num_envs": 1, **kwargs}))

    def _start(
        self, agent: bytes, affinity: Any, examples: dict[str, Any], rank: int = 0, n_ranks: int = 1
    ) -> None:
        """Start the actors, with copies of the packed ``agent`` that was not initialized yet."""
        # CPUs have numbers on one machine only.
        affinity = affinity and {**affinity, "set_affinity": False}
        check_affinity(affinity)
        B, n_eval = self.batch_spec.B, self.eval_n_envs
        self.specs = worker_specs(n_envs_of_workers(B, count_workers(affinity)))
        self.eval_specs = split_envs(n_eval, len(self.specs))
        quota = self._eval_quota()
        threads, is_quiet = max(1, int(self.cpus_per_actor)), logger.current().disabled
        start: dict[str, Any] = dict(
            agent=pickle.loads(agent),
            seed=self.seed,
            bootstrap_value=self._bootstrap_value,
            traj_info_kwargs=self._traj_info_kwargs,
        )
        assignments, labels = [], []
        for spec, eval_spec in zip(self.specs, self.eval_specs):
            ranks = range(rank * B + spec.start, rank * B + spec.stop)
            of_evaluation = rank * n_eval + eval_spec.start, rank * n_eval + eval_spec.stop
            start["part"] = Part(ranks, range(*of_evaluation), B * n_ranks, examples)
            own_quota = None if quota is None else quota[eval_spec.columns]
            settings = self._settings_of(spec, eval_spec)
            assignments.append(
                packed(Assignment(self.SamplerCls, settings, start, own_quota, threads, is_quiet))
            )
            labels.append(f"actor {spec.rank} (environments {ranks[0]} to {ranks[-1]})")
        restarts = self.max_restarts_per_hour if self.on_worker_failure == "restart" else None
        limits = self.worker_timeout_s, restarts
        self._actors = Actors(assignments, labels, self.address, self.cpus_per_actor, *limits)
        try:
            self._env_statistics = dict(self._actors.call("start", True))
        except BaseException:
            self.shutdown()
            raise
        self._forget_restarts()
        logger.log(f"{type(self).__name__} initialized with {len(self._actors)} actors.")

    def _settings_of(self, spec: WorkerSpec, eval_spec: WorkerSpec) -> dict[str, Any]:
        """Return the arguments of an actor's sampler."""
        env_kwargs: Any = self.env_kwargs
        eval_env_kwargs = env_kwargs if self.eval_env_kwargs is None else self.eval_env_kwargs
        if isinstance(env_kwargs, (list, tuple)):
            env_kwargs = env_kwargs[spec.columns]
        if isinstance(eval_env_kwargs, (list, tuple)):
            n_given, places = len(eval_env_kwargs), range(eval_spec.start, eval_spec.stop)
            eval_env_kwargs = [eval_env_kwargs[place % n_given] for place in places] or [{}]
        n, limit = eval_spec.n_envs, self._eval_time_limit() if self.eval_n_envs else None
        return {
            **{name: getattr(self, name) for name in _SETTINGS},
            "env_kwargs": env_kwargs,
            "batch_B": spec.n_envs,
            "eval_n_envs": n,
            "eval_env_kwargs": eval_env_kwargs,
            "eval_max_steps": None if limit is None else limit * n,
            # The quota of each environment is set afterwards; it may be 0.
            "eval_n_episodes": self.eval_n_episodes and max(1, n),
        }

    @property
    def actors(self) -> Actors:
        """The actors, between start and end."""
        if self._actors is None:
            raise ValueError("the sampler has no actors: initialize it, again after a shutdown")
        return self._actors

    # --- Work -------------------------------------------------------------------------------------

    def _receive(self, index: int, batch: Batch, samples_np: Nested, columns: slice) -> None:
        """Write what an actor returned into the columns of a batch."""
        for rows, leaf in zip(exchanged(samples_np), batch.leaves):
            np.copyto(rows[:, columns], leaf)
        self._env_statistics[index] = batch.statistics

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation in the actors, and return its trajectory infos.

        Raises:
            ValueError: if the sampler has no evaluation environments.
            WorkerError: if an actor fails.
        """
        self._check_started(to_evaluate=True)
        args = self.actors.put(parameters_of(self.agent)), itr, self.env_statistics()
        busy = [spec.rank for spec in self.eval_specs if spec.n_envs]
        results = self.actors.call("evaluate", *args, indexes=busy)
        placed = [each for _, own in results for each in own]
        limit = self.eval_max_trajectories
        times = sorted(t for (t, _), _ in placed)
        if limit is not None and len(times) >= limit:  # Of actors that are ahead, too many.
            placed = [each for each in placed if each[0][0] <= times[limit - 1]]
        limit = limit or self.eval_n_episodes
        at_limit = ", the limit" if limit is not None and len(placed) >= limit else ""
        logger.log(f"Evaluation ended with {len(placed)} trajectories{at_limit}.")
        return _in_order(placed)

    def stop_evaluation(self) -> None:
        if self._actors is not None:
            self._actors.has_to_stop = True

    def _forget_restarts(self) -> set[int]:
        """Return the actors that were restarted since the last call."""
        restarted, self.actors.restarted = self.actors.restarted, set()
        return restarted

    def take_restarted(self) -> list[int]:
        restarted, self._restarted = self._restarted, set()
        return sorted(restarted)

    def shutdown(self) -> None:
        """Close all environments and end the actors."""
        actors, self._actors = self._actors, None
        if actors is not None:
            actors.shutdown()


class RaySampler(RaySamplerBase):
    """Sampler whose environments are in Ray actors, on one machine or many.

    In each iteration the actors get the agent's parameters, and all fill their columns of the
    batch. For the same seed and parameters it is the batch of the serial sampler. The arguments are
    those of :class:`RaySamplerBase`.
    """

    def initialize(
        self,
        agent: AgentLike,
        affinity: Any = None,
        seed: int | None = None,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> dict[str, Any]:
        """Initialize the agent, make the batch, and start the actors; return the examples.

        Args:
            agent: agent, which is initialized with the spaces of the environments.
            affinity: mapping with ``workers_cpus``, the number of actors, or a list of this length.
            seed: seed from which those of environments are derived; drawn if None.
            bootstrap_value: whether to record the agent's value after the last step of a batch.
            traj_info_kwargs: attributes ``_<name>`` of ``TrajInfoCls``, set in all actors.
            rank: index of this process among ``world_size``.
            world_size: number of processes that sample the same way.

        Raises:
            ImportError: if Ray is not installed.
            ValueError: if the cluster has too few CPUs.
            WorkerError: if an actor fails while it starts.
        """
        self.shutdown()
        set_alternation(self, agent)
        self.seed = make_seed() if seed is None else seed
        self._bootstrap_value, self._traj_info_kwargs = bootstrap_value, traj_info_kwargs or {}
        self._n_steps, self._restarted = 0, set()
        copy_of_agent = packed(agent)
        B = self.batch_spec.B
        ranks = list(range(rank * B, (rank + 1) * B))
        streams = EnvStreams()
        with streams:
            env = self._example_env(ranks[0])
        with closing(env):
            agent.initialize(
                env.spaces, share_memory=False, global_B=B * world_size, env_ranks=ranks
            )
            with streams:
                self.samples_pyt, self.samples_np, examples = build_samples_buffer(
                    agent,
                    env,
                    self.batch_spec,
                    bootstrap_value,
                    agent_shared=False,
                    env_shared=False,
                    subprocess=False,
                    next_observation=self.record_next_observation,
                )
        self.agent = agent
        self._start(copy_of_agent, affinity, examples, rank, world_size)
        return examples

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch; see :meth:`~rlpyt.samplers.base.BaseSampler.obtain_samples`.

        Raises:
            WorkerError: if an actor fails.
        """
        args = self.actors.put(parameters_of(self.agent)), itr, self._n_steps
        placed: list[Placed] = []
        for index, batch in self.actors.call("collect", *args):
            self._receive(index, batch, self.samples_np, self.specs[index].columns)
            placed += batch.completed
        self._n_steps += self.batch_spec.T
        self._restarted = self._columns(self._forget_restarts())
        return self.samples_pyt, _in_order(placed)

    def env_statistics(self) -> Statistics:
        parts = sorted(self._env_statistics.items())
        return merged(statistics for _, part in parts for statistics in part)

    def _columns(self, actors: set[int]) -> set[int]:
        specs = [self.specs[index] for index in actors]
        return {column for spec in specs for column in range(spec.start, spec.stop)}

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every actor, and the columns just restarted."""
        states = dict(self.actors.call("state_dict"))
        restarted = sorted(self._columns(self.actors.restarted))
        return {"actors": [state for _, state in sorted(states.items())], "restarted": restarted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore ``state``, also with another number of actors.

        Raises:
            ValueError: if it has other numbers of environments, or vector environments that would
                have to be divided.
        """
        states = self._divided(state["actors"])
        for index, own in enumerate(states):
            self.actors.submit(index, "load_state_dict", own)
        self._env_statistics = dict(self.actors.next("load_state_dict") for _ in states)
        self._n_steps = states[0]["collector"]["acting_noise"]["step"]
        columns = set(state["restarted"])
        self.actors.restarted |= {
            spec.rank for spec in self.specs if columns & set(range(spec.start, spec.stop))
        }

    def _divided(self, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if any("env" in state for state in states):  # Vector environments.
            saved = [len(state["agent_inputs"]["prev_reward"]) for state in states]
            if saved != [spec.n_envs for spec in self.specs]:
                raise ValueError(
                    f"the saved sampler had actors with vector environments of {saved} parts, "
                    f"which cannot be divided into {[spec.n_envs for spec in self.specs]}: resume "
                    "with as many actors"
                )
            return states
        for name, n in (("envs", self.batch_spec.B), ("eval_envs", self.eval_n_envs)):
            n_saved = sum(len(state[name]) for state in states)
            if n_saved != n:
                raise ValueError(
                    f"the saved sampler had {n_saved} {name}, this one has {n}: resume with the "
                    "same batch_B and eval_n_envs"
                )
        shares = [(len(state["envs"]), len(state["eval_envs"])) for state in states]
        if shares == [(a.n_envs, b.n_envs) for a, b in zip(self.specs, self.eval_specs)]:
            return states
        return divided(states, self.specs, self.eval_specs)

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        envs: list[Any] = []
        for each in state["actors"]:
            n = len(each["agent_inputs"]["prev_reward"])
            envs += each["envs"] if "envs" in each else [each["env"]] * n
        return envs_without_state(envs)


def _in_order(placed: list[Placed]) -> list[Any]:
    """Return trajectory infos in the order of a serial sampler."""
    return [info for _, info in sorted(placed, key=lambda each: each[0])]

"""The sampler on a Ray cluster."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np

from rlpyt.core.protocols import AgentLike
from rlpyt.core.statistics import Statistics
from rlpyt.samplers._env_states import envs_without_state
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.parallel._division import WorkerSpec, split_envs, worker_specs
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.ray.actor import Batch, Placed, exchanged, packed, parameters_of
from rlpyt.samplers.ray.actors import Actors
from rlpyt.samplers.serial.sampler import Part, SerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, derived_seed

_SETTINGS = tuple(inspect.signature(BaseSampler.__init__).parameters)[1:]


class RaySampler(ParallelSamplerBase):
    """Sampler whose environments are in Ray actors, on one machine or many.

    In each iteration the actors get the agent's parameters, and all fill their columns of the
    batch. For the same seed and parameters it is the batch of the serial sampler. The affinity has
    the number of actors, ``workers_cpus``. Further arguments are as for
    :class:`~rlpyt.samplers.parallel.base.ParallelSamplerBase`.

    Args:
        SamplerCls: class of the sampler in each actor: ``SerialSampler`` or ``VectorSampler``.
        address: address of the cluster, "auto" for the one that this machine is part of; None for
            ``RAY_ADDRESS``, or a cluster on this machine, which ends with the sampler. A program
            that has called ``ray.init`` stays in its cluster.
        cpus_per_actor: number of CPUs that Ray reserves for an actor, may be a fraction.

    Raises:
        ImportError: from ``initialize``, if Ray is not installed.
        ValueError: from ``initialize``, if there is no cluster, or it has too few CPUs.
    """

    _actors: Any = None  # Between start and end.

    def __init__(
        self,
        *args: Any,
        SamplerCls: Any = SerialSampler,
        CollectorCls: Any = None,
        address: str | None = None,
        cpus_per_actor: float = 1,
        **kwargs: Any,
    ) -> None:
        if cpus_per_actor <= 0:
            raise ValueError(f"cpus_per_actor is {cpus_per_actor}: make it positive")
        self.SamplerCls, self.address, self.cpus_per_actor = SamplerCls, address, cpus_per_actor
        self._fitting_collectors = SamplerCls._fitting_collectors
        CollectorCls = CollectorCls or self._fitting_collectors[0]
        super().__init__(*args, CollectorCls=CollectorCls, **kwargs)

    # --- Start ------------------------------------------------------------------------------------

    def _example_env(self, first: int = 0) -> Any:
        return self.SamplerCls._example_env(self, first)

    def _agent_init(self, agent: AgentLike, *args: Any, **kwargs: Any) -> None:
        self._agent_for_actors = packed(agent)
        super()._agent_init(agent, *args, **kwargs)

    def _start(self, affinity: Any, n_envs_list: Any, global_B: int, *worker: Any) -> None:
        """Start the actors, with copies of the agent from before it was initialized."""
        self.shutdown()
        self._restarted, self._global_B, self.n_worker = set(), global_B, len(n_envs_list)
        self.specs = worker_specs(n_envs_list)
        self.eval_specs = split_envs(self.eval_n_envs, self.n_worker)
        assignments = dict(map(self._assignment, self.specs, self.eval_specs))
        restarts = self.max_restarts_per_hour if self.on_worker_failure == "restart" else 0
        place = self.address, self.cpus_per_actor
        self._actors = Actors(assignments, *place, self.worker_timeout_s, restarts)
        for index, statistics in self._actors.statistics:
            self._write_statistics(index, statistics)

    def _assignment(self, spec: WorkerSpec, eval_spec: WorkerSpec) -> tuple[str, bytes]:
        """Return the name of an actor for errors, and what it is made from, packed."""
        first, eval_first = self.rank * self.batch_spec.B, self.rank * self.eval_n_envs
        ranks = range(first + spec.start, first + spec.stop)
        eval_ranks = range(eval_first + eval_spec.start, eval_first + eval_spec.stop)
        quota, limit = self._eval_quota(), self.eval_max_steps
        n_episodes = None if quota is None else sum(quota[eval_spec.columns])
        n_eval = 0 if n_episodes == 0 else eval_spec.n_envs
        eval_env_kwargs = self.env_kwargs if self.eval_env_kwargs is None else self.eval_env_kwargs
        settings = {
            **{name: getattr(self, name) for name in _SETTINGS},
            "batch_B": spec.n_envs,
            "env_kwargs": _by_rank(self.env_kwargs, first),
            "eval_n_envs": n_eval,
            "eval_env_kwargs": _by_rank(eval_env_kwargs, eval_first),
            "eval_max_steps": limit and limit // max(1, self.eval_n_envs) * n_eval,
            "eval_n_episodes": n_episodes or None,
        }
        start = {
            "agent": pickle.loads(self._agent_for_actors),
            "seed": self.seed,
            "bootstrap_value": "bootstrap_value" in self.samples_np.agent._fields,
            "traj_info_kwargs": self._traj_info_kwargs,
            "part": Part(ranks, eval_ranks, self._global_B, self.examples),
        }
        name = f"actor {spec.rank} (environments {ranks[0]} to {ranks[-1]})"
        assignment = {
            "sampler": self.SamplerCls(**settings),
            "start": start,
            "agent_state": self.agent.sample_state_dict(),  # Such as the seed of noisy layers.
            "rank": spec.rank,
            "seed": derived_seed(self.seed, Purpose.WORKER, spec.rank),
            "torch_threads": max(1, int(self.cpus_per_actor)),
            "is_quiet": logger.current().disabled,
        }
        return name, packed(assignment)

    def _check_started(self, to_evaluate: bool = False) -> None:
        BaseSampler._check_started(self, to_evaluate)
        if self._actors is None:
            raise ValueError("the sampler has been shut down: initialize it again")

    # --- Work -------------------------------------------------------------------------------------

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        self._check_started()
        placed: list[Placed] = []
        for index, batch in self._actors.call("collect", self._parameters(), itr):
            self._receive(index, batch, self.samples_np, self.specs[index].columns)
            placed += batch.completed
        self._restarted = self._columns_of(self._actors.take_restarted())
        return self.samples_pyt, [info for _, info in sorted(placed, key=itemgetter(0))]

    def _parameters(self) -> Any:
        """Return a reference to the parameters, which are in the object store once for all."""
        return self._actors.put(parameters_of(self.agent))

    def _receive(self, index: int, batch: Batch, samples_np: Any, columns: slice) -> None:
        """Write what an actor returned into the columns of a batch."""
        for rows, leaf in zip(exchanged(samples_np), batch.leaves):
            np.copyto(rows[:, columns], leaf)
        self._write_statistics(index, batch.statistics)

    def _write_statistics(self, index: int, statistics: list[Statistics]) -> None:
        if self._statistics is not None:
            self._statistics.write(statistics, self.specs[index].columns)

    def _columns_of(self, actors: Iterable[int]) -> set[int]:
        specs = [self.specs[index] for index in actors]
        return {column for spec in specs for column in range(spec.start, spec.stop)}

    def _evaluate(self, itr: int) -> list[Any]:
        results = self._actors.call("evaluate", self._parameters(), itr, self.env_statistics())
        placed = sorted((each for _, own in results for each in own), key=itemgetter(0))
        limit = self.eval_max_trajectories
        if limit is not None and len(placed) >= limit:  # Of actors that are ahead, too many.
            placed = [each for each in placed if each[0][0] <= placed[limit - 1][0][0]]
        return [info for _, info in placed]

    def stop_evaluation(self) -> None:
        if self._actors is not None:
            self._actors.has_to_stop = True

    def shutdown(self) -> None:
        """Close all environments and end the actors."""
        actors, self._actors = self._actors, None
        if actors is not None:
            actors.shutdown()

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Fetch and return the state of every actor; add the columns just restarted."""
        self._check_started()
        states = dict(self._actors.call("state_dict"))
        restarted = sorted(self._columns_of(self._actors.restarted))
        return {"workers": [states[index] for index in sorted(states)], "restarted": restarted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore ``state``, with as many actors as the saved sampler had.

        Raises:
            WorkerError: if it has other numbers of environments.
        """
        self._check_started()
        states, columns = state["workers"], state["restarted"]
        if len(states) != self.n_worker:
            logger.log(f"The saved run had {len(states)} actors, which are started now.")
            self._start(None, self._get_n_envs_list(n_worker=len(states)), self._global_B)
        for index, own in enumerate(states):
            self._actors.submit(index, "load_state_dict", own)
        for _ in states:
            self._write_statistics(*self._actors.next("load_state_dict"))
        self._actors.restarted |= {spec.rank for spec in self.specs if spec.start in columns}

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        envs: list[Any] = []
        for own in state["workers"]:
            n = len(own["agent_inputs"]["prev_reward"])
            envs += own["envs"] if "envs" in own else [own["env"]] * n
        return envs_without_state(envs)


def _by_rank(env_kwargs: Any, first: int) -> Any:
    """Return a list of arguments as a function of an index over all processes."""
    is_list = isinstance(env_kwargs, (list, tuple))
    return (lambda rank: env_kwargs[(rank - first) % len(env_kwargs)]) if is_list else env_kwargs

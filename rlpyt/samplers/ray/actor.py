"""The actor, which has a sampler over its part of the batch, and what it exchanges by Ray."""

from __future__ import annotations

import ctypes
import io
import pickle
from collections.abc import Sequence
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.statistics import Statistics, statistics_of
from rlpyt.processes.allocator import tune_allocator
from rlpyt.processes.rwlock import ReadWriteLock
from rlpyt.samplers._env_statistics import give_statistics
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.serial.sampler import Part, SerialSampler
from rlpyt.utils.buffer import numpy_leaves
from rlpyt.utils.logging import logger
from rlpyt.utils.names import import_extra
from rlpyt.utils.seed import (
    Purpose,
    derived_seed,
    evaluation_streams,
    rng_state,
    seed_streams,
    set_rng_state,
)
from rlpyt.utils.types import NDArray, Nested

# Time step and index over all processes of an environment, and the trajectory completed there.
Placed = tuple[tuple[int, int], Any]

_SharedScalar: Any = ctypes.c_long.__mro__[1]  # Base class of what ``RawValue`` returns.


class Batch(NamedTuple):
    """Result of a batch from one actor."""

    leaves: list[NDArray]  # see :func:`exchanged`
    completed: list[Placed]
    statistics: list[Statistics]  # of each environment


class Assignment(NamedTuple):
    """Arguments from which an actor is made."""

    SamplerCls: type[SerialSampler]
    settings: dict[str, Any]  # arguments of SamplerCls
    start: dict[str, Any]  # arguments of its ``initialize``
    quota: Sequence[int] | None  # trajectories of each evaluation environment
    torch_threads: int
    is_quiet: bool


# --- What crosses the network --------------------------------------------------------------------


def exchanged(samples_np: Nested) -> list[NDArray]:
    """Return the arrays [T,B,...] of a batch; of those that view others, the first row."""
    agent = samples_np.agent._replace(prev_action=samples_np.agent.prev_action[:1])
    env = samples_np.env._replace(prev_reward=samples_np.env.prev_reward[:1])
    return numpy_leaves(samples_np._replace(agent=agent, env=env))


def parameters_of(agent: AgentLike) -> dict[str, Any]:
    """Return what an actor needs to act as ``agent`` does now, as numpy arrays and numbers.

    These are the parameters of the acting model, and the values that agents keep in shared memory
    because algorithms change them after workers have started, such as the schedule of epsilon.
    """
    model = {} if agent.acting_model is None else agent.acting_model.state_dict()
    shared = {
        name: value[:] if isinstance(value, ctypes.Array) else value.value
        for name, value in vars(agent).items()
        if isinstance(value, (ctypes.Array, _SharedScalar))
    }
    return {"model": {name: x.cpu().numpy() for name, x in model.items()}, "shared": shared}


def act_with(agent: AgentLike, parameters: dict[str, Any]) -> None:
    """Let ``agent`` act with the result of :func:`parameters_of`."""
    if parameters["model"]:
        for name, own in agent.acting_model.state_dict().items():
            np.copyto(own.numpy(), parameters["model"][name])
    for name, value in parameters["shared"].items():
        own = getattr(agent, name)
        if isinstance(own, ctypes.Array):
            own[:] = value
        else:
            own.value = value


def packed(value: Any) -> bytes:
    """Pickle a value for another machine, with shared values as copies, and new locks."""
    pickler_class: Any = import_extra("ray.cloudpickle", "RaySampler", "ray").Pickler

    class Pickler(pickler_class):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, ReadWriteLock):
                return ReadWriteLock, ()
            if isinstance(obj, ctypes.Array):
                return RawArray, (obj._type_, obj[:])
            if isinstance(obj, _SharedScalar):
                return RawValue, (type(obj), obj.value)
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


# --- The actor -----------------------------------------------------------------------------------


class SamplingActor:
    """A sampler over a part of the batch, in a process that Ray starts, and restarts.

    Args:
        assignment: a packed :class:`Assignment`.
        index: index of the actor.
    """

    def __init__(self, assignment: bytes, index: int) -> None:
        self.assignment, self.index = assignment, index
        self.sampler: Any = None

    def start(self, is_first: bool) -> list[Statistics]:
        """Make and start the environments, anew if there are some; return their statistics.

        Args:
            is_first: whether to take random steps before, which nobody waits for after a restart.
        """
        if self.sampler is not None:
            self.sampler.shutdown()
        a: Assignment = pickle.loads(self.assignment)
        if a.is_quiet:
            logger.disable()
        torch.set_num_threads(a.torch_threads)
        tune_allocator()
        seed_streams(derived_seed(a.start["seed"], Purpose.WORKER, self.index))
        settings = a.settings if is_first else {**a.settings, "max_decorrelation_steps": 0}
        self.part: Part = a.start["part"]
        self.sampler = a.SamplerCls(**settings)
        self.sampler.initialize(**a.start)
        self.leaves = exchanged(self.sampler.samples_np)
        self.evaluated: list[Placed] = []
        if self.sampler.eval_collector is not None:
            self.sampler.eval_collector.quota = a.quota
            self.sampler.eval_collector.traj_infos_queue = self
        return self._statistics()

    def _statistics(self) -> list[Statistics]:
        return [statistics_of(env) for env in self.sampler._all_envs[0]]

    def collect(self, parameters: dict[str, Any], itr: int, n_steps: int) -> Batch:
        """Return a batch.

        Args:
            parameters: result of :func:`parameters_of`.
            itr: iteration of the sampler.
            n_steps: number of earlier time steps, which a restarted actor does not know.
        """
        collector = self.sampler.collector
        act_with(self.sampler.agent, parameters)
        if collector.acting_noise.step != n_steps:
            collector.acting_noise.load_state_dict(
                {**collector.acting_noise.state_dict(), "step": n_steps}
            )
        _, infos = self.sampler.obtain_samples(itr)
        placed = []
        for info in infos:
            # A collector of the user, or an info it adds, may have no place.
            place = isinstance(collector, LoopCollector) and collector.place_of(info)
            t, b = place or (0, 0)
            placed.append(((t, self.part.env_ranks[b]), info))
        return Batch(self.leaves, placed, self._statistics())

    def evaluate(
        self, parameters: dict[str, Any], itr: int, statistics: Statistics
    ) -> list[Placed]:
        """Run one evaluation, with environments that use ``statistics``; return what completed."""
        act_with(self.sampler.agent, parameters)
        self.evaluated = []
        with evaluation_streams(itr):  # Evaluation must not change training.
            give_statistics(self.sampler._all_envs[1], statistics)
            infos = self.sampler.eval_collector.collect_evaluation(itr)
        # A vector environment reports no places.
        return self.evaluated or [((0, self.part.eval_env_ranks[0]), info) for info in infos]

    def put(self, traj_info: Any, place: tuple[int, int]) -> None:
        """Keep a trajectory of an evaluation, as the queue that its collector reports to."""
        if traj_info is not None:
            self.evaluated.append((place, traj_info))

    def stop(self) -> None:
        """End the running evaluation after its next step; called beside other methods."""
        self.sampler.stop_evaluation()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of sampler, agent and generators."""
        return {**self.sampler.state_dict(), "rng": rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> list[Statistics]:
        """Restore ``state``; return the statistics of the environments."""
        self.sampler.load_state_dict(state)
        set_rng_state(state["rng"])
        return self._statistics()

    def close(self) -> None:
        """Close all environments."""
        self.sampler.shutdown()

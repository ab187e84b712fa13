"""The actor, which has a sampler over its part of the batch, and what it exchanges by Ray."""

from __future__ import annotations

import ctypes
import io
import pickle
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, NamedTuple

import numpy as np

from rlpyt.core.protocols import AgentLike
from rlpyt.core.statistics import Statistics, statistics_of
from rlpyt.processes.rwlock import ReadWriteLock
from rlpyt.samplers._env_statistics import give_statistics
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.parallel.worker import initialize_worker
from rlpyt.utils.buffer import numpy_leaves
from rlpyt.utils.logging import logger
from rlpyt.utils.names import import_extra
from rlpyt.utils.seed import evaluation_streams, rng_state, set_rng_state
from rlpyt.utils.types import NDArray, Nested

# Time step and index over all processes of an environment, and the trajectory completed there.
Placed = tuple[tuple[int, int], Any]
Parameters = dict[str, NDArray]  # See :func:`parameters_of`.

_SharedScalar: Any = ctypes.c_long.__mro__[1]  # Base class of what ``RawValue`` returns.


class Batch(NamedTuple):
    """Result of a batch from one actor."""

    leaves: list[NDArray]  # see :func:`exchanged`
    completed: list[Placed]
    statistics: list[Statistics]  # of each environment
    version: int  # of the parameters


# --- What crosses the network --------------------------------------------------------------------


def exchanged(samples_np: Nested) -> list[NDArray]:
    """Return the arrays [T,B,...] of a batch; of those that view others, the first row."""
    agent = samples_np.agent._replace(prev_action=samples_np.agent.prev_action[:1])
    env = samples_np.env._replace(prev_reward=samples_np.env.prev_reward[:1])
    return numpy_leaves(samples_np._replace(agent=agent, env=env))


def parameters_of(agent: AgentLike) -> Parameters:
    """Return what ``agent`` acts with, as arrays in its memory (copies, if that is a GPU's).

    These are the parameters of the acting model, and the values that agents keep in shared memory
    because algorithms change them after workers have started, such as the schedule of epsilon.
    """
    kinds = (ctypes.Array, _SharedScalar)
    shared = {name: value for name, value in vars(agent).items() if isinstance(value, kinds)}
    arrays = {name: np.frombuffer(memoryview(value), np.uint8) for name, value in shared.items()}
    if agent.acting_model is not None:
        arrays.update((k, x.cpu().numpy()) for k, x in agent.acting_model.state_dict().items())
    return arrays


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
    """A sampler over a part of the batch, in a process that Ray starts.

    Args:
        assignment: a packed dictionary with the ``sampler`` before its start, the arguments
            ``start`` of its ``initialize``, ``rank``, ``seed`` and ``torch_threads`` of the
            process, and ``is_quiet``.
        is_late: whether it replaces one that failed. Nobody waits for its random first steps then.
    """

    def __init__(self, assignment: bytes, is_late: bool) -> None:
        given = pickle.loads(assignment)
        if given["is_quiet"]:
            logger.disable()
        initialize_worker(given["rank"], given["seed"], torch_threads=given["torch_threads"])
        self.sampler: Any = given["sampler"]
        self.part, self.is_late = given["start"]["part"], is_late
        self.sampler.max_decorrelation_steps *= not is_late
        self.sampler.initialize(**given["start"])
        self.sampler.agent.load_sample_state_dict(given["agent_state"])
        self.leaves = exchanged(self.sampler.samples_np)

    def statistics(self) -> list[Statistics]:
        """Return the running statistics of the environments."""
        return [statistics_of(env) for env in self.sampler._all_envs[0]]

    def act_with(self, parameters: Parameters) -> None:
        """Let the agent act with the result of :func:`parameters_of`."""
        for name, own in parameters_of(self.sampler.agent).items():
            np.copyto(own, parameters[name])

    def collect(self, parameters: Parameters, itr: int, version: int = 0) -> Batch:
        """Return a batch of iteration ``itr``, which tells the ``version`` of the parameters."""
        collector = self.sampler.collector
        self.act_with(parameters)
        if self.is_late:  # Others have drawn random numbers for so many steps.
            noise, step = collector.acting_noise, itr * collector.batch_T
            noise.load_state_dict({"seed": noise.seed, "step": step})
            self.is_late = False
        placed = []
        for info in self.sampler.obtain_samples(itr)[1]:
            # A collector of the user, or an info it adds, may have no place.
            place = isinstance(collector, LoopCollector) and collector.place_of(info)
            t, b = place or (0, 0)
            placed.append(((t, self.part.env_ranks[b]), info))
        return Batch(self.leaves, placed, self.statistics(), version)

    def evaluate(self, parameters: Parameters, itr: int, statistics: Statistics) -> list[Placed]:
        """Run one evaluation, with environments that use ``statistics``; return what completed."""
        self.act_with(parameters)
        collector = self.sampler.eval_collector
        self.evaluated: list[Placed] = []
        if collector is None:
            return []
        collector.traj_infos_queue = self
        with evaluation_streams(itr):  # Evaluation must not change training.
            give_statistics(self.sampler._all_envs[1], statistics)
            infos = collector.collect_evaluation(itr)
        # A vector environment reports no places: its order stands for the time.
        rank = self.part.eval_env_ranks[0]
        return self.evaluated or [((n, rank), info) for n, info in enumerate(infos)]

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
        return self.statistics()

    def close(self) -> None:
        """Close all environments."""
        self.sampler.shutdown()

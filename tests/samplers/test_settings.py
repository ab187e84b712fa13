"""What is typed wrong is refused with the argument, its value and the remedy."""

import gymnasium
import numpy as np
import pytest

from rlpyt.core.records import TrajInfo
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.samplers.async_.collectors import DbCpuResetCollector, DbGpuResetCollector
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.collectors import BaseEvalCollector
from rlpyt.samplers.parallel.base import WorkerError
from rlpyt.samplers.parallel.cpu.collectors import (
    CpuEvalCollector,
    CpuResetCollector,
    CpuWaitResetCollector,
)
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.collectors import (
    GpuEvalCollector,
    GpuResetCollector,
    GpuWaitResetCollector,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.collectors import VectorEvalCollector, VectorResetCollector
from rlpyt.samplers.vector.sampler import VectorSampler
from tests.samplers.parallel_parts import PARALLEL, DiceEnv, RecurrentRule, start
from tests.samplers.parts import CountEnv, EchoAgent
from tests.samplers.test_async_samplers import ONE, start_async
from tests.selection import each_once

ALL = [SerialSampler, VectorSampler, *PARALLEL]
ACTING = {CpuResetCollector, CpuWaitResetCollector, DbCpuResetCollector}
SERVED = {GpuResetCollector, GpuWaitResetCollector, DbGpuResetCollector}
BATCH_COLLECTORS = {
    SerialSampler: ACTING,
    CpuSampler: ACTING,
    GpuSampler: SERVED,
    AlternatingSampler: SERVED,
    VectorSampler: {VectorResetCollector},
    AsyncCpuSampler: ACTING,
    AsyncGpuSampler: SERVED,
}
ALL_COLLECTORS = set.union(*BATCH_COLLECTORS.values())
EVAL_COLLECTORS = {
    SerialSampler: SerialEvalCollector,
    CpuSampler: CpuEvalCollector,
    GpuSampler: GpuEvalCollector,
    AlternatingSampler: GpuEvalCollector,
    VectorSampler: VectorEvalCollector,
    AsyncCpuSampler: CpuEvalCollector,
    AsyncGpuSampler: GpuEvalCollector,
}


class OwnCollection(CpuResetCollector):
    def collect_batch(self, *args):
        return super().collect_batch(*args)


@pytest.mark.parametrize("SamplerCls", BATCH_COLLECTORS)
def test_collectors_of_other_samplers_are_refused(SamplerCls):
    def given(**kwargs):
        return SamplerCls(CountEnv, {}, 2, 2, **{"eval_n_envs": 2, "eval_max_steps": 20, **kwargs})

    assert given(eval_CollectorCls=None).eval_CollectorCls is EVAL_COLLECTORS[SamplerCls]
    # The agent has to be where a collector acts, whatever else that does.
    own = {OwnCollection} if CpuResetCollector in BATCH_COLLECTORS[SamplerCls] else set()
    kinds = {
        "CollectorCls": ({OwnCollection, *ALL_COLLECTORS}, own | BATCH_COLLECTORS[SamplerCls]),
        "eval_CollectorCls": (set(EVAL_COLLECTORS.values()), {EVAL_COLLECTORS[SamplerCls]}),
    }
    for name, (everything, fitting) in kinds.items():
        for CollectorCls in everything:
            if CollectorCls in fitting:
                given(**{name: CollectorCls})
                continue
            with pytest.raises(ValueError, match=f"^{name} is {CollectorCls.__name__}"):
                given(**{name: CollectorCls})
    for CollectorCls in EVAL_COLLECTORS.values():  # As programs leave it where nothing evaluates.
        given(eval_CollectorCls=CollectorCls, eval_n_envs=0)


@pytest.mark.parametrize("SamplerCls", ALL)
@pytest.mark.parametrize("work", ["obtain_samples", "evaluate_agent"])
def test_not_initialized(SamplerCls, work) -> None:
    sampler = SamplerCls(CountEnv, {}, batch_T=2, batch_B=2, eval_n_envs=2, eval_max_steps=2)
    with pytest.raises(RuntimeError, match=r"has neither .*: call initialize\(agent\) first"):
        getattr(sampler, work)(0)
    sampler.shutdown()


EVALUATED = {"eval_n_envs": 20, "eval_max_steps": 400}
OF_ALL_SAMPLERS = [
    (TypeError, {"CollectorCls": "reset"}),
    (TypeError, {"EnvCls": CountEnv()}),
    (TypeError, {"env_kwargs": None}),
    (TypeError, {"env_kwargs": ["CartPole-v1"] * 4}),
    (TypeError, {"eval_env_kwargs": []}),
    (ValueError, {"batch_T": 0}),
    (ValueError, {"batch_B": 0}),
    (ValueError, {"batch_T": 2.5}),
    (ValueError, {"max_decorrelation_steps": -1}),
    (ValueError, {"eval_n_envs": -2}),
    (ValueError, {"eval_max_steps": None, "eval_n_envs": 20}),
    (ValueError, {"eval_max_steps": 10, "eval_n_envs": 20}),
    (ValueError, {"eval_max_trajectories": 0, **EVALUATED}),
    (ValueError, {"eval_n_episodes": 0, **EVALUATED}),
    (ValueError, {"eval_n_episodes": 0, "eval_max_trajectories": 3, **EVALUATED}),
]
IN_HALVES = [Cls for Cls in PARALLEL if Cls.alternating]
OF_SOME_SAMPLERS = [
    ([SerialSampler], ValueError, {"env_kwargs": [{}] * 3}),
    ([CpuSampler], ValueError, {"on_worker_failure": "again"}),
    ([CpuSampler], ValueError, {"max_restarts_per_hour": -1}),
    (IN_HALVES, ValueError, {"batch_B": 3}),
    (IN_HALVES, ValueError, {"eval_n_envs": 1, "eval_max_steps": 10}),
]


@pytest.mark.parametrize(
    ("samplers", "error", "kwargs"),
    [*((ALL, *refused) for refused in OF_ALL_SAMPLERS), *OF_SOME_SAMPLERS],
)
def test_settings_without_a_meaning(samplers, error, kwargs):
    name, value = next(iter(kwargs.items()))
    given = {"EnvCls": CountEnv, "env_kwargs": {}, "batch_T": 2, "batch_B": 4, **kwargs}
    for SamplerCls in samplers:
        with pytest.raises(error) as info:
            SamplerCls(**given)
        message = f"{SamplerCls.__name__}: {info.value}"
        assert str(info.value).startswith(f"{name} is "), message
        assert isinstance(value, (list, CountEnv)) or str(value) in str(info.value), message


class NeverMade(CountEnv):
    def __init__(self):
        raise AssertionError("made")


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        ([0, 1], "affinity is"),
        ("0", "affinity is"),
        ({"workers_cpus": [0, 4321]}, r"\[0, 4321\] .* affinity"),
        ({"workers_cpus": [[0, 4321]]}, r"\[0, 4321\] .* affinity"),
        ({"workers_cpus": []}, "workers_cpus"),
        ({"workers_cpus": 0}, "workers_cpus"),
        ({}, "workers_cpus None"),
    ],
)
def test_a_wrong_affinity_is_refused_before_anything_starts(affinity, message):
    # A CPU that does not exist used to end the worker, and leave the sampler waiting.
    with pytest.raises(ValueError, match=message):
        CpuSampler(NeverMade, {}, 2, 2).initialize(EchoAgent(), affinity=affinity, seed=0)


class OwnEvaluation(BaseEvalCollector): ...


@pytest.mark.parametrize(
    ("SamplerCls", "error", "kwargs", "message"),
    [
        (AlternatingSampler, ValueError, {"n_workers": 3, "batch_B": 6}, "workers"),
        (AlternatingSampler, TypeError, {"agent": RecurrentRule()}, "RecurrentRule"),
        (
            CpuSampler,
            ValueError,
            {"eval_n_envs": 1, "eval_n_episodes": 3, "eval_CollectorCls": OwnEvaluation},
            "OwnEvaluation'> cannot count episodes",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(SamplerCls, error, kwargs, message):
    with pytest.raises(error, match=message):
        start(SamplerCls, **kwargs)


@pytest.mark.parametrize(
    ("SamplerCls", "affinity", "message"),
    [
        *(
            (SamplerCls, affinity, "affinity")
            for SamplerCls in (AsyncGpuSampler, AsyncAlternatingSampler)
            for affinity in (None, [], [None], {})
        ),
        *(
            (SamplerCls, [ONE], "a list names action servers, which only AsyncGpuSampler")
            for SamplerCls in (AsyncSerialSampler, AsyncCpuSampler)
        ),
    ],
)
def test_affinities_of_asynchronous_samplers(SamplerCls, affinity, message):
    with pytest.raises(ValueError, match=message):
        start_async(SamplerCls, affinity)


@pytest.mark.parametrize("SamplerCls", [SerialSampler, VectorSampler, GpuSampler])
def test_evaluation_without_environments(SamplerCls):
    sampler, _ = start(SamplerCls)
    with pytest.raises(ValueError, match="eval_n_envs"):
        sampler.evaluate_agent(0)
    sampler.shutdown()


def test_floats_of_scripts_are_whole_numbers():
    sampler = SerialSampler(CountEnv, {}, 5e0, np.float64(2), eval_n_envs=2.0, eval_max_steps=1e3)
    sampler.initialize(EchoAgent(), seed=0)
    assert sampler.obtain_samples(0)[0].env.reward.shape == (5, 2)
    assert sampler.evaluate_agent(0)
    sampler.shutdown()


def test_a_number_of_episodes_without_environments_to_evaluate_in():
    # It was divided by the number of environments.
    sampler, _ = start(CpuSampler, 1, eval_n_episodes=3)
    sampler.shutdown()


# --- What fails at the start ----------------------------------------------------------------------


class Unmakeable(DiceEnv):
    def __init__(self, is_broken=True):
        super().__init__()
        if is_broken:
            raise KeyError("the error of the constructor")


@pytest.mark.parametrize("SamplerCls", [SerialSampler, *PARALLEL])
def test_an_environment_that_cannot_be_made(SamplerCls):
    sampler = SamplerCls(Unmakeable, {}, 2, 2)
    for _ in range(2):
        with pytest.raises(KeyError, match="the error of the constructor"):
            sampler.initialize(EchoAgent(), affinity={"workers_cpus": 2}, seed=0)
        sampler.shutdown()  # Used to raise an error of its own, which hid the first one.


class Closing(CountEnv):
    closed = 0

    def close(self):
        type(self).closed += 1


class Unready(EchoAgent):
    def initialize(self, *args, **kwargs):
        raise ArithmeticError("of the agent")


def test_the_example_environment_is_closed_if_the_agent_fails():
    sampler = CpuSampler(Closing, {}, 2, 2)
    with pytest.raises(ArithmeticError):
        sampler.initialize(Unready(), affinity={"workers_cpus": 2}, seed=0)
    assert Closing.closed == 1
    sampler.shutdown()


class Wide(DiceEnv):
    """Observes as many numbers as it is told to."""

    def __init__(self, n=2):
        super().__init__()
        self.n = n

    def _observe(self, action):
        observation = super()._observe(action)
        return observation._replace(noise=np.resize(observation.noise, self.n))


@pytest.mark.parametrize(("SamplerCls", "n"), each_once((SerialSampler, *PARALLEL), (1, 3)))
def test_environments_with_other_observations(SamplerCls, n):
    # A single number used to be taken for a whole row of them if actions were served.
    error = ValueError if SamplerCls is SerialSampler else WorkerError
    message = rf"environment 2 \(Wide\) returned observation.noise of shape \({n},\) .* \(2,\)"
    with pytest.raises(error, match=message):
        start(SamplerCls, EnvCls=Wide, env_kwargs=[{}, {}, {"n": n}, {"n": n}])


# --- What fails later -----------------------------------------------------------------------------


def test_a_trajectory_info_that_cannot_be_sent():
    # The queue used to drop it, and the sampler to wait for it for ever.
    class Local(TrajInfo):
        pass

    sampler, _ = start(CpuSampler, TrajInfoCls=Local, batch_T=99)
    with pytest.raises(WorkerError, match=r"cannot be sent to another process (.|\n)*at the top"):
        sampler.obtain_samples(0)
    sampler.shutdown()


@pytest.mark.parametrize(("SamplerCls", "itr"), each_once(PARALLEL[1:], (0, 1)))
def test_an_error_of_the_agent_in_the_sampler_ends_the_workers(SamplerCls, itr):
    # They used to wait in the middle of the batch, and the next call to wait for them.
    sampler, agent = start(SamplerCls, eval_n_envs=2, eval_max_steps=20)
    task = sampler.evaluate_agent if itr else sampler.obtain_samples

    def fail(*args):
        raise ArithmeticError("of the agent")

    agent.step = fail
    with pytest.raises(ArithmeticError):
        task(itr)
    assert not any(worker.is_alive() for worker in sampler.workers)
    with pytest.raises(WorkerError, match="have been shut down"):
        task(itr)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
def test_environments_of_gymnasium_itself_are_refused(SamplerCls):
    """They had no attribute 'spaces'."""
    with pytest.raises(TypeError, match=r"EnvCls.*rlpyt\.envs\.gym\.make.*GymEnvWrapper"):
        start(SamplerCls, EnvCls=gymnasium.make, env_kwargs={"id": "CartPole-v1"})

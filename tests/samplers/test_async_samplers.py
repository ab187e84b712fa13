"""Asynchronous samplers, started in one process: batches are those of the serial sampler."""

import copy
import itertools
import os
import signal
from functools import cache

import numpy as np
import psutil
import pytest

from rlpyt.processes.supervisor import WorkerError
from rlpyt.samplers.async_.alternating_sampler import (
    AsyncAlternatingSampler,
    AsyncNoOverlapAlternatingSampler,
)
from rlpyt.samplers.async_.collectors import DoubleBufferCollectorMixin
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import torchify_buffer
from tests.samplers.parallel_parts import (
    ChanceAgent,
    CoinAgent,
    DiceEnv,
    RuleAgent,
    as_dict,
    assert_equal,
    start,
)
from tests.samplers.test_parallel_samplers import OwnCpuCollector
from tests.selection import each_once, selected

EVALUATION = dict(eval_n_envs=4, eval_max_steps=80)
LIMITS = {
    "steps": {},
    "trajectories": {"eval_max_trajectories": 5},
    "episodes": {"eval_n_episodes": 7, "eval_max_steps": None},
}
ONE, TWO = {"workers_cpus": 1}, {"workers_cpus": 2}
SAMPLERS = {
    "serial": (AsyncSerialSampler, {}),
    "workers": (AsyncCpuSampler, TWO),
    "one server": (AsyncGpuSampler, TWO),
    "two servers": (AsyncGpuSampler, [ONE, TWO]),
    "alternating": (AsyncAlternatingSampler, [TWO, TWO]),
    "no overlap": (AsyncNoOverlapAlternatingSampler, TWO),
}


class SharedMixin:
    """Has nothing to publish, and so nothing to take over."""

    def async_cpu(self, share_memory=True): ...

    def recv_shared_memory(self): ...


class SharedRule(SharedMixin, RuleAgent):
    pass


class SharedChance(SharedMixin, ChanceAgent):
    pass


def start_async(SamplerCls, affinity, agent=None, **kwargs):
    kwargs = {"EnvCls": DiceEnv, "env_kwargs": {}, "max_decorrelation_steps": 5, **kwargs}
    sampler = SamplerCls(batch_T=7, batch_B=4, **kwargs)
    traj_info_kwargs = {"discount": 0.5}
    agent = agent or SharedRule()
    sampler.async_initialize(agent, True, traj_info_kwargs=traj_info_kwargs, seed=3)
    sampler.initialize(affinity)
    return sampler


class OwnDoubleCollector(DoubleBufferCollectorMixin, OwnCpuCollector):
    """A loop of the user, for a single batch."""


class OwnChoice(CpuResetCollector):
    """Chooses the batch by itself."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.both = self.samples_np

    def collect_batch(self, *args):
        self.samples_np = self.both[self.sync.db_idx.value]
        return super().collect_batch(*args)


@pytest.mark.parametrize(
    ("CollectorCls", "name"),
    each_once((OwnDoubleCollector, OwnChoice, CpuResetCollector), ("serial", "workers")),
)
def test_double_buffer_of_any_collector(name, CollectorCls):
    # The mixin was a collector itself, so that its loop ran instead; collectors without it were
    # refused.
    ours, _ = start(SerialSampler, 0, RuleAgent())
    sampler = start_async(*SAMPLERS[name], CollectorCls=CollectorCls)
    for itr in range(3):
        sampler.obtain_samples(itr, itr % 2)
        batch = torchify_buffer(sampler.double_buffer[itr % 2])
        assert_equal(as_dict(batch), as_dict(ours.obtain_samples(itr)[0]))
    sampler.shutdown()


class OwnPairs(AsyncAlternatingSampler):
    def _make_alternating_pairs(self, n_envs_list):
        super()._make_alternating_pairs(n_envs_list)
        assert n_envs_list == [2, 2]
        assert self.half_B == 2


def test_alternating_pairs_of_a_server():
    # It was called without the numbers of environments.
    sampler = start_async(OwnPairs, TWO)
    assert sampler.obtain_samples(0, 0) is not None
    sampler.shutdown()


@cache
def expected_run(limit):
    sampler, _ = start(SerialSampler, 0, ChanceAgent(), **{**EVALUATION, **LIMITS[limit]})
    return run(sampler, lambda itr: sampler.obtain_samples(itr))


def run(sampler, obtain):
    """Four batches, with an evaluation after the first."""
    results = []
    for itr in range(4):
        samples, infos = obtain(itr)
        results.append((as_dict(samples), [dict(info) for info in infos]))
        if itr == 0:
            results.append(({}, [dict(info) for info in sampler.evaluate_agent(itr)]))
    sampler.shutdown()
    return results


def aspects(cell):
    """Every sampler is tried, and every limit with one server or several."""
    name, limit = cell
    return {name, (isinstance(SAMPLERS[name][1], list), limit)}


@pytest.mark.parametrize(("name", "limit"), selected(itertools.product(SAMPLERS, LIMITS), aspects))
def test_batches_and_evaluations_are_those_of_the_serial_sampler(name, limit):
    SamplerCls, affinity = SAMPLERS[name]
    sampler = start_async(SamplerCls, affinity, SharedChance(), **{**EVALUATION, **LIMITS[limit]})
    batches = torchify_buffer(sampler.double_buffer)

    def obtain(itr):
        infos = sampler.obtain_samples(itr, itr % 2)
        return batches[itr % 2], infos

    for (fields, infos), expected in zip(run(sampler, obtain), expected_run(limit), strict=True):
        assert_equal(fields, expected[0])
        assert infos == expected[1]


class Wheel(DiceEnv):
    """Draws rewards from the generator of the process."""

    def _reward(self, action, draw):
        return float(np.random.random())


class SharedCoin(SharedMixin, CoinAgent):
    pass


@pytest.mark.parametrize("name", ["workers", "one server"])
def test_an_evaluation_leaves_the_generators_of_training(name):
    """As in ``MinibatchRlEval``; two batches, with an evaluation between them or not."""

    def second_batch(evaluates):
        SamplerCls, affinity = SAMPLERS[name]
        agent = SharedCoin()
        sampler = start_async(SamplerCls, affinity, agent, EnvCls=Wheel, **EVALUATION)
        sampler.obtain_samples(0, 0)
        if evaluates:
            sampler.evaluate_agent(0)
        sampler.obtain_samples(1, 1)
        fields = as_dict(torchify_buffer(sampler.double_buffer[1]))
        sampler.shutdown()
        return fields

    assert_equal(second_batch(True), second_batch(False))


@pytest.mark.parametrize("victim", ["server", "worker"])
def test_a_killed_process_ends_all_others(victim):
    before = set(psutil.Process().children(recursive=True))
    sampler = start_async(AsyncAlternatingSampler, [TWO, TWO])
    server = psutil.Process(sampler.supervisor.children[1].process.pid)
    workers = server.children()
    os.kill((server if victim == "server" else workers[1]).pid, signal.SIGKILL)
    message = "action server 1 .* was ended by SIGKILL"
    if victim == "worker":
        message = r"action server 1 (.|\n)*worker 3 .* was ended by SIGKILL"
    with pytest.raises(WorkerError, match=message):
        sampler.obtain_samples(0)
    sampler.shutdown()
    _, alive = psutil.wait_procs(workers, timeout=40)
    assert not alive
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_copy_leaves_the_processes_behind():
    """As the one that a server of another start method than fork is sent."""
    sampler = start_async(AsyncGpuSampler, TWO)
    copied = copy.copy(sampler)
    assert (copied.supervisor, copied.workers) == (None, [])
    assert sampler.supervisor is not None
    sampler.shutdown()

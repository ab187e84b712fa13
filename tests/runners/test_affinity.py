"""Affinities are kept by every process of a run; refusals are in test_refusals."""

import os
from collections import namedtuple

import numpy as np
import psutil
import pytest
import torch

from rlpyt.core.records import EnvStep
from rlpyt.runners._checks import check_cpus_in
from rlpyt.runners.base import prepare_process
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.logging.context import logger_context
from tests.runners.parts import CountingAlgo, QuietAgent
from tests.samplers.parts import CountEnv

ABSENT = (os.cpu_count() or 1) + 99


@pytest.fixture(autouse=True)
def _process_as_before():
    cpus, threads = psutil.Process().cpu_affinity(), torch.get_num_threads()
    yield
    prepare_process({"master_cpus": cpus})
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "affinity",
    [
        {},
        {"cuda_idx": None},
        {"master_cpus": [0], "workers_cpus": [0, [0], None]},
        {"workers_cpus": 500},  # The number of workers, which are not pinned.
        {"master_cpus": [ABSENT], "workers_cpus": [ABSENT], "set_affinity": False},
        [{"master_cpus": (0,)}, {}],
        {"optimizer": [{"cpus": [0]}], "sampler": {"workers_cpus": [np.int64(0)]}},
    ],
)
def test_affinities_that_can_be_kept_are_accepted(affinity):
    check_cpus_in(affinity)


def test_threads_are_no_more_than_cpus():
    torch.set_num_threads(4)
    prepare_process({"master_cpus": [0]})
    assert torch.get_num_threads() == 1
    prepare_process({"master_cpus": [0], "master_torch_threads": 2})
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("threads", "load", "warns"), [(2, 99, True), (2, 0, False), (1, 99, False)]
)
def test_several_threads_on_a_busy_machine_are_warned_of(monkeypatch, capsys, threads, load, warns):
    monkeypatch.setattr(os, "getloadavg", lambda: (load * os.cpu_count(), 0, 0))
    prepare_process({"master_torch_threads": threads})
    assert ("WARNING" in capsys.readouterr().out) == warns


def test_running_threads_are_pinned(tmp_path):
    """Only the main thread was, and those of torch stayed on all CPUs."""
    torch.set_num_threads(2)
    a = torch.ones(400, 400)
    _ = a @ a  # Starts them.
    prepare_process({"master_cpus": [0]})
    assert set(allowed(os.getpid())) == {"0"}


# --- A run ----------------------------------------------------------------------------------------

Info = namedtuple("Info", ["cpu", "torch_threads"])


class PlaceEnv(CountEnv):
    """Tells where it runs."""

    def step(self, action):
        step = super().step(action)
        (own,) = set(allowed(os.getpid()))
        info = Info(int(own) if own.isdigit() else -1, torch.get_num_threads())
        return EnvStep(step.observation, step.reward, step.done, info)


class Watch(Callback):
    """Notes the CPUs of all threads of all processes of the run, and where its steps were made."""

    def __init__(self):
        self.children, self.own = {}, set()
        self.before = {child.pid for child in psutil.Process().children()}

    def on_itr(self, runner, itr, traj_infos, opt_info):
        self.own.update(allowed(os.getpid()))
        for child in psutil.Process().children(recursive=True):
            if child.pid in self.before:
                continue
            self.children.setdefault(child.pid, set()).update(allowed(child.pid))


def allowed(pid):
    """Cpus_allowed_list of every thread of a process."""
    lists = []
    for thread in psutil.Process(pid).threads():
        try:
            with open(f"/proc/{pid}/task/{thread.id}/status") as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            continue
        lists += [line[1] for line in lines if line[0] == "Cpus_allowed_list:"]
    return lists


class PlaceAlgo(CountingAlgo):
    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        info = samples.env.env_info
        self.cpus = info.cpu.unique(dim=0).tolist()
        self.torch_threads = info.torch_threads.unique().tolist()
        return super().optimize_agent(itr, samples, sampler_itr)


def make_runner(affinity, callbacks=()):
    sampler = CpuSampler(PlaceEnv, {}, batch_T=5, batch_B=4, max_decorrelation_steps=0)
    return MinibatchRl(
        algo=PlaceAlgo(),
        agent=QuietAgent(),
        sampler=sampler,
        n_steps=60,
        log_interval_steps=20,
        seed=1,
        affinity=affinity,
        callbacks=callbacks,
    )


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
@pytest.mark.parametrize(
    ("workers_cpus", "of_steps"),
    [([0, 1], [[0, 0, 1, 1]]), ([1, 1], [[1, 1, 1, 1]]), ([[0], (1,)], [[0, 0, 1, 1]])],
)
def test_every_process_of_a_run_stays_on_its_cpus(workers_cpus, of_steps, tmp_path):
    watch = Watch()
    runner = make_runner({"master_cpus": [0], "workers_cpus": workers_cpus}, [watch])
    with logger_context(str(tmp_path), 0, "place", {}):
        runner.train()
    assert watch.own == {"0"}
    of_workers = sorted(",".join(cpus) for cpus in watch.children.values())
    assert of_workers == sorted(map(str, np.ravel(workers_cpus)))
    assert runner.algo.cpus == of_steps
    assert runner.algo.torch_threads == [1]

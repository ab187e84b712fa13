"""Every test starts with the same random streams and log, one torch thread and no display."""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo  # As the first optimizer does, in each forked process if not here.
from numba.core import event

from rlpyt.core.records import TrajInfo
from rlpyt.utils import seed
from rlpyt.utils.logging import logger
from tests.selection import FULL

os.environ.setdefault("MPLBACKEND", "Agg")
# Hundreds of processes import the package: it is compiled once, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
torch.set_num_threads(1)
gc.disable()  # Until all is imported, see pytest_collection_finish.
# A forked process leaves the garbage of its parent alone: the end of a process group would wait.
os.register_at_fork(after_in_child=gc.freeze)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background of a script; what the tests start, and interrupt, would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# For kinds of devices not in use, torch.manual_seed formats a traceback: a millisecond a test.
HAS_GPU = torch.cuda.is_available()
seed_torch = torch.manual_seed if HAS_GPU else torch.default_generator.manual_seed


def seed_all() -> None:
    random.seed(0)
    np.random.seed(0)
    seed_torch(0)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Let a module, as it is imported, draw the same numbers in every run: weights of models."""
    if isinstance(collector, pytest.Module):
        seed_all()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was imported out of all garbage collections: each would take a quarter second."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test finds the same random streams, settings, CPUs and log alone, and in the suite."""
    seed_all()
    # For runs without a seed.
    monkeypatch.setattr(seed.secrets, "randbelow", random.Random(0).randrange)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray's handler, in a fork, waits for its nodes.
    monkeypatch.setattr(seed, "seed_", None)
    cpus = os.sched_getaffinity(0)
    with logger.using(logger.Logger()):
        yield
    # Runners set these.
    os.sched_setaffinity(0, cpus)
    torch.set_num_threads(1)
    TrajInfo._discount = 1


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that are logged."""
    lines: list[str] = []
    monkeypatch.setattr(logger, "log", lambda text, *args, **kwargs: lines.append(text))
    return lines


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone, which ends after the models of the test.

    A wrapper that outlives its group ends the group's threads without releasing the interpreter,
    for which they may wait.
    """
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture(autouse=True, scope="module")
def _no_accelerator_is_left() -> Iterator[None]:
    """The process of the simulated device ends with the module, since others count processes."""
    yield
    accelerator = sys.modules.get("tests.accelerator")
    if accelerator is not None:
        accelerator.end()


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes on this machine, which samplers join, with two CPUs each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        patch.setenv("RAY_worker_niceness", "0")  # Else actors wait for everything else here.
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield cluster
        sys.modules["ray"].shutdown()  # A test that failed may have left it joined.
        cluster.shutdown()


SLOW_S = 2.0  # Of CPU time; a test without the mark fails above twice that.


def cpu_s() -> float:
    """Seconds of CPU time of this process, and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@cache
def slowness() -> float:
    """How much slower this machine is now than one on which the suite takes four minutes."""
    begin = cpu_s()
    for _ in range(10**6):
        pass
    return max(1.0, (cpu_s() - begin) / 0.02)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let a test fail that takes long without the mark ``slow``.

    Waiting does not count, so a busy machine does no harm, nor does compiling by numba in a new
    clone; the factor is for what the first test to import something pays for all others.
    """
    limit, compiling_s = 2 * SLOW_S * slowness(), [0.0]
    begin = cpu_s()
    with event.install_timer("numba:compile", compiling_s.append):
        result = yield
    took = cpu_s() - begin - sum(compiling_s)
    if took > limit and not any(map(item.get_closest_marker, ("slow", "full", "variant"))):
        pytest.fail(f"took {took:.1f} s of CPU time: make it faster, or mark it as slow")
    return result


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with slow tests, so that no worker is left with one; leave out or skip some."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if not FULL:
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if HAS_GPU:
        return
    skip = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)

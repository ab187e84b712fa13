"""Start methods, OpenMP threads and CPUs of processes."""

import multiprocessing

import psutil
import pytest
import torch

from rlpyt.processes import launch
from rlpyt.processes.launch import check_cpus, pin_process
from rlpyt.processes.supervisor import Supervisor
from rlpyt.utils import shared_array
from rlpyt.utils.shared_array import get_context


def test_the_environment_chooses_the_start_method(monkeypatch):
    assert get_context().get_start_method() == "fork"
    monkeypatch.setenv(shared_array.START_METHOD_VARIABLE, "forkserver")
    assert get_context().get_start_method() == "forkserver"
    assert get_context("spawn").get_start_method() == "spawn"
    monkeypatch.setenv(shared_array.START_METHOD_VARIABLE, "thread")
    with pytest.raises(ValueError, match=r"environment variable RLPYT_START_METHOD is 'thread'"):
        get_context()
    with pytest.raises(ValueError, match="start_method is 'thread': choose one of fork"):
        get_context("thread")


def test_the_default_of_the_interpreter_plays_no_part():
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        assert get_context().get_start_method() == "fork"
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_cpus_are_checked_without_being_used():
    before = psutil.Process().cpu_affinity()
    check_cpus(before[:1])
    check_cpus([])
    assert psutil.Process().cpu_affinity() == before
    with pytest.raises(ValueError, match=r"CPUs \[0, 4321\] are named .* may not use all of them"):
        check_cpus([4321, 0])
    assert psutil.Process().cpu_affinity() == before


def test_cpus_of_others_may_be_named():
    """A sampler that is pinned itself may have workers elsewhere."""
    before = psutil.Process().cpu_affinity()
    if len(before) < 2:
        pytest.skip("there is one CPU only")
    try:
        pin_process(before[:1])
        check_cpus(before[1:2])
        assert psutil.Process().cpu_affinity() == before[:1]
    finally:
        psutil.Process().cpu_affinity(before)


def test_without_affinity_there_is_nothing_to_check(monkeypatch):
    monkeypatch.setattr(launch, "can_be_pinned", lambda: False)
    check_cpus([4321])


def compute_with_two_threads():
    torch.set_num_threads(2)
    assert torch.ones(2**20).exp().sum() > 0


@pytest.mark.skipif(launch.gnu_openmp() is None, reason="no OpenMP which can end its threads")
def test_what_forks_after_a_computation_with_threads_can_compute():
    # OpenMP's record of its threads was inherited, and the process waited for them for ever.
    supervisor, n_threads = Supervisor("fork"), torch.get_num_threads()
    try:
        compute_with_two_threads()
        process = supervisor.start(compute_with_two_threads, {}, "a helper")
        process.join(20)
        assert process.exitcode == 0
        compute_with_two_threads()
    finally:
        torch.set_num_threads(n_threads)

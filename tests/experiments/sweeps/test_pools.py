"""Sweeps through Ray and submitit, with the same tree of files as on the slots of a machine."""

import json
import sys
import warnings

import pytest

from rlpyt.experiments.sweeps import pools, run
from rlpyt.experiments.sweeps.affinity import affinity_from_code, encode_affinity
from rlpyt.experiments.sweeps.launch import SweepError, run_experiments
from rlpyt.experiments.sweeps.pools import LocalSlots, RayCluster, SlurmCluster
from rlpyt.experiments.sweeps.slots import slot_elsewhere
from tests.selection import FULL
from tests.waiting import wait_until

CODE = encode_affinity(2, cpu_per_run=1, hyperthread_offset=0, n_socket=1, set_affinity=False)
SCRIPT = """
    import os, sys
    code, log_dir, run_ID = sys.argv[1:4]
    run_dir = os.path.join(log_dir, "run_" + run_ID)
    os.makedirs(run_dir)
    open(os.path.join(run_dir, "progress.csv"), "w").write("CumSteps\\n1\\n")
    sys.exit("bad" in log_dir)
"""


@pytest.fixture(scope="module")
def ray(request):
    """Ray, in a cluster of two nodes."""
    if not FULL:
        pytest.skip("Ray takes long to start: RLPYT_FULL=1 does")
    ray = pytest.importorskip("ray")
    cluster = request.getfixturevalue("ray_cluster")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(address=cluster.address, log_to_driver=False)
    yield ray
    ray.shutdown()


def tree(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def launch(tmp_path, script, name, pool):
    names = ["b/c", "bad"]
    with pytest.raises(SweepError, match="1 of 2 runs failed"):
        run_experiments(
            script, CODE, str(tmp_path / name), 1, [{"x": n} for n in names], names, pool=pool
        )
    return tree(tmp_path / name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_same_tree_through_ray(script, tmp_path, ray):
    local = launch(tmp_path, script, "local", LocalSlots(CODE))
    assert len(local) == 2 + 2 * 4 + 5
    cluster = RayCluster(CODE)
    assert len(cluster.slots) == 4
    assert launch(tmp_path, script, "ray", cluster) == local
    assert launch(tmp_path, script, "ray", cluster) == local  # Nothing is run again.
    status = json.loads((tmp_path / "ray" / "b" / "c" / "status_0.json").read_text())
    assert (status["state"], status["attempt"]) == (run.FINISHED, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_run_that_ray_stops(tmp_path, ray):
    cluster = RayCluster(CODE)
    call = [sys.executable, "-c", "print('begun', flush=True); import time; time.sleep(60)"]
    handle = cluster.start(run.RunCommand(str(tmp_path), 0, call))

    def is_running():
        assert not cluster.ended(handle)
        return run.read_status(str(tmp_path), 0).state == run.RUNNING

    wait_until(is_running)
    cluster.stop(handle)
    ray.wait([handle])
    wait_until(lambda: not run.is_alive(str(tmp_path), 0))
    assert run.read_status(str(tmp_path), 0).state == run.INTERRUPTED


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_cluster_without_room(ray):
    with pytest.raises(ValueError, match="64 CPUs"):
        RayCluster(encode_affinity(64, cpu_per_run=64, hyperthread_offset=0, n_socket=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_same_tree_through_submitit(script, tmp_path):
    pytest.importorskip("submitit")
    jobs = SlurmCluster(CODE, tmp_path / "jobs", cluster="local", n_parallel=2, timeout_min=10)
    local = launch(tmp_path, script, "local", LocalSlots(CODE))
    assert launch(tmp_path, script, "slurm", jobs) == local


def test_jobs_need_a_time(tmp_path):
    # Without it they ended after five minutes.
    pytest.importorskip("submitit")
    with pytest.raises(ValueError, match="after 5 minutes: give timeout_min"):
        SlurmCluster(CODE, tmp_path / "jobs", cluster="local")


def test_slurm_is_missing(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setattr(pools.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="sbatch"):
        SlurmCluster(CODE, tmp_path)


@pytest.mark.parametrize(
    ("module", "make", "command"),
    [
        ("ray", lambda: RayCluster(CODE), r"pip install 'rlpyt\[ray\]'"),
        ("submitit", lambda: SlurmCluster(CODE, "jobs"), r"pip install 'rlpyt\[slurm\]'"),
    ],
)
def test_missing_packages(monkeypatch, module, make, command):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=command):
        make()


@pytest.mark.parametrize(
    ("kwargs", "n_cpu", "n_gpu", "runs_per_gpu"),
    [
        (dict(cpu_per_run=4), 4, 0, 1),
        (dict(cpu_per_run=4, async_sample=True, cpu_reserved=1), 4, 0, 1),
        (dict(n_gpu=2, contexts_per_gpu=2), 2, 1, 2),
        (dict(n_gpu=4, gpu_per_run=2), 4, 2, 1),
        (dict(n_gpu=4, async_sample=True, sample_gpu_per_run=1, cpu_reserved=1), 4, 2, 1),
    ],
)
def test_resources_of_one_slot(kwargs, n_cpu, n_gpu, runs_per_gpu):
    code = encode_affinity(8, hyperthread_offset=8, n_socket=2, **kwargs)
    slot = slot_elsewhere(code)
    assert (slot.cpus, slot.gpus) == (list(range(n_cpu)), list(range(n_gpu)))
    assert slot.options.get("cxg", 1) == runs_per_gpu
    affinity = affinity_from_code(slot.code)
    halves = affinity if isinstance(affinity, list) else [affinity]
    assert sorted(cpu for half in halves for cpu in half.all_cpus) == list(range(n_cpu))
    assert not any(half.set_affinity for half in halves)

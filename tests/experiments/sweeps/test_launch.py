"""Sweeps of real processes: every run is started, confined, watched and ended."""

import json
import os
import signal

import psutil
import pytest

from rlpyt.experiments.sweeps import launch, pools, sweep
from rlpyt.experiments.sweeps.affinity import encode_affinity
from rlpyt.experiments.sweeps.launch import (
    FailedRun,
    SweepError,
    launch_experiment,
    run_experiments,
)
from rlpyt.experiments.sweeps.run import RUNNING, read_status
from tests.forked import fork
from tests.selection import FULL
from tests.waiting import wait_until

CODE = encode_affinity(n_cpu_core=1, cpu_per_run=1, hyperthread_offset=0, n_socket=1)
SCRIPT = """
    import json, os, sys, time
    slot_affinity_code, log_dir, run_ID, *args = sys.argv[1:]
    with open(os.path.join(log_dir, "variant_config.json")) as file:
        variant = json.load(file)
    with open("/proc/self/status") as file:
        cpus = [line.split()[1] for line in file if line.startswith("Cpus_allowed_list")][0]
    said = dict(code=slot_affinity_code, args=args, cpus=cpus, start=time.time(), variant=variant)
    said["egl"] = os.environ.get("EGL_DEVICE_ID")
    time.sleep(variant.get("sleep", 0))
    said["end"] = time.time()
    with open(os.path.join(log_dir, "said_" + run_ID + ".json"), "w") as file:
        json.dump(said, file)
    print("about to end")
    sys.exit(variant.get("exit", 0))
"""


def said(tmp_path):
    """What each run said, by the last parts of its path."""
    files = sorted(tmp_path.rglob("said_*.json"))
    return {f"{f.parent.name}/{f.stem[5:]}": json.loads(f.read_text()) for f in files}


def test_no_such_script(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.py"):
        launch.launch_experiment(tmp_path / "nothing.py", 0, CODE, str(tmp_path), {}, 0, ())


def test_every_setting_runs_as_often_as_asked(script, tmp_path):
    variants = [{"a": {"b": 1}}, {"a": {"b": 2}}]
    run_experiments(
        script, CODE, "sweep", 2, variants, ["x", "y"], ("key", 3), runs_args=[(), (0.5,)]
    )
    runs = said(tmp_path)
    assert list(runs) == ["x/0", "x/1", "y/0", "y/1"]
    assert [runs[name]["variant"] for name in ("x/0", "y/0")] == variants
    assert runs["x/0"]["args"] == ["key", "3"]
    assert runs["y/1"]["args"] == ["key", "3", "0.5"]
    assert runs["x/0"]["code"].startswith("0slt_")
    # Run_ID is the outer loop: each setting has a first run before any has a second.
    order = sorted(runs, key=lambda name: runs[name]["start"])
    assert order == ["x/0", "y/0", "x/1", "y/1"]
    # There is one slot.
    assert all(runs[a]["end"] <= runs[b]["start"] for a, b in zip(order, order[1:]))
    exp_dir = next(tmp_path.rglob("num_launched.txt")).parent
    assert (exp_dir / "num_launched.txt").read_text().strip().endswith("4 out of 4.")
    tree = (exp_dir / "experiments_tree.txt").read_text().splitlines()
    assert str(os.getpid()) in tree[0]
    assert "2 (4)" in tree[1]
    assert tree[2:] == ["", "x", "y"]
    assert not (exp_dir / "failed.txt").exists()


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_two_slots_run_two_at_a_time_each_on_its_cpus(script, tmp_path):
    code = encode_affinity(n_cpu_core=2, cpu_per_run=1, hyperthread_offset=0, n_socket=1)
    run_experiments(script, code, "sweep", 1, [{"sleep": 1.5}] * 2, ["a", "b"])
    runs = said(tmp_path)
    assert [runs[f"{name}/0"]["cpus"] for name in "ab"] == ["0", "1"]
    assert runs["b/0"]["start"] < runs["a/0"]["end"]


def cpus_of_run(script, tmp_path, code):
    process = launch_experiment(script, 0, code, str(tmp_path / "run"), {}, 0, ())
    assert process.wait(20) == 0
    return said(tmp_path)["run/0"]["cpus"]


def test_code_that_leaves_the_affinity_alone_is_respected(script, tmp_path):
    """``saf=0`` used to be pinned by taskset all the same."""
    code = encode_affinity(1, cpu_per_run=1, hyperthread_offset=0, n_socket=1, set_affinity=False)
    allowed = ",".join(map(str, psutil.Process().cpu_affinity())).replace("0,1", "0-1")
    assert cpus_of_run(script, tmp_path, code) == allowed


def test_a_system_without_taskset_still_launches(script, tmp_path, monkeypatch):
    monkeypatch.setattr(pools.shutil, "which", lambda name: None)
    assert cpus_of_run(script, tmp_path, CODE)


@pytest.mark.parametrize(
    ("kwargs", "gpu", "cpus"),
    [
        (dict(n_gpu=2), ["0", "1"], ["0,1", "2,3"]),
        (dict(n_gpu=2, gpu_per_run=2), ["0"], ["0,1,2,3"]),
        (dict(n_gpu=2, async_sample=True, sample_gpu_per_run=1, cpu_reserved=1), ["0"], None),
    ],
    ids=["single", "several", "async"],
)
def test_egl_device_of_every_kind_of_affinity(script, tmp_path, monkeypatch, kwargs, gpu, cpus):
    """A run over several GPUs, and an asynchronous one, used to fail with ``set_egl_device``."""
    calls = []

    class Recorder:
        def __init__(self, call, env, **kwargs):
            calls.append((call, env.get("EGL_DEVICE_ID")))

    monkeypatch.setattr(launch.subprocess, "Popen", Recorder)
    code = encode_affinity(n_cpu_core=4, hyperthread_offset=0, n_socket=1, **kwargs)
    for slot in range(len(gpu)):
        launch_experiment(script, slot, code, str(tmp_path), {}, 0, (), set_egl_device=True)
    assert [egl for _, egl in calls] == gpu
    if cpus is not None:
        assert [call[:3] for call, _ in calls] == [["taskset", "-c", part] for part in cpus]


@pytest.mark.parametrize(
    ("kwargs", "n_slots"),
    [
        (dict(cpu_per_run=4, alternating=True), 2),
        (dict(cpu_per_run=4, async_sample=True, cpu_reserved=1), 2),
        (dict(n_gpu=2, contexts_per_gpu=2), 4),
        (dict(n_gpu=4, gpu_per_run=2), 2),
        (dict(n_gpu=2, async_sample=True, cpu_reserved=1), 2),
        (dict(n_gpu=4, async_sample=True, sample_gpu_per_run=1, cpu_reserved=1), 2),
        (
            dict(
                n_gpu=2,
                gpu_per_run=2,
                async_sample=True,
                optim_sample_share_gpu=True,
                cpu_reserved=1,
            ),
            1,
        ),
    ],
    ids=["alternating", "async", "shared", "several", "async-gpu", "async-2gpu", "async-both"],
)
def test_every_kind_of_affinity_has_slots_with_their_own_cpus(monkeypatch, kwargs, n_slots):
    monkeypatch.setattr(pools.torch.cuda, "device_count", lambda: 4)
    code = encode_affinity(
        n_cpu_core=8, hyperthread_offset=0, n_socket=1, set_affinity=False, **kwargs
    )
    slots = pools.LocalSlots(code).slots
    assert [slot.code for slot in slots] == [f"{number}slt_{code}" for number in range(n_slots)]
    assert sorted(cpu for slot in slots for cpu in slot.cpus) == list(range(8))


def test_failures_are_reported_and_the_others_run(script, tmp_path, capfd):
    """A failed process used to count as a finished one, without a word."""
    with pytest.raises(SweepError, match="exit code 3: run 0 in .*bad") as error:
        run_experiments(script, CODE, "sweep", 1, [{"exit": 3}, {}], ["bad", "good"])
    (failed,) = error.value.failed
    assert failed == FailedRun(failed.log_dir, 0, 3)
    assert failed.log_dir.endswith("bad")
    assert list(said(tmp_path)) == ["bad/0", "good/0"]
    printed = capfd.readouterr().out
    assert "FAILED with exit code 3" in printed
    assert "about to end" in printed
    assert next(tmp_path.rglob("failed.txt")).read_text() == f"3\t0\t{failed.log_dir}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, *[signal.SIGINT] * FULL])
def test_a_sweep_that_is_ended_takes_its_runs_along(number, script, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "END_TIMEOUT_S", 2.0)
    code, variants = CODE.replace("1cpr", "1cpr_0saf"), [{"sleep": 60}]
    launched = script, code, str(tmp_path / "s"), 1, variants, ["a"]
    manager = fork(run_experiments, *launched, output=tmp_path / "output")
    wait_until(lambda: read_status(str(tmp_path / "s" / "a"), 0).state == RUNNING)
    children = psutil.Process(manager.pid).children(recursive=True)
    os.kill(manager.pid, number)
    manager.join(40)
    assert manager.exitcode != 0
    _, alive = psutil.wait_procs(children, timeout=15)
    assert not alive

"""``rlpyt sweep``: its variants, its slots, a launch into a directory, and wrong input."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

import psutil
import pytest
import torch

from rlpyt.experiments import catalog
from rlpyt.experiments.program import make_affinity
from rlpyt.experiments.sweeps import affinity, pools, slots
from rlpyt.experiments.sweeps.affinity import affinity_from_code, get_n_run_slots
from rlpyt.experiments.sweeps.command import parts_of, split_list, variants_of
from rlpyt.experiments.sweeps.run import FAILED, RunStatus, write_status
from rlpyt.experiments.sweeps.spaces import Choice, Integer, Real
from rlpyt.processes import machine as machines
from tests.experiments.parts import MODULE, InOneProcess, invoke, refused

QUICK = ["batch_T=16", "batch_B=4", "minibatches=2", "epochs=1", "hidden_sizes=8"]


# --- Variants -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1e-3", ["1e-3"]),
        ("1e-3,3e-4", ["1e-3", "3e-4"]),
        ("[64,64],[256,256]", ["[64,64]", "[256,256]"]),
        ("{'a':(1,2)},none", ["{'a':(1,2)}", "none"]),
        ("'a,b',\"c]\",d", ["'a,b'", '"c]"', "d"]),
    ],
)
def test_lists_are_split_outside_brackets_and_quotes(text, parts):
    assert split_list(text) == parts


def test_every_list_is_a_level_of_the_grid():
    words = ["CartPole-v1,Acrobot-v1", "learning_rate=1e-3,3e-4", "epochs=2"]
    parts = parts_of("ppo,a2c", [*words[:2], "model.hidden_sizes=[64,64],[8]"])
    variants = variants_of(parts)
    assert len(variants) == 2 * 2 * 2 * 2
    assert variants[1].changes == {
        "algo": {"learning_rate": 1e-3},
        "model": {"hidden_sizes": [8]},
    }
    assert variants[-1].log_dir == "a2c/Acrobot-v1/learning_rate_0.0003/hidden_sizes_[8]"
    assert variants[-1].part.entry == "generic/a2c"
    (one,) = parts_of("ppo", ["CartPole-v1", *words[1:]], steps=100)
    fixed = ("runner.n_steps=100", "runner.log_interval_steps=10", "epochs=2")
    assert one.words == ("CartPole-v1", *fixed)


@pytest.mark.parametrize("word", ["n_steps=50", "runner.n_steps=50,60"])
def test_the_number_of_steps_is_given_once(word):
    with pytest.raises(ValueError, match="--steps=100 and n_steps"):
        parts_of("ppo", ["CartPole-v1", word], steps=100)


def test_each_environment_has_its_own_entry():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    parts = parts_of("dqn", ["pong,CartPole-v1", "learning_rate=1e-3,3e-4"])
    assert [part.entry for part in parts] == ["atari_dqn/dqn", "generic/dqn"]


def test_a_suite_has_a_part_for_each_task():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    parts = parts_of("atari_100k/der,atari_100k/drq_eps", ["discount=0.9"], suite=True)
    assert len(parts) == 2 * 26
    assert parts[-1].words == ("up_n_down", "discount=0.9")
    assert parts[-1].log_dir == "atari_100k_drq_eps/up_n_down"


@pytest.mark.parametrize("words", [["atari_100k/der", "pong"], ["dqn"], ["atari_dqn/dqn"]])
def test_a_suite_is_that_of_an_entry_and_has_its_own_environments(words):
    with pytest.raises(ValueError, match="--suite runs entries of atari_100k on all tasks"):
        parts_of(words[0], words[1:], suite=True)


def test_ranges_are_drawn_in_the_type_of_their_setting():
    words = ["learning_rate=1e-5:1e-2:log", "epochs=1:4", "normalize_advantage=true,false"]
    parts = parts_of("ppo", ["CartPole-v1,Acrobot-v1", *words, "sampler=serial,cpu"])
    assert parts[0].space == {
        ("algo", "learning_rate"): Real(1e-5, 1e-2, log=True),
        ("algo", "epochs"): Integer(1, 4),
        ("algo", "normalize_advantage"): Choice([True, False]),
        ("roles", "sampler"): Choice(["serial", "cpu"]),
    }
    variants = variants_of(parts, "random", 3)
    assert [variant.log_dir for variant in variants[2:4]] == [
        "CartPole-v1/draw_0002",
        "Acrobot-v1/draw_0000",
    ]
    # The same draws on each environment.
    assert variants[0].changes == variants[3].changes != variants[1].changes


def test_a_dry_run_writes_nothing(tmp_path):
    words = ["CartPole-v1", "learning_rate=1e-3,3e-4", "--log-dir", tmp_path / "x", "--dry-run"]
    output = invoke("sweep", "ppo", *words, "--slots", 1, "--seeds", 3)
    assert 'CartPole-v1/learning_rate_0.001   {"algo": {"learning_rate": 0.001}}' in output
    assert "1 at a time, each 3 times" in output
    assert not (tmp_path / "x").exists()


# --- Slots ----------------------------------------------------------------------------------------


@pytest.fixture
def machine(monkeypatch):
    """A machine of 16 cores without hyperthreads and 8 GPUs, in a container that may use all."""
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(16)), raising=False)
    monkeypatch.setattr(affinity, "get_hyperthread_offset", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(machines, "cgroup_limits", lambda root: (None, None))


@pytest.mark.usefixtures("machine")
def test_slots_share_the_machine():
    def share(roles=(), **resources):
        code = slots.affinity_code(dict(roles), **resources)
        return get_n_run_slots(code), affinity_from_code(f"1slt_{code}")

    number, affinity = share()
    assert (number, affinity["cuda_idx"], affinity["all_cpus"]) == (8, 1, (2, 3))
    assert share(slots=16)[0] == 16  # Two on each GPU.
    number, affinity = share(gpus=0, cpus_per_run=4)
    assert (number, affinity["all_cpus"]) == (4, (4, 5, 6, 7))
    number, affinity = share(gpus_per_run=2)
    assert (number, [one["cuda_idx"] for one in affinity]) == (4, [2, 3])
    number, affinity = share({"runner": "async", "sampler": "gpu"})
    assert (number, affinity["sampler"][0]["cuda_idx"]) == (8, 1)
    number, affinity = share({"runner": "async"}, gpus=0)  # Two cores each.
    assert (number, affinity["optimizer"][0]["cpus"], affinity["all_cpus"]) == (8, (2,), (2, 3))
    assert share({"sampler": "alternating"}, gpus=0, cpus_per_run=4)[1]["alternating"]
    for roles, resources in (({"runner": "async"}, {}), ({}, {"gpus": 2, "gpus_per_run": 2})):
        code = slots.affinity_code(roles, is_local=False, **resources)
        affinity_from_code(f"0slt_{code}")
        assert code.startswith("2cpu")  # As few as it needs.
    code = slots.affinity_code({}, is_local=False, cpus_per_run=64, gpus=1)
    assert affinity_from_code(f"0slt_{code}")["cuda_idx"] == 0


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("n_core", "n_gpu", "n_each"), [(12, 8, 2), (10, 4, 4), (14, 4, 6)])
def test_cores_are_divided_among_the_gpus_of_a_run(n_core, n_gpu, n_each, monkeypatch):
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(n_core)))
    code = slots.affinity_code({}, gpus=n_gpu, gpus_per_run=2)
    assert get_n_run_slots(code) == n_gpu // 2
    assert sum(len(one["all_cpus"]) for one in affinity_from_code(f"1slt_{code}")) == n_each


ASYNC = {"runner": "async"}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("roles", "n_core", "n_gpu", "n_slots"),
    [({}, 1, 2, 1), ({}, 2, 8, 2), ({}, 4, 8, 4), (ASYNC, 2, 2, 1)],
)
def test_gpus_that_lack_cores_are_left_out(roles, n_core, n_gpu, n_slots, monkeypatch):
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(n_core)))
    code = slots.affinity_code(roles, gpus=n_gpu)
    assert get_n_run_slots(code) == n_slots
    affinity_from_code(f"{n_slots - 1}slt_{code}")


@pytest.mark.usefixtures("machine")
def test_asynchronous_runs_on_two_gpus_may_have_an_odd_number_of_cores(monkeypatch):
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(14)))
    code = slots.affinity_code(ASYNC, gpus=4, gpus_per_run=2)
    assert len(affinity_from_code(f"1slt_{code}")["all_cpus"]) == 7


@pytest.mark.usefixtures("machine")
def test_slots_that_sockets_cannot_share_are_placed_as_on_one(monkeypatch):
    monkeypatch.setattr(affinity, "get_n_socket", lambda: 2)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 16)
    code = slots.affinity_code({}, gpus=0, slots=3)
    assert affinity_from_code(f"2slt_{code}")["all_cpus"] == (10, 11, 12, 13, 14)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"slots": 17, "gpus": 0}, "17 runs at a time, each on 1 CPU cores, need more than the 16"),
        ({"slots": 8, "cpus_per_run": 3}, "need more than the 16"),
        ({"slots": 12}, "--slots 12: give a multiple of 8"),
        ({"gpus_per_run": 9}, "--gpus-per-run 9: there are 8 GPUs"),
        ({"gpus_per_run": 2, "gpus": 0}, "--gpus-per-run 2: there are 0 GPUs in all, see --gpus"),
        ({"gpus_per_run": 2, "slots": 8}, "--slots 8: give at most 4"),
        ({"gpus_per_run": 2, "cpus_per_run": 3}, "--cpus-per-run 3: give a multiple of 2"),
        ({"roles": ASYNC, "slots": 16, "cpus_per_run": 1}, "--cpus-per-run 1: give at least 2"),
        (
            {"roles": ASYNC, "gpus_per_run": 2, "cpus_per_run": 2},
            "--cpus-per-run 2: give at least 3, to optimize and to sample",
        ),
        ({"roles": ASYNC, "slots": 16}, "each on 2 CPU cores, need more.*--cpus-per-run"),
        ({"roles": ASYNC, "slots": 4, "gpus": 2}, "--slots 4: give at most 2"),
    ],
)
def test_slots_that_do_not_exist_are_refused(resources, message):
    with pytest.raises(ValueError, match=message):
        slots.affinity_code(**{"roles": {}, **resources})


@pytest.mark.usefixtures("machine")
def test_a_quota_of_cpus_limits_what_nobody_chose(monkeypatch):
    monkeypatch.setattr(machines, "cgroup_limits", lambda root: (4.0, None))

    def share(**resources):
        code = slots.affinity_code({}, gpus=0, **resources)
        return get_n_run_slots(code), len(affinity_from_code(f"0slt_{code}")["all_cpus"])

    assert share() == (4, 1)
    # It limits the time, on whichever cores.
    assert not affinity_from_code("0slt_" + slots.affinity_code({}))["set_affinity"]
    assert share(slots=2) == (2, 2)
    assert share(slots=8) == (8, 1)
    assert share(cpus_per_run=8) == (1, 8)
    assert make_affinity("minibatch", "cpu", 32)["workers_cpus"] == 4
    assert make_affinity("minibatch", "cpu", 32, workers=9)["workers_cpus"] == 9


def test_processes_are_pinned_where_cores_have_other_numbers(monkeypatch):
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: [4, 5], raising=False)
    monkeypatch.setattr(affinity, "get_hyperthread_offset", lambda: 0)
    monkeypatch.setattr(machines, "cgroup_limits", lambda root: (None, None))
    run = affinity_from_code("1slt_" + slots.affinity_code({}, gpus=0))
    assert (run["all_cpus"], run["set_affinity"]) == ((5,), True)


def test_a_parameter_unknown_to_submitit_is_named(tmp_path):
    pytest.importorskip("submitit")
    code = slots.affinity_code({}, is_local=False)
    for job in ({"slurm_partitoin": "gpu"}, {"timeout_min": "long"}):
        with pytest.raises(ValueError, match=f"--job {next(iter(job))}="):
            pools.make_pool("slurm", code, None, str(tmp_path), {**job, "cluster": "local"})


def test_variants_with_the_same_environment_share_one_when_they_are_checked(tmp_path):
    words = [f"{MODULE}:InOneProcess-v0", "learning_rate=1e-3,1e-4,1e-5", "--slots", 1, *QUICK]
    before = InOneProcess.n_made
    invoke("sweep", "ppo", *words, "--dry-run", "--log-dir", tmp_path / "log")
    assert InOneProcess.n_made == before + 1


def test_vectors_in_ray_actors_are_checked_before_a_sweep(tmp_path):
    pytest.importorskip("ray")
    words = ["sampler=ray", "SamplerCls=rlpyt.samplers.vector.sampler.VectorSampler", *QUICK]
    log_dir = tmp_path / "log"
    invoke("sweep", "ppo", "CartPole-v1", *words, "--slots", 1, "--dry-run", "--log-dir", log_dir)


# --- A launch -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_goes_on_and_reports_what_failed(tmp_path):
    directory = tmp_path / "sweep"
    words = ["sweep", "ppo", "CartPole-v1", "learning_rate=1e-3", *QUICK, "--slots", 1]
    words += ["--steps", 128, "log_interval_steps=64", "--log-dir", directory]
    invoke(*words)
    # The library may move, with another environment.
    content = json.loads((directory / "sweep.json").read_text())
    assert content["script"] == "rlpyt/experiments/launched.py"
    log_dir = directory / "CartPole-v1"
    params = json.loads((log_dir / "run_0" / "params.json").read_text())
    assert params["algo"]["learning_rate"] == 1e-3
    assert params["env"] == {"id": "CartPole-v1"}
    assert params["runner"]["n_steps"] == 128
    before = (log_dir / "run_0" / "progress.csv").read_bytes()
    write_status(str(log_dir), 0, RunStatus(FAILED, attempt=1, exit_code=1))
    output = refused(*words)
    assert "1 of 1 runs failed" in output
    assert "run 0: failed earlier" in output
    assert "started" not in output
    assert (log_dir / "run_0" / "progress.csv").read_bytes() == before
    words[3] = "learning_rate=1e-4"
    assert "directory of another sweep" in refused(*words)
    shutil.copytree(log_dir, tmp_path / "plain" / "CartPole-v1")
    for words[-1] in (tmp_path / "plain", log_dir, log_dir / "run_0"):
        assert "has runs that belong to no sweep" in refused(*words)


# --- Wrong input ----------------------------------------------------------------------------------

CARTPOLE = ["ppo", "CartPole-v1"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["ppo,a2cc", "CartPole-v1"], "a2cc a2c"),
        (["ppo", "CartPole-v1,Acrobat-v1"], "Acrobat-v1 Acrobot-v1"),
        (["ppo", "learning_rate=1,2"], "environment"),
        ([*CARTPOLE, "seed=0,1"], "seed=0,1 --seeds"),
        ([*CARTPOLE, "learning_rat=1,2"], "learning_rat learning_rate"),
        ([*CARTPOLE, "discount=high,0.9"], "algo.discount='high'"),
        ([*CARTPOLE, "sampler=serial,cpuu"], "cpuu cpu"),
        ([*CARTPOLE, "hidden_sizes=64,64"], "hidden_sizes brackets"),
        ([*CARTPOLE, "learning_rate=1e-3,0.001"], "0.001 twice"),
        ([*CARTPOLE, "hidden_sizes=[8,8],[8, 8]"], "hidden_sizes twice"),
        ([*CARTPOLE, "batch_T=0,16"], "batch_T"),
        ([*CARTPOLE, "learning_rate=1e-3:1e-2"], "learning_rate --search"),
        ([*CARTPOLE, "epochs=1.5:3", "--search", "random"], "epochs whole"),
        ([*CARTPOLE, "epochs=3:1", "--search", "random"], "low=3 high=1"),
        ([*CARTPOLE, "--search", "random"], "--search"),
        ([*CARTPOLE, "--seed", 5], "--seed --seeds random"),
        ([*CARTPOLE, "--metric", "x"], "--metric optuna"),
        (["dqn", "CartPole-v1", "runner=minibatch,async"], "minibatch async slots"),
        (["dqn", "CartPole-v1", "runner=sync", "--gpus", 0], "runner=sync --gpus-per-run"),
        (["dqn", "CartPole-v1", "replay_size=1e4,10"], "replay_size"),
        (["ppo", "CartPole-v1,CartPole-v1"], "CartPole-v1 twice"),
        (["ppo,a2c,ppo", "CartPole-v1"], "ppo/CartPole-v1 twice"),
        ([*CARTPOLE, "learning_rate=1", "algo.learning_rate=3,4"], "learning_rate twice"),
        ([*CARTPOLE, "epochs=1,2", "epochs=3,4"], "algo.epochs twice"),
        ([*CARTPOLE, "sampler=cpu", "sampler=serial,cpu"], "sampler twice"),
        (["ppo,sac", "CartPole-v1"], "SacAgent"),
        ([*CARTPOLE, "workers=2"], "affinity.workers --slots"),
        ([*CARTPOLE, "--gpus", "99"], "--gpus 99"),
        ([*CARTPOLE, "--affinity", "2cpus"], "2cpus"),
        ([*CARTPOLE, "--job", "timeout_min=3"], "--job slurm"),
    ],
)
def test_wrong_input_is_refused_before_anything_starts(words, named, tmp_path):
    message = refused("sweep", *words, "--slots", 1, "--log-dir", tmp_path / "log")
    assert all(name in message for name in named.split())
    assert not (tmp_path / "log").exists()


def test_optuna_needs_one_part_and_its_extra(monkeypatch):
    words = ["sweep", "ppo", "CartPole-v1", "epochs=1:3", "--search", "optuna"]
    if find_spec("optuna") is not None:
        assert "one algorithm on one environment" in refused(*words, "env=Acrobot-v1")
    monkeypatch.setattr(
        catalog, "find_spec", lambda name: None if name == "optuna" else find_spec(name)
    )
    assert "pip install 'rlpyt[optuna]'" in refused(*words)

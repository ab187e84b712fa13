"""One run of a sweep: the affinity and the variant of its launcher are what it trains with."""

import csv
import json

import pytest

from rlpyt.experiments.sweeps.affinity import encode_affinity
from rlpyt.experiments.sweeps.variant import save_variant
from rlpyt.experiments.train import build_and_train, roles_for

CODE = encode_affinity(
    n_cpu_core=1, cpu_per_run=1, hyperthread_offset=0, n_socket=1, set_affinity=False
)
TINY = {
    "algo": {"learning_rate": 0.01, "minibatches": 2, "epochs": 1},
    "env": {"id": "Pendulum-v1"},
    "runner": {"n_steps": 256, "log_interval_steps": 128},
    "sampler": {"batch_T": 128},
}


@pytest.fixture(autouse=True)
def _own_data(tmp_path, monkeypatch):
    monkeypatch.setattr("rlpyt.utils.logging.context.LOG_DIR", str(tmp_path))


def test_variant_changes_the_entry_and_run_id_is_the_seed(tmp_path, monkeypatch, capsys):
    log_dir = tmp_path / "x"
    save_variant(TINY, log_dir)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rlpyt.utils.logging.context.LOG_DIR", str(tmp_path / "data"))
    build_and_train("0slt_" + CODE, "x", "7", "mujoco_ppo", "ppo_1M_serial")
    assert "outside" not in capsys.readouterr().out
    params = json.loads((log_dir / "run_7" / "params.json").read_text())
    assert params["seed"] == 7
    assert params["algo"]["learning_rate"] == 0.01
    assert params["algo"]["gae_lambda"] == 0.95
    assert params["env"]["id"] == "Pendulum-v1"
    with (log_dir / "run_7" / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["Diagnostics/CumSteps"]) for row in rows] == [128, 256]


def test_misspelt_setting_is_refused(tmp_path):
    save_variant({"algo": {"learning_rat": 1}}, tmp_path / "x")
    with pytest.raises(ValueError, match=r"did you mean 'algo\.learning_rate"):
        build_and_train("0slt_" + CODE, str(tmp_path / "x"), 0, "mujoco_ppo", "ppo_1M_serial")


TINY_TD3 = {
    "algo": {"batch_size": 8, "replay_ratio": 1},
    "env": {"id": "Pendulum-v1"},
    "runner": {"n_steps": 60, "log_interval_steps": 30},
    "sampler": {"eval_n_envs": 1, "eval_max_steps": 200},
}


def test_an_asynchronous_affinity_is_that_of_an_asynchronous_run(tmp_path):
    # It was refused.
    code = "0slt_" + encode_affinity(
        n_cpu_core=2,
        cpu_per_run=2,
        hyperthread_offset=0,
        n_socket=1,
        async_sample=True,
        set_affinity=False,
    )
    save_variant(TINY_TD3, tmp_path / "x")
    build_and_train(code, str(tmp_path / "x"), 0, "mujoco_td3", "async_cpu")
    params = json.loads((tmp_path / "x" / "run_0" / "params.json").read_text())
    assert params["roles"] == {"algo": "td3", "sampler": "cpu", "runner": "async"}
    with (tmp_path / "x" / "run_0" / "progress.csv").open() as file:
        assert float(list(csv.DictReader(file))[-1]["Diagnostics/CumSteps"]) >= 60


def test_affinities_choose_the_runner():
    one, several = {"workers_cpus": [0]}, [{"cuda_idx": 0}, {"cuda_idx": 1}]
    on_cpu = {"optimizer": [{}], "sampler": {"workers_cpus": [0]}}
    on_gpu = {"optimizer": [{}], "sampler": [{"workers_cpus": [0], "cuda_idx": 0}]}
    assert roles_for({"sampler": "cpu"}, one) == {}
    assert roles_for({}, several) == {"runner": "sync"}
    assert roles_for({"sampler": "cpu"}, on_cpu) == {"runner": "async"}
    assert roles_for({"sampler": "cpu"}, on_gpu) == {"runner": "async", "sampler": "gpu"}
    assert roles_for({"sampler": "alternating"}, on_gpu) == {"runner": "async"}


def test_an_asynchronous_entry_with_the_affinity_of_one_process_is_refused(tmp_path):
    save_variant({}, tmp_path / "x")
    with pytest.raises(ValueError, match="async_sample=True"):
        build_and_train("0slt_" + CODE, str(tmp_path / "x"), 0, "mujoco_td3", "async_cpu")

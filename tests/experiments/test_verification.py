"""A run is verified by computing parts of it again, and refused if anything of it was changed."""

import json
import shutil

import pytest
import torch
from click.testing import CliRunner

from rlpyt.checkpoints import files
from rlpyt.experiments.command import main
from rlpyt.experiments.verification import RECORD, verify
from rlpyt.utils.logging import context
from tests.experiments.parts import invoke, refused
from tests.selection import FULL

PPO = ["ppo", "CartPole-v1", "batch_T=10", "batch_B=4", "minibatches=2", "epochs=1"]
REPLAY = ["batch_B=4", "batch_size=8", "min_steps_learn=40", "replay_size=300", "replay_ratio=1"]


def train(directory, *words, steps=160):
    keeps = ["--checkpoint-steps", steps // 4, "--keep-checkpoints", "--log-dir", directory]
    log = ["log_interval_steps=20", "threads=1"]
    invoke("train", *words, *log, "--steps", steps, "--seed", 3, *keeps)
    return directory / "run_0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"), *PPO)


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def test_a_run_is_verified_in_the_intervals_that_are_drawn(run):
    result = CliRunner().invoke(main, ["verify", str(run), "--intervals", "2", "--seed", "0"])
    assert result.exit_code == 0, result.output
    assert "verified: 2 of 4 intervals, 2 log rows" in result.output
    record = json.loads((run / RECORD).read_text())
    assert record["verified"]
    assert not record["differences"]
    assert all(last - first == 40 for first, last in record["intervals"])
    drawn = {tuple(verify(run, 1, seed).intervals[0]) for seed in range(9)}
    assert len(drawn) > 1


# --- Changed runs -----------------------------------------------------------------------------


def change_log(run, change):
    file = run / "progress.csv"
    rows = [line.split(",") for line in file.read_text().splitlines()]
    change(rows)
    file.write_text("".join(",".join(row) + "\n" for row in rows))


def change_digit(run):
    def change(rows):
        column = rows[0].index("lossAverage")
        digits = rows[3][column]
        rows[3][column] = digits[:-1] + str((int(digits[-1]) + 1) % 10)

    change_log(run, change)


def drop_row(run):
    change_log(run, lambda rows: rows.pop(3))


def drop_column(run):
    def change(rows):
        column = rows[0].index("entropyAverage")
        for row in rows:
            row.pop(column)

    change_log(run, change)


def change_parameter(run, section, name, value):
    params = json.loads((run / "params.json").read_text())
    params[section][name] = value
    (run / "params.json").write_text(json.dumps(params))


def change_discount(run):
    change_parameter(run, "algo", "discount", 0.98)


def change_learning_rate(run):
    """Which is in the state of the optimizer too."""
    change_parameter(run, "algo", "learning_rate", 2e-3)


def change_snapshot(run):
    snapshot = torch.load(run / "params.pkl")
    next(iter(snapshot["agent_state_dict"].values())).mul_(1.0001)
    torch.save(snapshot, run / "params.pkl")


def change_checkpoint(run):
    file = next((run / "checkpoints" / "checkpoint_000000080").glob("arrays*"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()  # Other checkpoints may link to it.
    file.write_bytes(content)


def exchange_checkpoints(run):
    """With whole and right files, of a later step."""
    one, other = (run / "checkpoints" / f"checkpoint_{n:09d}" for n in (80, 120))
    shutil.rmtree(one)
    shutil.copytree(other, one)
    manifest = json.loads((one / "manifest.json").read_text())
    manifest = {**manifest, "step": 80, "serial": manifest["serial"] - 1}
    del manifest["sha256"]
    (one / "manifest.json").write_bytes(files.manifest_text(manifest))


CHANGES = {
    change_digit: ["120", "lossAverage"],
    drop_row: ["rows at the steps"],
    drop_column: ["40", "entropyAverage"],
    change_discount: ["step 40", "in the log"],
    change_learning_rate: ["step 0", "algo"],
    change_snapshot: ["params.pkl", "checkpoint_000000160"],
    change_checkpoint: ["checkpoint_000000080"],
    exchange_checkpoints: ["80"],
}


@pytest.mark.parametrize(
    ("change", "named"), CHANGES.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_a_changed_run_is_refused_and_the_place_is_named(change, named, run):
    change(run)
    result = CliRunner().invoke(main, ["verify", str(run), "--intervals", "9"])
    assert result.exit_code == 1, result.output
    line = next(line for line in result.output.splitlines() if line.startswith("REFUSED"))
    assert all(word in line for word in named), line
    assert not json.loads((run / RECORD).read_text())["verified"]


# --- What cannot be verified, or not exactly ------------------------------------------------------


def test_another_machine_is_named_and_digits_may_differ(run, monkeypatch):
    change_digit(run)
    versions = {**context.versions(), "machine": "another"}
    monkeypatch.setattr("rlpyt.experiments.verification.versions", lambda: versions)
    verdict = verify(run, 9)
    assert not verdict.differences
    assert verdict.tolerance > 0
    assert "another" in "".join(verdict.notes)
    change_log(run, lambda rows: rows[3].__setitem__(rows[0].index("lossAverage"), "0.5"))
    assert "lossAverage" in verify(run, 9).differences[0]


def test_rows_outside_of_checkpoints_are_said_not_to_be_compared(run):
    for n in (0, 160):
        shutil.rmtree(run / "checkpoints" / f"checkpoint_{n:09d}")
    verdict = verify(run, 9)
    assert not verdict.differences
    assert verdict.intervals == [(40, 80), (80, 120)]
    assert "2 log rows" in verdict.notes[0]


def test_a_run_without_two_checkpoints_is_told_how_to_keep_them(run):
    for path in (run / "checkpoints").glob("*"):
        shutil.rmtree(path)
    assert "keep-checkpoints" in refused("verify", run)
    assert "checkpoint-steps" in refused("train", *PPO, "--keep-checkpoints")


# --- Algorithms and samplers ----------------------------------------------------------------------

ON_POLICY = ["batch_T=10", "batch_B=4"]
RUNS = {
    "a2c cpu": ["a2c", "CartPole-v1", *ON_POLICY, "sampler=cpu", "workers=2"],
    "ppo gpu": ["ppo", "Pendulum-v1", *ON_POLICY, "sampler=gpu", "workers=2"],
    "ppo lstm alternating": [
        "ppo_lstm",
        "rlpyt/CartPoleNoVel-v1",
        *ON_POLICY,
        "sampler=alternating",
        "workers=2",
    ],
    "pqn vector": ["pqn", "CartPole-v1", *ON_POLICY, "sampler=vector"],
    "dqn": ["dqn", "CartPole-v1", *REPLAY, "prioritized_replay=true"],
    "dqn evaluated": ["dqn", "CartPole-v1", *REPLAY, "eval_n_envs=2", "eval_max_steps=40"],
    "iqn": ["iqn", "CartPole-v1", *REPLAY],
    "sac": ["sac", "Pendulum-v1", *REPLAY],
    "td3 cpu": ["td3", "Pendulum-v1", *REPLAY, "sampler=cpu", "workers=2"],
    "sac_discrete": ["sac_discrete", "CartPole-v1", *REPLAY],
}


# Every sampler, and evaluation; a policy and values, with and without memory.
DEFAULT = ["ppo lstm alternating", "pqn vector", "dqn evaluated", "td3 cpu"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS if FULL else DEFAULT)
def test_runs_of_other_algorithms_and_samplers_are_verified(name, tmp_path):
    verdict = verify(train(tmp_path, *RUNS[name]), 9)
    assert not verdict.differences
    assert len(verdict.intervals) == verdict.n_intervals == 4
    assert verdict.n_rows >= 4

"""The configuration tables: every entry builds its run, none shares values with another."""

from __future__ import annotations

import argparse
import csv

import pytest

from rlpyt.experiments import train
from rlpyt.experiments.configs.mujoco.pg import mujoco_ppo
from rlpyt.experiments.configs.tables import changed
from rlpyt.experiments.train import FAMILIES, get_config, parse_change

ENTRIES = [(family, key) for family in FAMILIES for key in FAMILIES[family].configs]


@pytest.mark.parametrize(("family", "key"), ENTRIES)
def test_every_entry_is_accepted_by_its_classes(family, key):
    config = get_config(family, key)
    runner = FAMILIES[family].build_runner(config, affinity={})
    for part, section in ((runner.algo, "algo"), (runner.sampler, "sampler"), (runner, "runner")):
        for name, value in config[section].items():
            assert getattr(part, name) == value, f"{section}.{name}"
    for name, value in config["agent"].items():
        assert getattr(runner.agent, name) == value


@pytest.mark.parametrize(("family", "key"), ENTRIES)
def test_entries_share_nothing(family, key):
    def sections(config):
        return [id(section) for section in config.values()]

    others = [
        other
        for table in {id(f.configs): f.configs for f in FAMILIES.values()}.values()
        for other in table.values()
        if other is not FAMILIES[family].configs[key]
    ]
    mine = set(sections(FAMILIES[family].configs[key]))
    assert not mine.intersection(i for other in others for i in sections(other))


def test_ppo_with_several_environments_keeps_its_minibatches():
    """Two entries were the same dict, so that both had one minibatch and 32 epochs."""
    cpu, one = mujoco_ppo.configs["ppo_1M_cpu"], mujoco_ppo.configs["ppo_32ep_1mb"]
    assert (cpu["algo"]["minibatches"], cpu["algo"]["epochs"]) == (32, 10)
    assert (one["algo"]["minibatches"], one["algo"]["epochs"]) == (1, 32)


def test_changed_copies_deeply():
    base = {"algo": {"sizes": [1, 2]}}
    new = changed(base, algo={"lr": 1}, env={"id": "x"})
    new["algo"]["sizes"].append(3)
    assert base == {"algo": {"sizes": [1, 2]}}
    assert new == {"algo": {"sizes": [1, 2, 3], "lr": 1}, "env": {"id": "x"}}


def test_evaluation_plays_the_game_which_is_trained():
    config = changed(get_config("atari_dqn", "dqn"), env={"game": "breakout"})
    sampler = FAMILIES["atari_dqn"].build_runner(config, affinity={}).sampler
    assert sampler.eval_env_kwargs["game"] == "breakout"
    assert sampler.eval_env_kwargs["episodic_lives"] is False


def test_command_line_trains_and_goes_on(tmp_path):
    args = ["mujoco_ppo", "ppo_1M_serial", "--seed", "3", "--threads", "1", "--save_state", "1"]
    for change in (
        "env.id=InvertedPendulum-v5",
        "algo.minibatches=2",
        "algo.epochs=1",
        "sampler.batch_T=64",
        "runner.log_interval_steps=64",
        "runner.n_steps=128",
    ):
        args += ["--set", change]
    args += ["--log_dir", str(tmp_path)]
    train.main(args)
    train.main([*args, "--set", "runner.n_steps=256", "--resume"])
    with open(tmp_path / "run_0" / "progress.csv", newline="") as file:
        steps = [float(row["Diagnostics/CumSteps"]) for row in csv.DictReader(file)]
    assert steps == [64, 128, 192, 256]


def test_a_run_to_go_on_with_is_named_by_its_whole_path():
    # A relative path was looked for in the working directory, although logs are elsewhere.
    args = ["mujoco_ppo", "ppo_1M_serial", "--set", "env.id=InvertedPendulum-v5"]
    with pytest.raises(ValueError, match="pass an absolute path"):
        train.main([*args, "--resume", "--log_dir", "mine"])


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("algo.learning_rate=1e-3", ("algo", "learning_rate", 1e-3)),
        ("env.game=pong", ("env", "game", "pong")),
        ("algo.double_dqn=true", ("algo", "double_dqn", True)),
    ],
)
def test_changes_are_read_as_json_or_text(text, change):
    assert parse_change(text) == change


@pytest.mark.parametrize("text", ["learning_rate=1", "algo.learning_rate", "=1", ".a=1", "a.=1"])
def test_changes_of_no_form_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="section.key=value"):
        parse_change(text)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["mujoco_pppo", "x"], "invalid choice: 'mujoco_pppo'"),
        (["mujoco_ppo", "x"], "config_key='x' must be one of ppo_1M_serial"),
        (
            ["mujoco_ppo", "ppo_1M_serial", "--set", "alog.epochs=1"],
            "section 'alog' must be one of",
        ),
        (["mujoco_ppo", "ppo_1M_serial", "--resume"], "--log_dir"),
    ],
)
def test_mistakes_on_the_command_line_are_named(args, message, capsys):
    with pytest.raises(SystemExit):
        train.main(args)
    assert message in capsys.readouterr().err

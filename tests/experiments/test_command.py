"""The command ``rlpyt``, as a user types it: what it does, and what it says about wrong input."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import shutil
import sys
from datetime import datetime
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import rlpyt
from rlpyt.checkpoints.store import Checkpoints
from rlpyt.experiments import catalog
from rlpyt.experiments.command import main
from rlpyt.experiments.evaluation import evaluate, find_snapshot, load_agent
from rlpyt.experiments.program import make_affinity, runner_call
from rlpyt.experiments.results.runs import read_params
from rlpyt.experiments.settings import as_name, parse_value
from rlpyt.experiments.sweeps.run import locked
from rlpyt.experiments.train import configuration
from rlpyt.experiments.trained import weights
from rlpyt.processes.machine import look_at_machine
from rlpyt.utils.logging import context
from tests.experiments.parts import MODULE, invoke, refused
from tests.selection import selected

QUICK = ["batch_T=16", "batch_B=4", "minibatches=2", "epochs=1", "hidden_sizes=8", "threads=1"]
REPLAY = ["min_steps_learn=32", "batch_size=8", "replay_size=500", "replay_ratio=1", "threads=1"]


def rows(directory, file="run_0/progress.csv"):
    with (directory / file).open(newline="") as csv_file:
        return list(csv.DictReader(csv_file))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Directory of a short run of PPO on CartPole."""
    directory = tmp_path_factory.mktemp("ppo")
    words = ["CartPole-v1", *QUICK, "--steps", 256, "--seed", 5, "--log-dir", directory]
    output = invoke("train", "ppo", *words)
    assert output.splitlines()[-1] == f"Run: {directory / 'run_0'}"
    return directory / "run_0"


# --- train ----------------------------------------------------------------------------------------


def test_processes_that_train_in_step_share_the_cpus():
    machine = look_at_machine()
    cpus = sorted(machine.cpus)[:2]
    if len(cpus) < 2:
        pytest.skip("one CPU")

    def workers(**settings):
        affinity = make_affinity("sync", "cpu", batch_B=8, processes=2, **settings)
        return [rank["workers_cpus"] for rank in affinity]

    assert workers(cpus=cpus) == [cpus[:1], cpus[1:]]
    assert workers(cpus=cpus, workers=2) == [cpus, cpus]
    assert workers() == [min(8, max(1, machine.n_cpus // 2))] * 2


def test_training_from_nothing_records_what_makes_agent_and_environment(run):
    steps = [int(row["Diagnostics/CumSteps"]) for row in rows(run.parent)]
    assert steps == [64, 128, 192, 256]
    params = json.loads((run / "params.json").read_text())
    assert params["seed"] == 5
    assert params["roles"] == {"algo": "ppo"}
    assert params["env"] == {"id": "CartPole-v1"}
    assert params["algo"]["minibatches"] == 2
    assert params["model"] == {"hidden_sizes": 8}


def test_the_printed_program_does_the_same(run, tmp_path, capfd):
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--steps", 256, "--seed", 5]
    program = tmp_path / "program.py"
    program.write_text(invoke(*words, "--log-dir", tmp_path, "--print"))
    runpy.run_path(str(program), run_name="__main__")
    names = ["ReturnAverage", "lossAverage", "Diagnostics/CumUpdates"]
    first, second = rows(run.parent), rows(tmp_path)
    assert [[r[n] for n in names] for r in first] == [[r[n] for n in names] for r in second]
    first, second = (json.loads((d / "params.json").read_text()) for d in (run, tmp_path / "run_0"))
    first.pop("code")  # The program may be run by another version of the library.
    assert first == second


def test_compiled_updates_are_a_setting_of_the_runner():
    assert "compile=True," in invoke("train", "ppo", "CartPole-v1", "--compile", "--print")
    assert "compile is 'maybe'" in refused("train", "ppo", "CartPole-v1", "runner.compile=maybe")


def test_classes_as_settings_are_printed_as_imports():
    words = ["dqn", "CartPole-v1", "algo.OptimCls=torch.optim.RMSprop", "optim.alpha=0.9"]
    program = invoke("train", *words, "--print")
    assert "from torch.optim import RMSprop\n" in program
    assert "OptimCls=RMSprop," in program
    assert "optim_kwargs={'alpha': 0.9}" in program
    assert "did you mean 'optim.alpha" in refused("train", *words, "optim.alpa=1")
    words = ["dqn", "CartPole-v1", "algo.optim_kwargs=none", "agent.model_kwargs=none"]
    program = invoke("train", *words, "optim.eps=1e-5", "--print")
    assert "optim_kwargs={'eps': 1e-05}," in program
    assert "model_kwargs=None," in program


def test_classes_as_settings_are_recorded_by_their_names(tmp_path):
    words = ["train", "dqn", "CartPole-v1", "algo.OptimCls=torch.optim.RMSprop", *REPLAY]
    words += ["--steps", 64, "--log-dir", tmp_path]
    assert "'OptimCls': 'torch.optim.RMSprop'" in invoke(*words, "--print")
    invoke(*words)
    assert "1 episodes" in invoke("evaluate", tmp_path / "run_0", "--episodes", 1)


SYNC = [("serial", "minibatch"), ("cpu", "minibatch"), ("gpu", "minibatch")]
SYNC += [("alternating", "minibatch"), ("vector", "minibatch"), ("serial", "sync")]
ASYNC = [(sampler, "async") for sampler in ("serial", "cpu", "gpu", "alternating")]


# How each sampler goes with each runner is tested in tests/contracts.
@pytest.mark.parametrize(("sampler", "runner"), selected([*SYNC, *ASYNC], aspects=set))
def test_every_sampler_and_runner(sampler, runner, tmp_path):
    words = ["CartPole-v1", f"sampler={sampler}", f"runner={runner}", *REPLAY]
    words += ["processes=2"] if runner == "sync" else []
    words += [] if sampler in ("serial", "vector") else ["workers=2"]
    invoke("train", "dqn", *words, "--steps", 128, "--seed", 1, "--log-dir", tmp_path)
    assert int(rows(tmp_path)[-1]["Diagnostics/CumSteps"]) >= 128
    params = json.loads((tmp_path / "run_0" / "params.json").read_text())
    assert params["roles"] == {"algo": "dqn", "sampler": sampler, "runner": runner}


def test_environments_step_in_the_process_that_makes_them(tmp_path):
    words = [f"{MODULE}:InOneProcess-v0", *REPLAY, "batch_B=1", "batch_T=4", "--steps", 8]
    invoke("train", "dqn", *words, "env.words={'a'}", "--log-dir", tmp_path)
    params = json.loads((tmp_path / "run_0" / "params.json").read_text())
    assert params["env"]["words"] == ["a"]


@pytest.mark.parametrize(
    "words",
    [
        ["dqn", f"algo={MODULE}.OwnDQN", f"agent={MODULE}.OwnAgent", *REPLAY, "batch_B=2"],
        ["ppo", *QUICK, f"algo={MODULE}.OwnPpo", "agent=generic_lstm"],  # The agent of its base.
        ["ppo", *QUICK, "sampler=vector", "env.num_envs=4"],
    ],
)
def test_roles_and_numbers_of_ones_own_are_set_up_as_a_runner_does_it(words, tmp_path):
    directory = tmp_path / "missing" / "log"
    invoke("train", *words, "CartPole-v1", "--steps", 64, "--log-dir", directory)
    assert int(rows(directory)[-1]["Diagnostics/CumSteps"]) == 64


@pytest.mark.full
def test_spawned_workers_have_the_ids_of_other_packages(tmp_path):
    pytest.importorskip("minatar")
    words = ["MinAtar/Breakout-v1", "sampler=cpu", "workers=1", *REPLAY, "batch_B=1", "--steps", 8]
    words += ["batch_T=4", "sampler.start_method=spawn"]
    invoke("train", "dqn", *words, "--seed", 1, "--log-dir", tmp_path)
    assert int(rows(tmp_path)[-1]["Diagnostics/CumSteps"]) >= 8


def test_vectors_of_atari_games_are_chosen_by_name_and_keep_the_settings_of_games():
    pytest.importorskip("ale_py")
    program = invoke("train", "atari_ff_a2c/sticky", "atari_vector:breakout", "--print")
    assert "EnvCls=AtariVector" in program
    assert "sampler = VectorSampler(" in program
    assert re.search("repeat_action_probability.{,3}0.25", program)
    assert "AtariFfAgent" in invoke("train", "a2c", "atari_vector:pong", "--print")
    assert "atari_vector:" in refused("train", "a2c", "pong", "sampler=vector", "--print")
    assert "sampler=vector" in refused("train", "a2c", "atari_vector:pong", "sampler=cpu")
    assert "'pong'" in refused("train", "a2c", "atari_vector:pnog")


def test_environments_of_envpool_are_trained_on_and_evaluated(tmp_path):
    pytest.importorskip("envpool")
    words = ["envpool:CartPole-v1", *QUICK, "--steps", 64, "--log-dir", tmp_path]
    invoke("train", "ppo", *words, "env.max_episode_steps=20")
    assert "10 episodes" in invoke("evaluate", tmp_path / "run_0", "--episodes", 10)
    assert max(float(r["Length"]) for r in rows(tmp_path, "run_0/params_evaluation.csv")) <= 20
    assert "draws no pictures" in refused(
        "watch", tmp_path / "run_0", "--video", tmp_path / "x.gif"
    )
    assert "use sampler=vector, not cpu" in refused("train", "ppo", *words, "sampler=cpu")
    assert "did you mean 'CartPole-v1" in refused("train", "ppo", "envpool:CartPol-v1")
    assert "keyword argument 'size'" in refused("train", "ppo", words[0], "env.size=3")


def test_settings_are_listed_with_types_and_values():
    lines = invoke("train", "ppo", "CartPole-v1", "discount=0.9", "--settings").splitlines()
    words = {line.split()[0]: line.split()[1:] for line in lines}
    assert words["algo.discount"] == ["a", "number", "0.9"]
    assert words["sampler.batch_B"] == ["a", "whole", "number", "8"]


@pytest.mark.parametrize(
    ("given", "eps"), [(["algo.batch_size=100"], "0.0001"), (["optim.eps=0.5"], "0.5")]
)
def test_settings_of_the_optimizer_are_those_that_the_algorithm_passes(given, eps):
    # They were the defaults of torch.
    text = invoke("train", "dqn", "CartPole-v1", *given, "--settings")
    assert next(x.split()[-1] for x in text.splitlines() if x.startswith("optim.eps")) == eps


def test_examples_in_the_help_have_lines_of_their_own():
    lines = [line.strip() for line in invoke("train", "--help").splitlines()]
    assert "rlpyt train ppo CartPole-v1" in lines
    assert "[default: 0]" in " ".join(lines)


def test_shell_completion():
    complete = ShellComplete(main, {}, "rlpyt", "_RLPYT_COMPLETE").get_completions
    assert "ppo" in [item.value for item in complete(["train"], "pp")]
    assert "CartPole-v1" in [item.value for item in complete(["train", "ppo"], "CartPole")]
    items = complete(["train", "ppo", "CartPole-v1"], "algo.lea")
    assert [item.value for item in items] == ["algo.learning_rate="]


# --- list, evaluate and watch ---------------------------------------------------------------------


def test_list():
    assert invoke("list", "algorithms").split() == list(catalog.ALGORITHMS)
    assert invoke("list", "entries", "ernbw").split() == ["atari_dqn/ernbw"]
    assert "CartPole-v1" in invoke("list", "environments", "cartpole").split()
    assert "vector" in invoke("list", "samplers").split()
    assert "ppo agent=generic_lstm" in invoke("list", "agents").splitlines()
    assert "ppo/CartPole-v1" in invoke("list", "zoo").split()
    assert "runners (3)" in invoke("list")


@pytest.mark.parametrize("episodes", [1, 13])
def test_evaluation_is_of_exactly_so_many_episodes(run, episodes, tmp_path):
    words = ["--episodes", episodes, "--seed", 1, "--csv", tmp_path / "episodes.csv"]
    output = invoke("evaluate", run, *words)
    table = rows(tmp_path, "episodes.csv")
    assert len(table) == episodes
    returns = [float(row["Return"]) for row in table]
    line = next(line for line in output.splitlines() if line.startswith("Return"))
    spread = np.std(returns, ddof=1) if episodes > 1 else np.nan
    expected = [np.mean(returns), spread, min(returns), np.median(returns), max(returns)]
    shown = [float(number) for number in line.split()[1:]]
    assert shown == pytest.approx(expected, rel=1e-3, nan_ok=True)
    invoke("evaluate", run / "params.pkl", *words)
    assert [float(row["Return"]) for row in rows(tmp_path, "episodes.csv")] == returns


def test_evaluation_makes_classes_of_the_environment(tmp_path):
    words = [f"{MODULE}.Rewarding", "env.RewardCls=numpy.float32", *QUICK, "--steps", 64]
    invoke("train", "ppo", *words, "--log-dir", tmp_path)
    assert "3 episodes" in invoke("evaluate", tmp_path / "run_0", "--episodes", 3)
    assert rlpyt.load(tmp_path / "run_0").spaces.action.n == 2


def test_evaluation_has_the_settings_of_training_and_an_environment_of_its_own(tmp_path):
    words = ["CartPole-v1", "replay_size=1000", "threads=1", "--steps", 1, "--log-dir", tmp_path]
    words += ["eval_env.max_episode_steps=5", f"TrajInfoCls={MODULE}.CountedBackwards"]
    invoke("train", "dqn", *words)  # Its discount is the default of the class.
    invoke("evaluate", tmp_path / "run_0", "--episodes", 1, "--csv", tmp_path / "episodes.csv")
    (row,) = rows(tmp_path, "episodes.csv")
    assert (row["Length"], row["Backwards"]) == ("5", "-5")
    assert float(row["DiscountedReturn"]) == pytest.approx(sum(0.99**t for t in range(5)))
    # A snapshot of the first iteration is evaluated as later ones, without random actions.
    first = load_agent(tmp_path / "run_0")
    later = first._replace(snapshot={**first.snapshot, "itr": 1})
    whole = {"eval_env_kwargs": {"id": "CartPole-v1"}}
    assert first.snapshot["itr"] == 0
    assert evaluate(first, 4, 1, **whole) == evaluate(later, 4, 1, **whole)


def test_the_newest_snapshot_is_found(tmp_path):
    for itr in (9, 10):
        (tmp_path / f"itr_{itr}.pkl").touch()
    assert find_snapshot(tmp_path).name == "itr_10.pkl"
    (tmp_path / "params.pkl").touch()
    assert find_snapshot(tmp_path).name == "params.pkl"


@pytest.mark.slow
def test_video_has_a_picture_for_every_step(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("MUJOCO_GL", "")  # Restored after the test.
    monkeypatch.delenv("MUJOCO_GL")
    imageio = pytest.importorskip("imageio.v3")
    pytest.importorskip("av")
    words = [f"{MODULE}:Discrete-v0", *QUICK, "--steps", 64, "--log-dir", tmp_path]
    invoke("train", "ppo", *words)
    # A step is 40 brighter than the one before.
    expected = [min(255, 40 * t) for _ in range(2) for t in range(7)]
    for ending, plugin in (("gif", None), ("mp4", "pyav")):
        video = tmp_path / f"video.{ending}"
        watch = ["watch", tmp_path / "run_0", "--video", video, "--seed", 1]
        invoke(*watch, "--episodes", 2)
        frames = imageio.imread(video, plugin=plugin)
        assert frames.shape == (14, 128, 96, 3)
        np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), expected, atol=3)
    assert os.environ["MUJOCO_GL"] == "egl"  # It looked for a screen, and failed without one.
    assert "Return" in invoke(*watch, "--episodes", 3, "--max-frames", 10, "--shrink", 4)
    frames = imageio.imread(video, plugin="pyav")
    assert frames.shape == (10, 32, 24, 3)
    np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), expected[:10], atol=3)


# --- No input -------------------------------------------------------------------------------------


def test_without_words_it_shows_commands_to_begin_with():
    shown = re.findall(r"^  rlpyt (\w+)", invoke(), re.M)
    assert shown == ["train", "watch", "plot", "doctor", "list"]
    assert set(shown) <= set(main.commands)


def test_the_printed_program_warns_too():
    # It left out --watch.
    program = invoke("train", "ppo", "CartPole-v1", "--watch", "--print")
    assert "from rlpyt.experiments.health import Watch\n" in program
    assert "callbacks=[Watch()]," in program


def test_a_list_of_nothing_is_a_failure():
    # It was empty.
    result = CliRunner().invoke(main, ["list", "entries", "nope"])
    assert result.exit_code == 1
    assert "none of the entries contains 'nope'" in result.output


# --- Wrong input ----------------------------------------------------------------------------------


CARTPOLE = ["ppo", "CartPole-v1"]
DQN = ["dqn", "CartPole-v1"]


PHRASES = ("did_you_mean", "at_least_1", "without_spaces")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["pppo", "CartPole-v1"], "pppo did_you_mean ppo"),
        (["atari_dqn/erainbow"], "atari_dqn/erainbow did_you_mean atari_dqn"),
        (["ppo"], "CartPole-v1"),
        (["ppo", "CartPol-v1"], "CartPol-v1 did_you_mean CartPole-v1"),
        (["dqn", "pongg"], "pongg did_you_mean pong"),
        ([*CARTPOLE, "Acrobot-v1"], "Acrobot-v1"),
        ([*CARTPOLE, "env=Acrobot-v1"], "Acrobot-v1"),
        ([*CARTPOLE, "sampler=cpuu"], "cpuu did_you_mean cpu"),
        ([*CARTPOLE, "runner=asink"], "asink did_you_mean async"),
        ([*CARTPOLE, "agent=mojoco"], "mojoco did_you_mean mujoco"),
        ([*CARTPOLE, "agent=my.Agent"], "my.Agent"),
        ([*CARTPOLE, "algo.learning_rat=1"], "learning_rat did_you_mean algo.learning_rate"),
        ([*CARTPOLE, "learning_rat=1"], "learning_rat did_you_mean learning_rate"),
        ([*CARTPOLE, "total_timesteps=1e5"], "total_timesteps did_you_mean 'steps'"),
        ([*CARTPOLE, "algo.gamma=1"], "gamma did_you_mean algo.discount"),
        (["sac", "Pendulum-v1", "ent_coef=0.2"], "ent_coef did_you_mean fixed_alpha"),
        ([*CARTPOLE, "steps=1e4"], "steps=1e4 --steps"),
        ([*CARTPOLE, "log_dir=x"], "log_dir=x --log-dir"),
        ([*CARTPOLE, "alg.discount=1"], "alg did_you_mean algo"),
        (["ppo", "algo.discount"], "algo.discount"),
        ([*CARTPOLE, "=3"], "'=3' name=value"),
        ([*CARTPOLE, "discount=high"], "algo.discount='high' number"),
        ([*CARTPOLE, "epochs=1.5"], "algo.epochs=1.5 whole"),
        ([*CARTPOLE, "normalize_advantage=1"], "normalize_advantage true false"),
        ([*DQN, "delta_clip=x"], "algo.delta_clip='x' number none"),
        (["r2d1", "CartPole-v1", "batch_B=4"], "algo.batch_B sampler.batch_B"),
        (["d4pg", "Pendulum-v1"], "algo.V_min algo.V_max"),
        ([*CARTPOLE, "runner=async"], "runner=async"),
        (["impala", "CartPole-v1", "runner=sync"], "IMPALA AsyncRl SyncRl"),
        (["impala", "CartPole-v1", "replay_ratio=2"], "replay_ratio"),
        (["impala", "CartPole-v1", "processes=2"], "affinity['optimizer'] IMPALA"),
        ([*DQN, "runner=async", "sampler=vector"], "sampler=vector"),
        ([*CARTPOLE, "env.size=3"], "'size'"),
        ([*CARTPOLE, "sampler=vector", "env.size=3"], "'size'"),
        ([*CARTPOLE, "sampler=cpu", "cpus=[4095]"], "4095"),
        ([*CARTPOLE, "gpus=99"], "affinity.gpus=[99]"),
        ([*CARTPOLE, "processes=2"], "runner=sync"),
        ([*CARTPOLE, "batch_T=0"], "batch_T"),
        ([*CARTPOLE, "batch_B=-4"], "batch_B -4 at_least_1"),
        ([*CARTPOLE, "model.hidden_sizes=[-4]"], "hidden_sizes [-4] at_least_1"),
        ([*DQN, "replay_size=1e15"], "replay_size memory"),
        ([*CARTPOLE, "--steps", "nan"], "--steps=nan"),
        ([*CARTPOLE, "--steps", "inf"], "--steps=inf"),
        ([*CARTPOLE, "--run-id", "../x"], "'../x' slash"),
        ([*CARTPOLE, "--log-dir", ""], "log_dir='' empty"),
        ([*CARTPOLE, "discount", "=", "0.5"], "discount without_spaces"),
        ([*CARTPOLE, "threads=0"], "affinity.threads=0"),
        ([*CARTPOLE, "epochs=1", "algo.epochs=2"], "algo.epochs twice"),
        ([*CARTPOLE, "sampler=cpu", "sampler=gpu"], "sampler twice"),
        ([*DQN, "replay_size=10"], "replay_size"),
        ([*CARTPOLE, "--steps", 64, "n_steps=32"], "steps=64 n_steps=32 batch_T"),
        (["ppo", f"{MODULE}.Everything"], f"{MODULE}:Everything"),
        ([*DQN, "runner=async", "discount=2"], "discount"),
        ([*CARTPOLE, "agent=generic_lstm", "minibatches=9"], "minibatches"),
        ([*DQN, "OptimCls=5"], "algo.OptimCls=5"),
        ([*DQN, "algo.OptimCls=5", "alpha=1"], "5"),
        (["sac", "CartPole-v1"], "SacAgent"),
    ],
)
def test_wrong_input_is_refused_with_its_name(words, named, tmp_path):
    message = refused("train", "--log-dir", tmp_path / "log", *words)
    assert all(name.replace("_", " ") in message for name in named.split() if name in PHRASES)
    assert all(name in message for name in named.split() if name not in PHRASES)
    assert not (tmp_path / "log" / "run_0").exists()


def test_replay_buffers_are_chosen_by_name():
    expected = "rlpyt.replays.non_sequence.prioritized.PrioritizedReplayBuffer"
    assert as_name("PrioritizedReplayBuffer") == expected
    assert as_name(expected) == expected


@pytest.mark.parametrize(
    ("algo", "word", "named"),
    [
        ("pqn", "ReplayBufferCls=some.Buffer", "'ReplayBufferCls'"),
        ("dqn", "ReplayBufferCls=some.Buffer", "'some.Buffer'"),
        ("dqn", "ReplayBufferCls=Buffer", "full name"),
        ("pqn", "qqq=1", "closest"),
        ("ppo", "lr=3", "unknown setting 'lr'"),
        ("pqn", "sampler=qqq", "alternating, cpu, device, gpu"),
    ],
)
def test_refusals_of_names_fit_in_a_line(algo, word, named):
    message = refused("train", algo, "CartPole-v1", word)
    assert named in message
    assert len(message.rpartition("Error: ")[2]) < 120


def test_an_error_after_the_start_keeps_its_traceback(tmp_path):
    words = [f"{MODULE}:Falling-v0", "batch_B=1", "batch_T=10", "threads=1", "--log-dir", tmp_path]
    with pytest.raises(ValueError, match="the pole fell"):
        invoke("train", "a2c", *words)
    assert "the pole fell" in (tmp_path / "run_0" / "debug.log").read_text()


@pytest.mark.parametrize(
    ("missing", "words", "command"),
    [
        ("ale_py", ["dqn", "pong"], "pip install 'rlpyt[atari]'"),
        ("ale_py", ["dqn", "ALE/Pong-v5"], "pip install 'rlpyt[atari]'"),
        ("minatar", ["dqn", "MinAtar/Breakout-v1"], "pip install 'rlpyt[minatar]'"),
        ("mujoco", ["sac", "Hopper-v5"], "pip install 'rlpyt[mujoco]'"),
        ("envpool", ["dqn", "envpool:Pong-v5"], "pip install 'rlpyt[envpool]'"),
        ("brax", ["sac", "brax:ant"], "pip install 'rlpyt[brax]'"),
        ("mujoco_playground", ["sac", "playground:Ant"], "pip install 'rlpyt[playground]'"),
        ("gymnax", ["dqn", "gymnax:CartPole-v1"], "pip install 'rlpyt[gymnax]'"),
        ("isaaclab", ["ppo", "isaac:Isaac-Ant-v0"], "--extra-index-url https://pypi.nvidia.com"),
        ("mani_skill", ["ppo", "maniskill:PickCube-v1"], "pip install mani_skill"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(missing, words, command, monkeypatch):
    def find(name):
        return None if name == missing else find_spec(name)

    monkeypatch.setattr(catalog, "find_spec", find)
    assert command in refused("train", *words)


def test_the_log_of_another_run_is_not_overwritten(run):
    before = (run / "progress.csv").read_bytes()
    words = ["train", "ppo", "CartPole-v1", "--log-dir", run.parent]
    assert "has the log of another run" in refused(*words)
    assert (run / "progress.csv").read_bytes() == before


def test_a_run_that_cannot_start_leaves_what_was_there(tmp_path):
    words = ["train", "sac", "CartPole-v1", "--log-dir"]
    (tmp_path / "run_0" / "checkpoints").mkdir(parents=True)
    assert "SacAgent" in refused(*words, tmp_path, "--resume")
    assert (tmp_path / "run_0" / "checkpoints").exists()
    (tmp_path / "file").touch()
    assert "file" in refused(*words, tmp_path / "file")
    new = ("ppo", "CartPole-v1", "hidden_sizes=[1000000000000000]", "--log-dir", tmp_path / "new")
    with pytest.raises(RuntimeError):  # Of torch, which does not name the setting.
        invoke("train", *new)
    assert not (tmp_path / "new" / "run_0").exists()


def test_runs_that_start_in_the_same_second_have_a_directory_each(tmp_path, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr(context, "datetime", Clock)
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path))
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--steps", 64, "--seed", 5]
    assert "/030405/ppo_CartPole-v1'" in invoke(*words, "--print")
    for second in ("030405", "030405-2"):
        directory = tmp_path / "local" / "20260102" / second / "ppo_CartPole-v1"
        assert f"Run: {directory / 'run_0'}" in invoke(*words)
        assert len(rows(directory)) == 1


def test_a_run_is_resumed_with_its_seed(tmp_path):
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--log-dir", tmp_path, "--resume"]
    words += ["log_interval_steps=64", "linear_lr_schedule=false", "--checkpoint-steps", 64]
    invoke(*words, "--steps", 128, "--seed", 7)
    invoke(*words, "--steps", 256)
    assert [int(row["Diagnostics/CumSteps"]) for row in rows(tmp_path)] == [64, 128, 192, 256]
    assert json.loads((tmp_path / "run_0" / "params.json").read_text())["seed"] == 7
    whole = tmp_path / "whole"
    words[words.index("--log-dir") + 1] = whole
    invoke(*words, "--steps", 256, "--seed", 7)
    assert [r["lossAverage"] for r in rows(whole)] == [r["lossAverage"] for r in rows(tmp_path)]
    # It may go on with other resources, but not as another run.
    words[words.index("threads=1")] = "threads=2"
    invoke(*words, "--steps", 320)
    assert int(rows(whole)[-1]["Diagnostics/CumSteps"]) == 320
    assert "another run (algo.discount=None now 0.5)" in refused(*words, "discount=0.5")
    assert "another run (env.id=CartPole-v1 now Acrobot-v1)" in refused(
        *words[:2], "Acrobot-v1", *words[3:]
    )
    assert "another run (seed=7 now 8)" in refused(*words, "--seed", 8)
    (whole / "run_0" / "params.json").write_text("{}")  # As that of a program.
    assert "another run (roles." in refused(*words)


def test_a_run_with_a_damaged_manifest_is_not_begun_anew(tmp_path):
    """It was, over the log of the run; with an older checkpoint, from that one."""
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--log-dir", tmp_path, "--resume"]
    invoke(*words, "--steps", 64, "--seed", 7)
    before = rows(tmp_path)
    *_, manifest = sorted((tmp_path / "run_0" / "checkpoints").glob("*/manifest.json"))
    manifest.write_bytes(manifest.read_bytes()[:300])
    assert "is damaged: manifest.json" in refused(*words, "--steps", 128)
    assert rows(tmp_path) == before


def test_a_run_that_was_killed_at_its_start_begins_anew_and_has_its_directory_to_itself(tmp_path):
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--log-dir", tmp_path, "--resume"]
    invoke(*words, "--steps", 64, "--seed", 7)
    shutil.rmtree(tmp_path / "run_0" / "checkpoints")
    (tmp_path / "run_0" / "progress.csv").write_text("")
    invoke(*words, "--steps", 64)
    assert len(rows(tmp_path)) == 1
    # A second process used to take over the log, in which rows of the first were missing.
    before = (tmp_path / "run_0" / "progress.csv").read_bytes()
    with locked(str(tmp_path / "run_0")):
        assert "at work" in refused(*words, "--steps", 128)
    assert (tmp_path / "run_0" / "progress.csv").read_bytes() == before
    invoke(*words, "--steps", 128)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[true,null]", [True, None]),
        ('{"wind": false, "x": [1, 2.5]}', {"wind": False, "x": [1, 2.5]}),
        ("{'wind': False}", {"wind": False}),
        ("1e-3", 1e-3),
        ("[true", "[true"),
        ("NaN", "NaN"),
    ],
)
def test_values_are_literals_of_python_or_json(text, value):
    assert parse_value(text) == value


def test_a_run_without_checkpoints_is_not_resumed(run):
    words = ["train", "ppo", "CartPole-v1", *QUICK]
    assert "without checkpoints" in refused(*words, "--log-dir", run.parent, "--resume")
    (run / "checkpoints").mkdir()  # Somebody removed all checkpoints in it.
    try:
        assert "without checkpoints" in refused(*words, "--log-dir", run.parent, "--resume")
    finally:
        (run / "checkpoints").rmdir()
    assert "need the --log-dir" in refused(*words, "--resume")


def test_plot(run, tmp_path):
    pytest.importorskip("matplotlib")
    output = invoke("plot", f"PPO={run}", "--output", tmp_path / "plots")
    assert "CartPole-v1  PPO " in output  # Not the name of the directory.
    assert (tmp_path / "plots" / "curves.png").stat().st_size > 1000
    assert (tmp_path / "plots" / "curves.svg").exists()
    options = ["--statistic", "median", "--confidence", "0.5", "--range", "CartPole-v1=0:500"]
    output = invoke("plot", run.parent, "--output", tmp_path / "other", *options)
    assert "median" in output
    assert "50% interval" in output
    wrong = ["plot", run.parent, "--output", tmp_path / "wrong"]
    assert "give TASK=LOW:HIGH" in refused(*wrong, "--range", "CartPole-v1=0")
    assert "give two numbers, the lower" in refused(*wrong, "--range", "CartPole-v1=500:500")
    assert "lacks the task 'CartPole-v1'" in refused(*wrong, "--range", "CartPole=0:1")
    assert "did you mean 'ReturnAverage'" in refused(*wrong, "--column", "RetrunAverage")
    assert "has no run" in refused("plot", tmp_path / "plots")
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["sampler=cpu", "workers=1", "sampler.on_worker_failure=restart"],
        ["runner=sync", "runner.start_method=spawn"],
    ],
)
def test_settings_that_only_training_has_leave_evaluation_alone(words, tmp_path):
    pytest.importorskip("imageio")
    words = [f"{MODULE}:Discrete-v0", *QUICK, *words, "--steps", 64, "--log-dir", tmp_path]
    invoke("train", "ppo", *words)
    assert "2 episodes" in invoke("evaluate", tmp_path / "run_0", "--episodes", 2)
    invoke("watch", tmp_path / "run_0", "--video", tmp_path / "x.gif")


def test_a_snapshot_of_a_gpu_is_loaded_without_one(run, tmp_path, monkeypatch):
    shutil.copytree(run, tmp_path / "run")
    snapshot = torch.load(run / "params.pkl")
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        torch.save(snapshot, tmp_path / "run" / "params.pkl")
    words = ["--episodes", 3, "--seed", 1]
    invoke("evaluate", run, *words, "--csv", tmp_path / "cpu.csv")
    invoke("evaluate", tmp_path / "run", *words, "--csv", tmp_path / "gpu.csv")
    assert rows(tmp_path, "cpu.csv") == rows(tmp_path, "gpu.csv")


def test_statistics_are_printed_even_if_their_table_cannot_be_written(run, tmp_path):
    message = refused("evaluate", run, "--episodes", 3, "--csv", tmp_path)
    assert "Return " in message
    assert "Is a directory" in message


def test_a_package_that_gymnasium_lacks_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert "pip install" in refused("watch", run, "--video", run / "x.gif")


def test_export_lists_inputs_and_outputs(run, tmp_path):
    lines = [line.split() for line in invoke("export", run, tmp_path / "x.pt2").splitlines()]
    assert ["input", "observation", "float32", "[B,4]"] in lines
    assert ["output", "action", "int64", "[B]"] in lines
    assert (tmp_path / "x.pt2").stat().st_size > 1000
    assert "ending" in refused("export", run, tmp_path / "x.txt")
    assert "has no snapshot" in refused("export", tmp_path, tmp_path / "x.pt2")


def test_watching_needs_a_screen_or_a_file(run, monkeypatch):
    # Without a screen it failed in pygame, and options of videos did nothing.
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert "SDL_VIDEODRIVER are not set: give --video FILE.gif" in refused("watch", run)
    assert "--shrink: this is for videos" in refused("watch", run, "--shrink", 2)


def test_evaluation_of_what_is_no_run(run, tmp_path):
    assert "there are some in" in refused("evaluate", run.parent)
    assert "has no snapshot" in refused("evaluate", tmp_path)
    assert "does not exist" in refused("evaluate", tmp_path / "x")
    assert "give zoo:ppo/CartPole-v1" in refused("evaluate", "ppo/CartPole-v1")
    assert "use '.mp4' or '.gif'" in refused("watch", run, "--video", "x.avi")


def test_damaged_snapshots_and_snapshots_of_others_are_named(run, tmp_path):
    # They were tracebacks, or lines without the file.
    shutil.copytree(run, tmp_path / "run")
    snapshot, params = tmp_path / "run" / "params.pkl", tmp_path / "run" / "params.json"
    whole = snapshot.read_bytes()
    for content in (b"", whole[:5000], b"hello", params.read_bytes()):
        snapshot.write_bytes(content)
        assert f"{snapshot} is damaged" in refused("evaluate", snapshot.parent)
    snapshot.write_bytes(whole)
    params.write_text(params.read_text().replace('"hidden_sizes": 8', '"hidden_sizes": 9'))
    assert "of another agent" in refused("evaluate", snapshot.parent)
    params.write_text(params.read_text()[:100])
    assert f"{params} is damaged" in refused("evaluate", snapshot.parent)
    snapshot.rename(snapshot.with_name("itr_best.pkl"))
    assert "has no snapshot" in refused("evaluate", snapshot.parent)


def test_a_dictionary_changes_the_entries_that_it_names():
    pytest.importorskip("minatar")
    word = "model.image_kwargs={'channels': [32]}"
    given = configuration("dqn", ["MinAtar/Breakout-v1", word])["model"]["image_kwargs"]
    default = configuration("dqn", ["MinAtar/Breakout-v1"])["model"]["image_kwargs"]
    assert given == {**default, "channels": [32]}
    variant = {"model": {"image_kwargs": {"channels": [32]}}}  # As a sweep has it.
    in_sweep = configuration("dqn", ["MinAtar/Breakout-v1"], variant=variant)
    assert in_sweep["model"]["image_kwargs"] == given


def test_keywords_of_model_and_optimizer_precede_those_of_an_entry():
    """They are in two sections, of which the entry's used to win."""
    words = ["CartPole-v1", "agent.model_kwargs={'hidden_sizes': [8]}", "optim_kwargs={'eps': 1}"]
    config = configuration("pqn", words)
    roles = runner_call(config, 0).kwargs
    assert roles["agent"].kwargs["model_kwargs"]["hidden_sizes"] == [8]
    assert roles["algo"].kwargs["optim_kwargs"]["eps"] == 1


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *[("sweep", f"--{name}", 0) for name in ("seeds", "slots", "cpus-per-run", "trials")],
        ("sweep", "--gpus-per-run", 0),
        ("sweep", "--gpus", -1),
        ("sweep", "--time-limit", 0),
        ("doctor", "--seconds", 0),
        ("train", "--steps", 0.5),
        ("train", "--checkpoint-steps", 0),
        ("evaluate", "--episodes", 0),
        ("watch", "--episodes", 0),
        ("watch", "--max-frames", 0),
        ("plot", "--smooth", 0),
    ],
)
def test_numbers_out_of_range_are_refused(command, option, value):
    message = refused(command, "x", option, value)
    assert f"Invalid value for '{option}'" in message
    assert "is not in the range" in message


def test_settings_and_roles_may_come_in_any_order():
    words = ["algo.prioritized_replay=true", "sampler=gpu", "eval_env.episodic_lives=true"]
    one = configuration("atari_dqn/dqn", ["breakout", *words])
    two = configuration("atari_dqn/dqn", [*reversed(words), "env=breakout"])
    assert one == two
    assert one["env"]["game"] == "breakout"


# --- Start from another run -----------------------------------------------------------------------

TINY_DQN = ("dqn", "CartPole-v1", "batch_size=8", "replay_size=500", "log_interval_steps=64")
TINY_DQN += ("threads=1",)


def test_a_run_starts_with_the_weights_and_the_replay_buffer_of_another(tmp_path):
    first = ["train", *TINY_DQN, "hidden_sizes=8", "algo.min_steps_learn=64", "--steps", 256]
    invoke(*first, "--log-dir", tmp_path / "a", "--resume", "--seed", 1)
    run = tmp_path / "a" / "run_0"
    # Not trained: all steps only fill the buffer.
    again = ["train", *TINY_DQN, "algo.min_steps_learn=1e6", "--steps", 64, "--seed", 2]
    second = [*again, "hidden_sizes=8"]
    invoke(*second, "--log-dir", tmp_path / "b", "--init", run, "--resume", "--init-replay")
    states = [weights(tmp_path / name / "run_0") for name in "ab"]
    for name, value in states[0]["model"].items():
        assert torch.equal(states[1]["model"][name], value)
    buffers = [
        Checkpoints(tmp_path / name / "run_0" / "checkpoints").load()["algo"]["replay_buffer"]
        for name in "ab"
    ]
    assert [4 * buffer["window"]["t"] for buffer in buffers] == [256, 320]
    last = ["--log-dir", tmp_path / "b", "--resume"]
    invoke(*second, *last)
    assert read_params(tmp_path / "b" / "run_0" / "params.json")["init"] == str(run)
    assert "init=" in refused(*second, *last, "--init", tmp_path / "b" / "run_0")
    assert "--init=" in invoke(*second, "--init", run, "--init-replay", "--print")
    assert "initial_model_state_dict" in refused(*again, "hidden_sizes=16", "--init", run)
    assert "--init RUN" in refused(*second, "--init-replay")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(run / "params.pkl", bare)
    assert "no checkpoint" in refused(*second, "--init", bare, "--init-replay")

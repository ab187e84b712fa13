"""Runs as objects: trained by name, read, drawn, evaluated, printed as a program."""

import json
import runpy
import shutil
import signal
from base64 import b64encode
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import Catch
from rlpyt.experiments.settings import parameters
from rlpyt.experiments.trained import weights
from rlpyt.experiments.until import Setting
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging import context

SMALL = dict(steps=200, batch_T=10, batch_B=2, minibatches=1, epochs=1, log_interval_steps=100)


class Bandit(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.ones(3, np.float32), float(action), True, False, {}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    log_dir = tmp_path_factory.mktemp("ppo")
    return rlpyt.train("ppo", "CartPole-v1", seed=3, log_dir=log_dir, learning_rate=1e-3, **SMALL)


def test_progress_has_the_columns_of_the_log(run):
    steps = run.progress["Diagnostics/CumSteps"]
    assert steps.tolist() == [100, 200]
    assert run.progress["ReturnAverage"].shape == steps.shape
    assert run.params["algo"]["learning_rate"] == 1e-3
    assert repr(run) == f"Run({str(run.directory)!r})"


def test_a_class_that_a_notebook_defines_again_has_its_new_settings(monkeypatch):
    for name in ("bonus", "scale"):
        cls = type("Again", (), {"__init__": eval(f"lambda self, {name}=1: None")})
        monkeypatch.setitem(globals(), "Again", cls)
        assert set(parameters(f"{__name__}.Again")[0]) == {name}


def test_more_seeds_of_a_setting_can_be_trained(run, tmp_path):
    # They were refused, since the run did not name its version of the library.
    directory = shutil.copytree(run.directory.parent, tmp_path / "setting")
    assert Setting(directory).train(4).name == "run_4"


class BoldPPO(PPO):
    def combine_losses(self, *terms):
        loss, entropy, perplexity = super().combine_losses(*terms)
        return loss + 100, entropy, perplexity


def test_a_class_of_the_program_is_a_role(tmp_path):
    run = rlpyt.train("ppo", "CartPole-v1", algo=BoldPPO, log_dir=tmp_path, **SMALL)
    assert run.progress["lossAverage"][-1] > 50
    with pytest.raises(ValueError, match="cannot be imported"):
        rlpyt.train("ppo", "CartPole-v1", algo=type("Lost", (PPO,), {}), **SMALL)


def test_an_environment_that_is_made_already_is_refused():
    with pytest.raises(TypeError, match="is an object, but every process makes its own"):
        rlpyt.train("ppo", Bandit(), **SMALL)


def test_the_agent_acts_and_is_evaluated(run):
    observation = np.zeros(4, np.float32)
    actions = {run.agent.act(observation, deterministic=True)[0] for _ in range(3)}
    assert actions in ({0}, {1})
    returns = run.evaluate(3, seed=1)["Return"]
    assert 8 <= returns["min"] <= returns["max"] <= 500
    assert run.evaluate(3, seed=1)["Return"] == returns


def test_a_picture_is_drawn_and_written(run, tmp_path):
    figure = run.plot("ReturnAverage", tmp_path / "new" / "curve.png")
    assert figure.axes[0].lines
    assert (tmp_path / "new" / "curve.png").stat().st_size > 1000
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("ending", "words"), [("gif", '<img src="data:image/gif;'), ("mp4", "<video controls src=")]
)
def test_a_notebook_shows_a_video(run, tmp_path, ending, words):
    for package in ("imageio", "av", "pygame"):
        pytest.importorskip(package)
    video = run.video(tmp_path / f"cartpole.{ending}", seed=1)
    assert video == tmp_path / f"cartpole.{ending}"
    shown = video._repr_html_()
    assert shown.startswith(words)
    assert b64encode(video.read_bytes()).decode() in shown


def test_a_video_of_no_episode_is_refused(run):
    with pytest.raises(ValueError, match="n_episodes=0: give at least 1"):
        run.video("v.gif", 0)


def test_its_program_makes_the_same_run(run, tmp_path, monkeypatch):
    # It wrote over run_0 of the same directory.
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path))
    text = run.program()
    assert str(run.directory) not in text.partition("def main")[2]
    (tmp_path / "program.py").write_text(text)
    runpy.run_path(tmp_path / "program.py", run_name="__main__")
    (record,) = tmp_path.rglob("run_0/params.json")
    again = rlpyt.Run(record.parent)
    for name, values in run.progress.items():
        if "Time" not in name and "PerSecond" not in name:
            np.testing.assert_equal(again.progress[name], values, err_msg=name)


@pytest.mark.parametrize("environment", [Bandit, Catch])
def test_classes_of_a_program_are_environments(environment, tmp_path):
    counted = []

    class Count(Callback):
        def on_itr(self, runner, itr, *args):
            counted.append(itr)

    run = rlpyt.train(
        "a2c",
        environment,
        steps=40,
        log_dir=tmp_path,
        callbacks=[Count()],
        model={"hidden_sizes": [4]} if environment is Bandit else {},
        sampler={"batch_T": 5, "batch_B": 2},
    )
    assert counted == [0, 1, 2, 3]
    assert run.progress["Diagnostics/CumSteps"][-1] == 40


def test_a_class_of_a_module_is_found_by_later_programs(tmp_path):
    run = rlpyt.train("a2c", Bandit, steps=40, log_dir=tmp_path, batch_T=5, batch_B=2)
    assert run.params["env"]["id"] == f"{__name__}:Bandit"
    del gymnasium.registry["Bandit"]
    assert rlpyt.Run(run.directory).evaluate(1)["Length"]["mean"] == 1


def test_a_class_that_no_module_has_belongs_to_this_program(tmp_path):
    class Local(Bandit):
        pass

    run = rlpyt.train("a2c", Local, steps=40, log_dir=tmp_path, batch_T=5, batch_B=2)
    assert run.params["env"]["id"] == "program/Local-v0"
    del gymnasium.registry["program/Local-v0"]
    with pytest.raises(ValueError, match="not registered.* my_module:MyEnv"):
        run.evaluate(1)


class Lucky(Bandit):
    def step(self, action):
        *result, info = super().step(action)
        return (*result, {**info, "is_success": True})


def test_evaluation_has_the_rate_of_successes(tmp_path):
    run = rlpyt.train("a2c", Lucky, steps=40, log_dir=tmp_path, batch_T=5, batch_B=2)
    assert run.evaluate(3)["SuccessRate"]["mean"] == 1


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("no_module.MyEnv", "finds no module 'no_module'"),
        ("rlpyt.envs.toy:MyEnv", "rlpyt.envs.toy has no class MyEnv"),
        ("rlpyt.envs.toy:Counter", "rlpyt.envs.toy has no class Counter of gymnasium.Env"),
    ],
)
def test_a_class_that_is_not_there_is_named(env, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        rlpyt.train("a2c", env, steps=40, log_dir=tmp_path)


@pytest.mark.parametrize("resume", [False, True])
def test_an_interrupted_run_is_returned(tmp_path, resume):
    class Interrupt(Callback):
        def on_itr(self, runner, itr, *args):
            if itr == 2:
                signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    options = dict(SMALL, steps=2000, log_dir=tmp_path, resume=resume, callbacks=[Interrupt()])
    run = rlpyt.train("ppo", "CartPole-v1", **options)
    if resume:
        again = rlpyt.train("ppo", "CartPole-v1", **{**options, "callbacks": []})
        assert again.progress["Diagnostics/CumSteps"][-1] == 2000
    else:
        assert list(run.progress["Diagnostics/CumSteps"]) == [60]
        assert run.agent.act([0.0, 0.0, 0.0, 0.0])[0] in (0, 1)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_starts_with_the_weights_of_another(run, tmp_path):
    frozen = dict(SMALL, learning_rate=0.0, log_dir=tmp_path, init=run.directory)
    again = rlpyt.train("ppo", "CartPole-v1", **frozen)
    torch.testing.assert_close(weights(again.directory), weights(run.directory))
    assert again.params["init"] == str(run.directory)
    # Its program and its further seeds had random ones.
    assert f"path={str(run.directory)!r}" in again.program()
    more = rlpyt.Run(Setting(tmp_path).train(1))
    torch.testing.assert_close(weights(more.directory), weights(run.directory))
    assert more.params["init"] == str(run.directory)


def test_a_resumed_run_keeps_its_origin(run, tmp_path):
    # Its record lost the origin, or had one that the run did not start from.
    options = dict(SMALL, log_dir=tmp_path, resume=True)
    first = rlpyt.train("ppo", "CartPole-v1", **options, init=run.directory)
    again = rlpyt.train("ppo", "CartPole-v1", **options)
    assert again.params["init"] == first.params["init"] == str(run.directory)
    with pytest.raises(ValueError, match="init=.* now .*: choose another directory"):
        rlpyt.train("ppo", "CartPole-v1", **options, init=first.directory)


def test_runs_of_other_origins_are_no_further_seeds(run, tmp_path):
    for seed, origin in enumerate(({}, {"init": "runs/a"})):
        (tmp_path / f"run_{seed}").mkdir()
        params = {**run.params, "seed": seed, **origin}
        (tmp_path / f"run_{seed}" / "params.json").write_text(json.dumps(params))
    with pytest.raises(ValueError, match="run_1 has other settings than .*run_0"):
        Setting(tmp_path)
    branch = {**run.params, "branch": {"run": "runs/a", "step": 100}}
    (tmp_path / "run_0" / "params.json").write_text(json.dumps(branch))
    with pytest.raises(ValueError, match="run_0 is a branch of runs/a"):
        Setting(tmp_path)
    with pytest.raises(ValueError, match="run_0 is a branch, which continues runs/a"):
        rlpyt.Run(tmp_path / "run_0").program()


def test_a_start_that_fails_leaves_its_directory_free(tmp_path):
    # Its parameters were taken for those of another run.
    with pytest.raises(ValueError, match="minibatches"):
        rlpyt.train("ppo", "CartPole-v1", log_dir=tmp_path, **{**SMALL, "minibatches": 10000})
    assert not (tmp_path / "run_0").exists()


def test_a_run_is_not_overwritten(run):
    with pytest.raises(ValueError, match="another run: choose another directory"):
        rlpyt.train("ppo", "CartPole-v1", log_dir=run.directory.parent, **SMALL)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rat": 1}, "learning_rate"),
        ({"learning_rate": "fast"}, "algo.learning_rate"),
        ({"sampler": "cpuu"}, "cpu"),
        ({"learning_rate": 1e-3, "algo": {"learning_rate": 1e-4}}, "twice"),
        ({"resume": True}, "log_dir"),
        ({"steps": 1e4, "n_steps": 128}, "steps=10000 and n_steps=128: .* batch_T"),
        ({"total_timesteps": 1e4}, "did you mean 'steps'"),
        ({"steps": 1e4, "log_interval_steps": 1e5}, "log_interval_steps=100000 is more than"),
        ({"steps": "1e4"}, "steps='1e4' is a text"),
        ({"agent": object()}, "agent=<object .* is an object: give its class or name"),
        ({"callbacks": Callback()}, r"give \[Callback\(\)\]"),
        ({"environment": None}, "name an environment, as in: rlpyt train ppo CartPole-v1"),
        ({"environment": lambda: Bandit()}, "<lambda>' cannot be imported"),
        ({"environment": None, "env": Bandit, "steps": 1, "discount": 2}, "discount is 2"),
        ({"algorithm": PPO}, "algorithm=<class .*: give a name such as 'ppo'"),
        ({"device": "cuda"}, "did you mean 'gpus'"),
        ({"OptimCls": "sgd"}, "algo.OptimCls: 'sgd' cannot be imported"),
        ({"OptimCls": partial(torch.optim.Adam)}, "algo.OptimCls=functools.partial.*: give the"),
        ({"seed": 0.5}, "seed is 0.5: give a whole number"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        rlpyt.train(**{"algorithm": "ppo", "environment": "CartPole-v1", **settings})


def test_a_directory_without_a_run_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="params.json"):
        rlpyt.Run(tmp_path)


def test_names_of_the_package_are_those_of_their_modules():
    for name in dir(rlpyt):
        assert getattr(rlpyt, name) is not None
    with pytest.raises(AttributeError, match="PPQ"):
        rlpyt.PPQ  # noqa: B018
    assert rlpyt.PPO.__module__ == "rlpyt.algos.pg.ppo"

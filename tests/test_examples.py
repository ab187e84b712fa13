"""Every example runs for a few iterations, and its command line has the arguments it takes."""

from __future__ import annotations

import csv
import importlib.util
import inspect
import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.collectors import DecorrelatingStartCollector
from rlpyt.utils.logging import context
from tests.envs.stub_emulator import use_stub
from tests.selection import FULL

FILES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))

# Arguments that make a run short, and whether it gets as far as learning.
RUNS = [
    ("any_env_ppo", dict(n_steps=1024), True),
    ("atari_dqn_async_cpu", dict(n_steps=64, replay_size=1000), False),
    ("atari_dqn_async_gpu", dict(n_steps=64, replay_size=1000), False),
    ("atari_dqn_async_serial", dict(n_steps=64, replay_size=1000), False),
    ("cartpole_dqn", dict(n_steps=1984), True),
    ("cartpole_on_device", dict(n_steps=128, batch_B=2), True),
    ("example_1", dict(n_steps=40, replay_size=1000), False),
    ("example_2", dict(n_steps=40, min_steps_learn=20, env_id="Pendulum-v1"), True),
    ("example_3", dict(n_steps=40, batch_B=4), True),
    ("example_4", dict(n_steps=80, batch_B=2, mid_batch_reset=True), True),
    ("example_5", dict(n_steps=80, batch_B=2), True),
    ("example_6", dict(n_steps=40, batch_T=5, batch_B=2), True),
    (
        "example_7",
        dict(n_steps=560, batch_B=2, n_sequences=1, min_steps_learn=420, replay_size=2000),
        True,
    ),
    ("mujoco_pg", dict(n_steps=256, algo="a2c", env_id="Pendulum-v1"), True),
    ("rainbow_pong", dict(n_steps=104, min_steps_learn=100, replay_size=1000), True),
    ("tmaze_r2d1", dict(n_steps=1500), True),
]
# With ``RLPYT_FULL=1``; below, cartpole_dqn is resumed.
LONG = {"atari_dqn_async_gpu", "atari_dqn_async_serial", "cartpole_dqn", "example_7"}
if FULL:
    RUNS += [
        ("any_env_ppo", dict(n_steps=1024, recurrent=True, env_id="Pendulum-v1"), True),
        (
            "example_2",
            dict(n_steps=40, min_steps_learn=20, env_id="Pendulum-v1", algo="ddpg"),
            True,
        ),
        ("example_3", dict(n_steps=256, batch_B=2, algo="ppo", sampler="cpu"), True),
        ("example_3", dict(n_steps=40, batch_B=4, sampler="alternating"), True),
        ("example_2", dict(n_steps=40, min_steps_learn=20, env_id="Pendulum-v1", algo="td3"), True),
        ("example_3", dict(n_steps=40, batch_B=4, sampler="gpu"), True),
        ("example_5", dict(n_steps=80, batch_B=2, no_overlap=True), True),
    ]


@pytest.fixture(autouse=True)
def _leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs go to a directory of the test's own; evaluations and random starts are short."""
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path))
    if find_spec("ale_py"):
        use_stub(monkeypatch)
    whole = BaseSampler._eval_time_limit

    def time_limit(self: BaseSampler) -> int | None:
        # Its learning curve needs trajectories that were completed.
        return whole(self) if self.env_kwargs == {"id": "CartPole-v1"} else 5

    monkeypatch.setattr(BaseSampler, "_eval_time_limit", time_limit)
    drawn = DecorrelatingStartCollector._decorrelation_steps
    monkeypatch.setattr(
        DecorrelatingStartCollector,
        "_decorrelation_steps",
        lambda self, B, max_steps: drawn(self, B, min(max_steps, 5)),
    )


def load(name: str) -> Any:
    if name == "cartpole_dqn":
        pytest.importorskip("matplotlib")
    path = FILES[0].with_name(name + ".py")
    spec = importlib.util.spec_from_file_location("examples." + name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kwargs", "learns"), [run for run in RUNS if FULL or run[0] not in LONG]
)
def test_runs(name: str, kwargs: dict[str, Any], learns: bool, tmp_path: Path) -> None:
    build_and_train = load(name).build_and_train
    build_and_train(seed=0, **kwargs)
    (progress,) = tmp_path.rglob("progress.csv")
    with progress.open(newline="") as file:
        *_, last = csv.DictReader(file)
    assert kwargs["n_steps"] <= float(last["Diagnostics/CumSteps"]) < 2 * kwargs["n_steps"]
    assert (float(last["Diagnostics/CumUpdates"]) > 0) == learns
    (snapshot,) = tmp_path.rglob("params.pkl")
    assert torch.load(snapshot, weights_only=True)["agent_state_dict"]


def test_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build_and_train = load("cartpole_dqn").build_and_train
    for n_steps in (992, 1984):
        directory = build_and_train(seed=0, n_steps=n_steps, resume=True)
    with (directory / "progress.csv").open(newline="") as file:
        steps = [float(row["Diagnostics/CumSteps"]) for row in csv.DictReader(file)]
    assert steps == [0, 992, 1984]
    assert directory == tmp_path / "cartpole_dqn" / "run_0"


@pytest.mark.full
def test_sweep_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sweep = load("launch_sweep")
    exp_dir = sweep.launch(n_steps=2048, n_seeds=1, ids=["Pendulum-v1"], learning_rates=[1e-3])
    capfd.readouterr()
    sweep.print_returns(exp_dir)
    value, directory = capfd.readouterr().out.split()
    assert math.isfinite(float(value))
    assert directory == "Pendulum-v1/lr_0.001/run_0"


def test_all_are_run() -> None:
    assert {file.stem for file in FILES} == {name for name, *_ in RUNS} | {"launch_sweep"}


@pytest.mark.parametrize("name", sorted({name for name, *_ in RUNS}))
def test_command_line_has_the_arguments_of_the_function(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load(name)
    parameters = inspect.signature(example.build_and_train).parameters
    given: dict[str, Any] = {}
    monkeypatch.setattr(example, "build_and_train", lambda **kwargs: given.update(kwargs))
    monkeypatch.setattr(sys, "argv", [name])
    example.main()
    assert given == {key: parameter.default for key, parameter in parameters.items()}

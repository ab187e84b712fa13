"""The trained agents in the package: each acts as it did when its record was made."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import gymnasium
import pytest

import rlpyt
from rlpyt.experiments import catalog, evaluation
from tests.experiments.parts import invoke, refused

DOCS = Path(__file__).parents[2] / "docs"
NAMES = catalog.names("zoo")
# Whose episodes are short and cheap: of these some are played, and the others act once.
PLAYED = ("CartPole", "Acrobot", "MountainCar", "Pendulum")


def needs_packages_of(name: str) -> None:
    for word, package in {"MinAtar": "minatar", "-v5": "mujoco"}.items():
        if word in name:
            pytest.importorskip(package)


@pytest.mark.filterwarnings("ignore:.*is out of date")  # MinAtar's -v0, with all six actions.
@pytest.mark.parametrize("name", NAMES)
def test_agents_act_as_recorded(name: str) -> None:
    needs_packages_of(name)
    if any(word in name for word in PLAYED):
        n_episodes = 4
        record = json.loads((catalog.ZOO / name / "record.json").read_text())
        infos = evaluation.evaluate(evaluation.load_agent(f"zoo:{name}"), n_episodes, seed=1)
        found = evaluation.statistics(infos)["Return"]["mean"]
        allowed = 4 * record["std"] / n_episodes**0.5 + 0.01 * abs(record["mean"])
        assert found == pytest.approx(record["mean"], abs=allowed)
    else:
        env = gymnasium.make(name.partition("/")[2])
        action, _ = rlpyt.load(f"zoo:{name}").act(env.reset(seed=0)[0])
        assert env.action_space.contains(action)


def test_the_page_lists_the_agents_which_are_small() -> None:
    with open(DOCS / "zoo" / "agents.csv", newline="") as file:
        listed = [row["agent"] for row in csv.DictReader(file)]
    assert sorted(listed) == NAMES
    page = (DOCS / "zoo.md").read_text()
    assert [name for name in listed if f"| `{name}` |" not in page] == []
    sizes = [(catalog.ZOO / name / "params.pkl").stat().st_size for name in NAMES]
    assert max(sizes) < 600e3
    assert sum(sizes) < 6e6


def test_a_run_of_the_zoo_has_its_log_and_its_program() -> None:
    run = rlpyt.Run("zoo:ppo/CartPole-v1")
    assert run.progress["ReturnAverage"][-1] > 400
    assert "CartPole-v1" in run.program()


def test_commands_on_logs_take_agents_of_the_zoo(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log = catalog.ZOO / "ppo/CartPole-v1/progress.csv"
    steps = float(log.read_text().splitlines()[-1].split(",")[4])
    assert f" {steps:,.0f} steps" in invoke("diagnose", "zoo:ppo/CartPole-v1")
    words = ["mine=zoo:ppo/CartPole-v1", "zoo:a2c/CartPole-v1", "--output", tmp_path]
    table = invoke("plot", *words)
    assert "mine" in table
    assert "a2c" in table
    assert "too few runs" in invoke("compare", "zoo:pqn/CartPole-v1", "zoo:ppo/CartPole-v1")
    for words in (["diagnose"], ["plot"], ["compare", "zoo:ppo/CartPole-v1"]):
        assert "did you mean 'ppo/CartPole-v1'" in refused(*words, "zoo:ppo/CartPol-v1")
    both = ["zoo:pqn/CartPole-v1", "zoo:ppo/CartPole-v1"]
    assert "runs of your own" in refused("compare", *both, "--until", 0.95)


def test_closing_the_window_ends_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    try:
        assert "No episode has ended." in invoke("watch", "zoo:ppo/CartPole-v1")
    finally:
        pygame.display.quit()


def test_unknown_agents_and_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"'ppo/CartPole' \(did you mean 'ppo/CartPole-v1'"):
        rlpyt.load("zoo:ppo/CartPole")
    (tmp_path / "pqn/MinAtar/Breakout-v0").mkdir(parents=True)
    (tmp_path / "pqn/MinAtar/Breakout-v0/params.pkl").touch()
    monkeypatch.setattr(catalog, "ZOO", tmp_path)
    monkeypatch.setattr(catalog, "find_spec", lambda package: None)
    with pytest.raises(ValueError, match=r"MinAtar/Breakout-v0' needs minatar: pip install"):
        rlpyt.load("zoo:pqn/MinAtar/Breakout-v0")

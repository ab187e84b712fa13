"""A branch continues a run with other settings: its log, its random numbers, its optimizers."""

import csv
import json
import shutil

import pytest

from rlpyt.checkpoints.store import Checkpoints
from rlpyt.experiments.verification import verify
from tests.experiments.parts import invoke, refused

PPO = ["ppo", "CartPole-v1", "batch_T=10", "batch_B=4", "minibatches=2", "epochs=1"]
SAC = ["sac", "Pendulum-v1", "batch_B=4", "batch_size=8", "min_steps_learn=40", "replay_ratio=1"]
KEEPS = ["--checkpoint-steps", 40, "--keep-checkpoints"]
SETTINGS = ["log_interval_steps=20", "threads=1", "--steps", 160, "--seed", 3]


def train(directory, *words):
    invoke("train", *words, *KEEPS, "--log-dir", directory)
    return directory / "run_0"


def parent_of(words):
    @pytest.fixture(scope="module")
    def parent(tmp_path_factory):
        return train(tmp_path_factory.mktemp("parent"), *words, *SETTINGS)

    return parent


ppo, sac = parent_of(PPO), parent_of([*SAC, "replay_size=300"])


def rows(run):
    with (run / "progress.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    return [
        {k: v for k, v in row.items() if "Time" not in k and "PerSec" not in k} for row in found
    ]


def state(run, step):
    return Checkpoints(run / "checkpoints").load(run / "checkpoints" / f"checkpoint_{step:09d}")


def groups(run, step, name=None):
    optimizer = state(run, step)["algo"]["optimizer"]
    return (optimizer if name is None else optimizer[name])["param_groups"]


@pytest.mark.parametrize("parent", ["ppo", "sac"])
def test_a_branch_without_changes_is_its_parent(parent, request, tmp_path):
    parent = request.getfixturevalue(parent)
    branch = train(tmp_path, "--branch", f"{parent}@8e1")
    assert rows(branch) == rows(parent)
    assert not verify(branch, 9).differences
    record = json.loads((branch / "params.json").read_text())["branch"]
    assert record == {"run": str(parent), "step": 80, "changes": {}}


def test_a_branch_has_the_log_of_its_parent_up_to_the_step(ppo, tmp_path):
    branch = train(tmp_path, "--branch", f"{ppo}@80", "discount=0.5")
    n = sum(int(row["Diagnostics/CumSteps"]) <= 80 for row in rows(ppo))
    assert 0 < n < len(rows(ppo)) == len(rows(branch))
    assert rows(branch)[:n] == rows(ppo)[:n]
    changed = rows(branch)[n], rows(ppo)[n]
    assert changed[0]["lossAverage"] != changed[1]["lossAverage"]
    assert changed[0]["ReturnAverage"] == changed[1]["ReturnAverage"]  # With the same actions.
    params = json.loads((branch / "params.json").read_text())
    assert params["branch"]["changes"] == {"algo.discount": 0.5}
    assert params["seed"] == 3


def test_a_learning_rate_keeps_its_place_in_a_schedule(ppo, tmp_path):
    branch = train(tmp_path, "--branch", f"{ppo}@80", "learning_rate=0.1", "optim.eps=0.5")
    for step in (120, 160):
        (ours,), (theirs,) = groups(branch, step), groups(ppo, step)
        assert ours["initial_lr"] == 0.1
        assert ours["lr"] / 0.1 == pytest.approx(theirs["lr"] / theirs["initial_lr"])
        assert ours["eps"] == 0.5 != theirs["eps"]
        assert ours["betas"] == theirs["betas"]


def test_each_optimizer_has_its_own_rate(sac, tmp_path):
    branch = train(tmp_path, "--branch", f"{sac}@80", "learning_rate=0.1")
    for name in state(sac, 120)["algo"]["optimizer"]:
        if name.endswith("optimizer"):
            assert [group["lr"] for group in groups(branch, 120, name)] == [0.1]


@pytest.mark.parametrize("names_its_parent", [True, False])
def test_an_interrupted_branch_resumes_also_before_its_first_interval(
    names_its_parent, ppo, tmp_path
):
    changes = ["learning_rate=0.1", "--resume"]
    words = ["--branch", f"{ppo}@80", *changes]
    branch = train(tmp_path, *words)
    before = rows(branch), groups(branch, 160), (branch / "params.json").read_text()
    for step in (120, 160):
        shutil.rmtree(branch / "checkpoints" / f"checkpoint_{step:09d}")
    train(tmp_path, *(words if names_its_parent else [*PPO, *SETTINGS, *changes]))
    assert (rows(branch), groups(branch, 160), (branch / "params.json").read_text()) == before


def test_the_branch_of_another_step_is_refused(ppo, tmp_path):
    changes = ["learning_rate=0.1", "--resume"]
    branch = train(tmp_path, "--branch", f"{ppo}@80", *changes)
    words = ["train", "--branch", f"{ppo}@40", *changes, "--log-dir", tmp_path]
    assert "branch.step=80 now 40" in refused(*words)
    words[2] = f"{ppo}@80"
    invoke(*words, "--steps", 200)  # It may become longer.
    assert rows(branch)[-1]["Diagnostics/CumSteps"] == "200"
    plain = train(tmp_path / "plain", *PPO, *SETTINGS, *changes).parent
    assert "branch.step=None now 80" in refused(*words[:-1], plain)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["@80"], "RUN@STEP"),
        (["@81"], "0, 40, 80, 120, 160"),
        ([""], "run_0 has 0, 40, 80, 120, 160"),
        (["@80", "sampler=cpu"], "sampler"),
        (["@80", "batch_B=8"], "batch_B"),
        (["@80", "hidden_sizes=8"], "does not fit"),
        (["@80", "--seed", 4], "--seed"),
        (["@80", "no_such=1"], "no_such"),
    ],
)
def test_wrong_branches_are_refused(words, named, ppo, tmp_path):
    run = "no_such_run" if named == "RUN@STEP" else ppo
    text = refused("train", "--branch", f"{run}{words[0]}", *words[1:], "--log-dir", tmp_path)
    assert named in text
    assert not list(tmp_path.glob("*/progress.csv"))

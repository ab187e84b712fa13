"""The gate: verdicts on runs beside a baseline."""

from __future__ import annotations

import csv
import json
import re
from functools import partial

import pytest
from click.testing import CliRunner

from rlpyt.experiments import gate
from rlpyt.experiments.command import main
from rlpyt.experiments.results.comparison import ALL_TASKS
from rlpyt.experiments.results.runs import STEPS
from rlpyt.experiments.results.statistics import estimate
from tests.experiments.parts import refused


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    monkeypatch.setattr(gate, "estimate", partial(estimate, n_resamples=300))


def write(directory, task, ends, places=(0, 10, 20, 30)):
    """Write a run for each end of a curve that rises from 0."""
    for seed, end in enumerate(ends):
        run = directory / task / f"run_{seed}"
        run.mkdir(parents=True)
        with (run / "progress.csv").open("w", newline="") as file:
            rows = [(place, end * min(place, 20) / 20) for place in places]
            csv.writer(file).writerows([(STEPS, "ReturnAverage"), *rows])


@pytest.fixture
def baseline(tmp_path):
    """Directory of a baseline of two tasks that reaches 99 to 101, and -50 to -48."""
    write(tmp_path / "baseline", "up", [99, 100, 101])
    write(tmp_path / "baseline", "down", [-50, -49, -48])
    return tmp_path / "baseline"


@pytest.mark.parametrize(
    ("up", "down", "worse"),
    [
        ([98, 100, 101], [-50, -49, -48], []),
        ([96, 97, 98], [-51, -52, -51], []),  # Lower without doubt, but by little.
        ([10, 110, 100], [-49, -49, -49], []),  # One bad run may be bad luck.
        ([60, 70, 80], [-50, -49, -48], ["up"]),
        ([60, 70, 80], [-80, -70, -75], ["up", "down", ALL_TASKS]),
    ],
)
def test_runs_are_worse_if_they_lose_surely_and_much(up, down, worse, baseline, tmp_path):
    write(tmp_path / "new", "up", up)
    write(tmp_path / "new", "down", down)
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "new"), str(baseline)])
    assert result.exit_code == bool(worse)
    # Below the head of the table, and without notes.
    lines = [re.split(r"\s{2,}", line.strip()) for line in result.output.splitlines()[2:]]
    assert [task for task, *_ in lines] == ["down", "up", ALL_TASKS]
    assert sorted(task for task, *_, verdict in lines if verdict == "worse") == sorted(worse)


def test_numbers_of_a_line(baseline, tmp_path):
    write(tmp_path / "new", "up", [50, 99])
    ((line, *none), (note,)) = gate.compare(tmp_path / "new", baseline)
    assert not none
    assert line.n_runs == (2, 3)
    assert line.improvement.value == pytest.approx(0.5 / 6)  # One tie in six pairs.
    assert line.effect.value == pytest.approx(-0.255)  # The baseline rises by 100.
    assert "down" in note


def test_the_confidence_is_that_of_all_lines_together(baseline, tmp_path):
    write(tmp_path / "new", "up", [90, 95, 105])
    ((alone,), _) = gate.compare(tmp_path / "new", baseline, confidence=0.96)
    write(tmp_path / "new", "down", [-50, -49, -48])
    (lines, _) = gate.compare(tmp_path / "new", baseline, confidence=0.88)  # Three lines.
    assert [line.task for line in lines] == ["down", "up", ALL_TASKS]
    assert lines[1].improvement == alone.improvement
    assert lines[1].effect == alone.effect
    assert "confidence=-1.0" in refused("compare", tmp_path / "new", baseline, "--confidence", -1)


def test_runs_without_a_number_do_not_pass(baseline, tmp_path):
    """They used to be left out, and the others decided."""
    write(tmp_path / "new", "up", [99, 100])
    write(tmp_path / "new", "down", ["nan"] * 2, places=())
    message = refused("compare", tmp_path / "new", baseline)
    assert "down" in message
    assert "up" not in message.replace(str(tmp_path), "")


@pytest.mark.parametrize("text", ["", "nan"])
def test_runs_that_break_off_do_not_pass(text, baseline, tmp_path):
    """They were left out, or all scores were taken where the first one ended."""
    write(tmp_path / "new", "up", [100, 100, 100])
    file = tmp_path / "new" / "up" / "run_1" / "progress.csv"
    head, *rows = file.read_text().split()
    broken = [
        row.replace(",", f",{text} ", 1).split()[0] if row[0] in "23" else row for row in rows
    ]
    file.write_text("\n".join([head, *broken]) + "\n")
    message = refused("compare", tmp_path / "new", baseline)
    assert str(file) in message
    assert "after 10 of 30 steps" in message


def test_runs_that_all_break_off_do_not_pass(tmp_path):
    # All runs were compared where these ended.
    write(tmp_path / "new", "up", [100] * 3, places=(0, 10))
    write(tmp_path / "old", "up", [99, 100, 101])
    assert "after 10 of 30 steps" in refused("compare", tmp_path / "new", tmp_path / "old")
    assert "after 10 of 30 steps" in refused("compare", tmp_path / "old", tmp_path / "new")
    for run in (tmp_path / "new" / "up").iterdir():  # They are short on purpose.
        (run / "params.json").write_text('{"runner": {"n_steps": 10}}')
    lines, _ = gate.compare(tmp_path / "new", tmp_path / "old")
    assert not lines[0].is_worse


def test_a_baseline_of_one_row_has_no_range(tmp_path):
    # Effects were in units of the return.
    for name in ("new", "old"):
        write(tmp_path / name, "up", [99, 100, 101], places=(30,))
    assert "has one row" in refused("compare", tmp_path / "new", tmp_path / "old")


def test_a_task_without_a_name_is_named_by_its_directory(tmp_path):
    # It had no name in errors.
    write(tmp_path / "new", "", [1, 1], places=())
    write(tmp_path / "old", "", [1, 2, 3])
    assert "no run of new has a number" in refused("compare", tmp_path / "new", tmp_path / "old")


def test_too_few_runs_give_no_verdict(tmp_path):
    """All of two equal runs lose to all of two others in one of six cases."""
    write(tmp_path / "new", "task", [1, 1])
    write(tmp_path / "old", "task", [9, 9, 9])
    (line,) = gate.compare(tmp_path / "new", tmp_path / "old")[0]
    assert not line.is_worse
    assert "too few runs" in gate.table([line])


def test_a_sure_improvement_is_named_whatever_the_name_of_a_single_task(tmp_path):
    write(tmp_path, "one/seed0", [9, 9, 9, 9])
    write(tmp_path, "other", [1, 1, 1, 1])
    lines, _ = gate.compare(tmp_path / "one", tmp_path / "other")
    row = gate.table(lines).splitlines()[-1].split()
    assert (row[0], row[-1]) == ("one", "better")


def test_runs_of_other_environments_are_no_baseline(tmp_path):
    # It compared two tasks.
    for name, env in (("new", {"id": "CartPole-v1"}), ("old", {"id": "Acrobot-v1"})):
        write(tmp_path / name, "task", [1, 2, 3])
        params = {"roles": {"env": "gym"}, "env": env}
        (tmp_path / name / "task" / "run_1" / "params.json").write_text(json.dumps(params))
    message = refused("compare", tmp_path / "new", tmp_path / "old")
    assert "has the environment CartPole-v1" in message
    assert "has Acrobot-v1" in message
    (tmp_path / "old" / "task" / "run_1" / "params.json").unlink()
    assert gate.compare(tmp_path / "new", tmp_path / "old")


def test_pairs_are_compared_by_their_differences(tmp_path):
    """Runs that differ much from each other, and little from their partners."""
    for name, gain in (("old", 0), ("new", -3)):
        write(tmp_path / name, "task", [gain + end for end in (10, 50, 90, 130, 170)])
        for seed, run in enumerate(sorted((tmp_path / name / "task").iterdir())):
            (run / "params.json").write_text(json.dumps({"seed": seed}))
    (tmp_path / "new" / "task" / "run_0").rename(tmp_path / "new" / "task" / "run_9")
    new, old = tmp_path / "new", tmp_path / "old"
    ((alone,), _), ((pairs,), _) = (gate.compare(new, old, paired=x) for x in (False, True))
    assert pairs.effect.value == pytest.approx(alone.effect.value)
    assert pairs.effect.high - pairs.effect.low < 0.1 < alone.effect.high - alone.effect.low
    assert (pairs.improvement.value, pairs.is_worse, alone.is_worse) == (0, False, False)
    ((line,), _) = gate.compare(new, old, tolerance=0.01, paired=True)
    assert line.is_worse
    (old / "task" / "run_3" / "params.json").write_text('{"seed": 7}')
    assert "[0, 1, 2, 4, 7]" in refused("compare", new, old, "--paired")


def test_directories_without_runs_or_a_common_task_are_refused(baseline, tmp_path):
    assert "directory=" in refused("compare", tmp_path / "nowhere", baseline)
    write(tmp_path / "new", "left", [1])
    write(tmp_path / "new", "right", [1])
    assert "baseline=" in refused("compare", tmp_path / "new", baseline)

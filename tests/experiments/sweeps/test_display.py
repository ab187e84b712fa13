"""Progress of a sweep, from files as the logger writes them."""

import io
import json
import os

import pytest
from rich.console import Console

from rlpyt.experiments.sweeps.display import Display, Progress, read_progress
from rlpyt.experiments.sweeps.run import FAILED, FINISHED, Run, RunStatus

CSV = "Diagnostics/CumSteps,Diagnostics/StepsPerSecond,ReturnAverage\n100,nan,1\n200,50,2\n"


@pytest.fixture
def log_dir(tmp_path):
    run_dir = tmp_path / "run_3"
    run_dir.mkdir()
    (run_dir / "params.json").write_text(json.dumps({"runner": {"n_steps": 1000}}))
    (run_dir / "progress.csv").write_text(CSV)
    os.utime(run_dir / "progress.csv", (5000, 5000))
    return str(tmp_path)


@pytest.mark.parametrize(("now", "left"), [(5000, 16), (5006, 10)])
def test_progress(log_dir, now, left):
    assert read_progress(log_dir, 3, now) == Progress(200, 1000, 50, left)


def test_progress_of_a_run_that_has_written_nothing(tmp_path):
    assert read_progress(str(tmp_path), 0, 0) == Progress()


def events(console, log_dir):
    run = Run("env/lr", log_dir, 3, {})
    with Display("my sweep", 2, console) as display:
        display.started(run, 1)
        display.show({1: run})
        display.ended(run, RunStatus(FINISHED, started=0.0, ended=3661.0))
        display.failure(run, RunStatus(FAILED, exit_code=2, reason="too slow"), "last line\n")
    return console.file.getvalue()


def test_lines(log_dir):
    """Without a terminal: no control characters, and no line is broken."""
    text = events(Console(file=io.StringIO(), width=20), log_dir)
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["Sweep", "started", "finished", "FAILED"]
    assert "1:01:01" in lines[2]
    assert "[1/2]" in lines[2]
    assert "exit code 2, too slow" in lines[3]
    assert f"{log_dir}/launch_3.log" in lines[3]
    assert lines[4] == "last line"


def test_live_table(log_dir):
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    text = events(console, log_dir)
    row = next(line for line in text.splitlines() if "env/lr" in line and "200" in line)
    cells = [cell.strip() for cell in row.replace("\x1b[0m", "").split("│")[1:-1]]
    assert cells == ["1", "env/lr", "3", "200", "1,000", "50", "0:00:00"]

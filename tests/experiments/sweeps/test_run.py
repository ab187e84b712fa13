"""One run and its guard: real processes, ended in every way there is."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlpyt.experiments.sweeps import run
from rlpyt.experiments.sweeps.run import RunCommand, RunStatus, is_alive, read_status
from tests.waiting import wait_until

SLEEPER = "import time; print('begun', flush=True); time.sleep(200)"
# Ends only by force.
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


def command(log_dir, program, **kwargs):
    return RunCommand(str(log_dir), 0, [sys.executable, "-c", program], **kwargs)


def begun(log_dir):
    wait_until(lambda: "begun" in (log_dir / "launch_0.log").read_text())
    return read_status(str(log_dir), 0)


def start(log_dir, program, **kwargs):
    guard = run.start(command(log_dir, program, **kwargs))
    begun(log_dir)
    return guard


def ended(guard):
    guard.stdin.close()
    return guard.wait(30)


def test_new_run_has_no_files(tmp_path):
    assert read_status(str(tmp_path), 0) == RunStatus(state=run.NEW)
    assert not is_alive(str(tmp_path), 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("program", "state", "code"),
    [
        ("print('begun')", run.FINISHED, 0),
        ("print('begun'); raise SystemExit(3)", run.FAILED, 3),
        ("import os; print('begun'); os.abort()", run.FAILED, -signal.SIGABRT),
        ("import os; print('begun', flush=True); os.kill(os.getpid(), 9)", run.INTERRUPTED, -9),
        ("print('begun'); raise SystemExit(143)", run.INTERRUPTED, 143),
    ],
    ids=["finished", "failed", "crashed", "killed", "terminated"],
)
def test_state_after_each_kind_of_end(tmp_path, program, state, code):
    run.run_to_end(command(tmp_path, program))
    status = begun(tmp_path)
    assert (status.state, status.exit_code, status.attempt) == (state, code, 1)
    assert status.started <= status.ended
    assert not is_alive(str(tmp_path), 0)


def test_output_of_all_attempts_is_kept(tmp_path):
    for n in (1, 2):
        program = (
            "import os; print('try', os.environ['N']); raise SystemExit(os.environ['N'] == '1')"
        )
        run.run_to_end(command(tmp_path, program, env={"N": str(n)}))
    assert run.run_to_end(command(tmp_path, "print('try', 3)")) == 0  # It has finished.
    assert (tmp_path / "launch_0.log").read_text() == "try 1\ntry 2\n"
    assert read_status(str(tmp_path), 0).attempt == 2


def test_run_at_work_is_not_started_twice(tmp_path):
    guard = start(tmp_path, SLEEPER)
    before = read_status(str(tmp_path), 0)
    assert before.state == run.RUNNING
    assert is_alive(str(tmp_path), 0)
    assert run.run_to_end(command(tmp_path, SLEEPER)) == run.EXIT_ALIVE
    assert read_status(str(tmp_path), 0) == before
    ended(guard)


@pytest.mark.parametrize("program", [SLEEPER, STUBBORN], ids=["sleeper", "stubborn"])
def test_time_limit(tmp_path, program):
    assert run.run_to_end(command(tmp_path, program, time_limit_s=1.0, end_timeout_s=0.5)) != 0
    status = read_status(str(tmp_path), 0)
    assert (status.state, status.reason) == (run.FAILED, "time limit of 1 s")


def test_a_run_that_is_asked_to_end_may_save_first(tmp_path):
    saves = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), print('saved'), sys.exit(143)))"
    )
    ended(start(tmp_path, f"{saves}\n{SLEEPER}"))
    assert (tmp_path / "launch_0.log").read_text() == "begun\nsaved\n"
    assert read_status(str(tmp_path), 0).state == run.INTERRUPTED


def test_processes_that_a_run_leaves_behind_are_killed(tmp_path):
    """They would hold the CPUs of the next run."""
    child = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); "
    guard = start(tmp_path, child + STUBBORN, end_timeout_s=0.1)
    pid = int((tmp_path / "launch_0.log").read_text().split()[0])
    ended(guard)
    wait_until(lambda: not _is_running(pid))


def test_run_ends_when_the_starting_process_is_killed(tmp_path):
    """Nobody closes the pipe; the kernel does."""
    call = [sys.executable, "-c", SLEEPER]
    program = (
        "import time\n"
        "from rlpyt.experiments.sweeps.run import RunCommand, start\n"
        f"guard = start(RunCommand({str(tmp_path)!r}, 0, {call!r}))\n"
        "time.sleep(60)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(run.__file__).parents[3])}
    launcher = subprocess.Popen([sys.executable, "-c", program], env=env)
    wait_until((tmp_path / "launch_0.log").exists)
    pid = begun(tmp_path).pid
    launcher.kill()
    launcher.wait()
    wait_until(lambda: not is_alive(str(tmp_path), 0))
    assert read_status(str(tmp_path), 0).state == run.INTERRUPTED
    assert not _is_running(pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends orphans")
def test_run_ends_when_its_guard_is_killed(tmp_path):
    guard = start(tmp_path, SLEEPER)
    guard.kill()
    ended(guard)
    wait_until(lambda: not is_alive(str(tmp_path), 0))
    # Nobody wrote the end down: whoever reads this sees that the lock is free.
    assert json.loads((tmp_path / "status_0.json").read_text())["state"] == run.RUNNING


def _is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False

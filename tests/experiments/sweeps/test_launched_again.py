"""Sweeps that are launched again: after their end, after failures, after a kill."""

import json
import platform
import subprocess
import textwrap
from pathlib import Path

import pytest

from rlpyt.experiments.sweeps import run, sweep
from rlpyt.experiments.sweeps.affinity import encode_affinity
from rlpyt.experiments.sweeps.launch import SweepError, run_experiments
from rlpyt.experiments.sweeps.run import read_status
from rlpyt.experiments.sweeps.slots import slots_of
from rlpyt.experiments.sweeps.variant import save_variant
from tests.forked import fork
from tests.waiting import wait_until

TWO_SLOTS = encode_affinity(2, cpu_per_run=1, hyperthread_offset=0, n_socket=1, set_affinity=False)
# Like a run that logs and saves checkpoints: each of its steps appends a row to the csv.
SCRIPT = """
    import json, os, sys, time
    code, log_dir, run_ID = sys.argv[1:4]
    variant = json.load(open(os.path.join(log_dir, "variant_config.json")))
    run_dir = os.path.join(log_dir, "run_" + run_ID)
    os.makedirs(run_dir, exist_ok=True)
    path = os.path.join(run_dir, "progress.csv")
    if not os.path.exists(path):
        open(path, "w").write("Diagnostics/CumSteps,attempt\\n")
    steps = len(open(path).readlines()) - 1
    for step in range(steps, 4):
        time.sleep(variant.get("sleep", 0.02))
        open(path, "a").write(f"{step + 1},{os.getpid()}\\n")
    if os.path.exists(os.path.join(log_dir, "broken")) or variant.get("broken"):
        raise RuntimeError("this setting cannot be")
"""


def content(exp_dir):
    """Bytes and times of all files of runs."""
    files = sorted(path for path in Path(exp_dir).glob("*/**/*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def launch(exp_dir, script, names, n_seeds=1, **kwargs):
    variants = kwargs.pop("variants", [{"name": name} for name in names])
    run_experiments(script, TWO_SLOTS, str(exp_dir), n_seeds, variants, names, **kwargs)


def test_finished_runs_are_not_touched_and_further_seeds_are_added(script, tmp_path, capfd):
    """Their results used to be emptied."""
    launch(tmp_path / "s", script, ["a", "b"])
    before = content(tmp_path / "s")
    assert len(before) == 2 * 5
    launch(tmp_path / "s", script, ["a", "b"], n_seeds=2)
    after = content(tmp_path / "s")
    assert {path: after[path] for path in before} == before
    assert len(after) == 2 * (2 * 5 - 1)  # The seeds share the variant.
    assert "skipped   a run 0: finished" in capfd.readouterr().out
    text = (tmp_path / "s" / "num_launched.txt").read_text()
    assert text == "Experiments launched so far: 4 out of 4.\n"


def test_failed_runs_are_tried_again_if_asked(script, tmp_path):
    save_variant({"name": "bad"}, tmp_path / "s" / "bad")
    (tmp_path / "s" / "bad" / "broken").touch()
    with pytest.raises(SweepError, match="1 of 2 runs failed"):
        launch(tmp_path / "s", script, ["bad", "good"])
    before = content(tmp_path / "s")
    with pytest.raises(SweepError, match="retry_failed=True"):
        launch(tmp_path / "s", script, ["bad", "good"])
    assert content(tmp_path / "s") == before
    (tmp_path / "s" / "bad" / "broken").unlink()
    launch(tmp_path / "s", script, ["bad", "good"], retry_failed=True)
    status = read_status(str(tmp_path / "s" / "bad"), 0)
    assert (status.state, status.attempt) == (run.FINISHED, 2)
    assert not (tmp_path / "s" / "failed.txt").exists()


def test_killed_launcher(script, tmp_path):
    """Exactly the missing runs are made, and interrupted ones go on where they were."""
    names, n_seeds = [f"v{n}" for n in range(4)], 2
    variants = [{"sleep": 0.2}] * len(names)
    whole = {"n_seeds": n_seeds, "variants": variants}
    output = tmp_path / "output"
    launcher = fork(launch, tmp_path / "s", script, names, output=output, **whole)

    def is_in_the_middle():
        states = [s["state"] for s in statuses(tmp_path).values()]
        return states.count(run.FINISHED) >= 4 and run.RUNNING in states

    wait_until(is_in_the_middle)
    launcher.kill()
    launcher.join()
    launch(tmp_path / "s", script, names, **whole)
    after = statuses(tmp_path)
    assert len(after) == 8
    assert {s["state"] for s in after.values()} == {run.FINISHED}
    attempts = [s["attempt"] for s in after.values()]
    assert max(attempts) == 2
    assert attempts.count(2) <= 2  # As many as there are slots.
    for path in (tmp_path / "s").rglob("progress.csv"):
        steps = [line.split(",")[0] for line in path.read_text().splitlines()[1:]]
        assert steps == ["1", "2", "3", "4"]


def statuses(tmp_path):
    files = (tmp_path / "s").rglob("status_*.json")
    return {path: json.loads(path.read_text()) for path in files}


def test_finished_runs_of_a_killed_launcher_are_not_touched(script, tmp_path):
    """Killed in between: two runs finished, one had started, one had not."""
    launch(tmp_path / "s", script, ["a", "b"])
    finished = content(tmp_path / "s")
    identity = json.loads((tmp_path / "s" / "sweep.json").read_text())
    for name in ("c", "d"):
        identity["variants"][name] = {"variant": {"name": name}, "args": []}
    (tmp_path / "s" / "sweep.json").write_text(json.dumps(identity))
    save_variant({"name": "c"}, tmp_path / "s" / "c")
    run.write_status(str(tmp_path / "s" / "c"), 0, run.RunStatus(run.RUNNING, attempt=1))
    launch(tmp_path / "s", script, ["a", "b", "c", "d"])
    after = content(tmp_path / "s")
    assert {path: after[path] for path in finished} == finished
    assert read_status(str(tmp_path / "s" / "c"), 0).attempt == 2
    assert read_status(str(tmp_path / "s" / "d"), 0).attempt == 1


class Elsewhere:
    """Pool whose guards end at once, since the run is at work in a job of an earlier launcher.

    Args:
        host: name of the machine of that job.
        exit_code: exit code of the guards.
    """

    slots = slots_of(TWO_SLOTS)[:1]

    def __init__(self, host, exit_code):
        self.host = host
        self.guard = subprocess.Popen(["sh", "-c", f"exit {exit_code}"])
        self.guard.wait()

    def start(self, command):
        self.run, self.n_asked = (command.log_dir, command.run_ID), 0
        self.lock = run.locked(str(Path(command.log_dir) / f"status_{command.run_ID}.lock"))
        self.lock.__enter__()
        run.write_status(*self.run, run.RunStatus(run.RUNNING, attempt=1, host=self.host))
        return self.guard

    def ended(self, handle):
        self.n_asked += 1
        if self.n_asked == 3:
            run.write_status(*self.run, run.RunStatus(run.FINISHED, attempt=1, exit_code=0))
            self.lock.__exit__(None, None, None)
        return True

    def stop(self, handle):
        pass


@pytest.mark.parametrize(("host", "code"), [("other", 1), (platform.node(), run.EXIT_ALIVE)])
def test_run_that_a_job_of_an_earlier_launcher_has_is_waited_for(script, tmp_path, host, code):
    pool = Elsewhere(host, code)
    launch(tmp_path / "s", script, ["a"], pool=pool)
    assert pool.n_asked == 3
    assert not (tmp_path / "s" / "failed.txt").exists()


def test_run_that_finishes_while_its_launcher_looks(script, tmp_path, monkeypatch):
    """It used to be reported as failed, if that was between two looks."""

    def look(log_dir, run_ID):
        run.write_status(log_dir, run_ID, run.RunStatus(run.FINISHED, attempt=1, exit_code=0))
        return False

    monkeypatch.setattr(run, "is_alive", look)
    launch(tmp_path / "s", script, ["a"], pool=Elsewhere("other", 1))
    assert not (tmp_path / "s" / "failed.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "survives"), [(1.5, True), (8, False)])
def test_run_that_outlives_its_guard_may_save_but_is_killed(
    script, tmp_path, monkeypatch, seconds, survives
):
    """Nothing else would end it at its time limit."""
    monkeypatch.setattr(sweep, "END_TIMEOUT_S", 4.0)
    script.write_text(
        textwrap.dedent(f"""
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while not os.path.exists(os.path.join(sys.argv[2], "status_0.json")):
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep({seconds})
        open(os.path.join(sys.argv[2], "survived"), "w")
        """)
    )
    with pytest.raises(SweepError, match="exit code -9"):
        launch(tmp_path / "s", script, ["a"])
    wait_until(lambda: not run.is_alive(str(tmp_path / "s" / "a"), 0))
    assert (tmp_path / "s" / "a" / "survived").exists() == survives


# --- Refused before anything starts ---------------------------------------------------------------


def test_directory_of_another_sweep(script, tmp_path):
    launch(tmp_path / "s", script, ["a"])
    before = content(tmp_path / "s")
    other = tmp_path / "other.py"
    other.write_text(script.read_text())
    with pytest.raises(ValueError, match="script="):
        launch(tmp_path / "s", other, ["a"])
    with pytest.raises(ValueError, match=r"variants\['a'\]="):
        launch(tmp_path / "s", script, ["a"], variants=[{"name": "z"}])
    with pytest.raises(ValueError, match=r"variants\['b'\]=None"):
        launch(tmp_path / "s", script, ["a", "b"])
    with pytest.raises(ValueError, match="common_args="):
        launch(tmp_path / "s", script, ["a"], common_args=("x",))
    with (
        run.locked(str(tmp_path / "s" / "sweep.lock")),
        pytest.raises(ValueError, match="launcher"),
    ):
        launch(tmp_path / "s", script, ["a"])
    (tmp_path / "s" / "sweep.json").unlink()
    with pytest.raises(ValueError, match=r"has no sweep\.json"):
        launch(tmp_path / "s", script, ["a"])
    assert content(tmp_path / "s") == before


def test_run_that_is_still_at_work(script, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "END_TIMEOUT_S", -4.8)
    launch(tmp_path / "s", script, ["a"])
    directory = tmp_path / "s" / "a"
    with run.locked(str(directory / "status_0.lock")):
        launch(tmp_path / "s", script, ["a"])  # Finished: a process that it left has the lock.
        run.write_status(str(directory), 0, run.RunStatus(run.RUNNING, attempt=1, pid=3))
        with pytest.raises(ValueError, match=r"run 0 in '.*a'.* \d+"):
            launch(tmp_path / "s", script, ["a"])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"variants": [{"algo": {"learning_rat": 1}}]}, KeyError, "learning_rat"),
        ({"variants": [{"algo": {"learning_rate": print}}]}, ValueError, "saved as JSON"),
        ({"time_limit_s": 0}, ValueError, "time_limit_s=0"),
        ({"affinity_code": "3slt_" + TWO_SLOTS}, ValueError, "slt"),
        ({"affinity_code": "4cpu_1gpu_2gpr"}, ValueError, "4cpu_1gpu_2gpr"),
        ({"affinity_code": "99cpu_99gpu_0saf_0hto"}, ValueError, "has GPU"),
        ({"affinity_code": "99cpu_0gpu_1cpr"}, ValueError, "CPU"),
        ({"script": "no/script.py"}, FileNotFoundError, r"no/script\.py"),
        ({"log_dirs": []}, ValueError, "log_dirs has 0 entries for 1"),
        ({"runs_args": [(), ()]}, ValueError, "runs_args has 2"),
        ({"runs_per_setting": 0}, ValueError, "runs_per_setting=0"),
        ({"variants": [{}, {}], "log_dirs": ["a", "a"]}, ValueError, "log_dirs.*'a'"),
    ],
)
def test_bad_input(script, tmp_path, changes, error, message):
    arguments = {
        "script": script,
        "affinity_code": TWO_SLOTS,
        "experiment_title": str(tmp_path / "s"),
        "runs_per_setting": 1,
        "variants": [{"algo": {"learning_rate": 1}}],
        "log_dirs": ["a"],
        "config": {"algo": {"learning_rate": 0}},
        **changes,
    }
    with pytest.raises(error, match=message):
        run_experiments(**arguments)
    assert not (tmp_path / "s").exists()

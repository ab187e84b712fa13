"""Running sweep, which starts runs in free slots, watches them, and reports their ends.

``sweep.json`` in its directory has its script, arguments and variants; the files with the states of
runs are in :mod:`~rlpyt.experiments.sweeps.run`.
"""

from __future__ import annotations

import json
import os
import os.path as osp
import platform
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rlpyt.experiments.sweeps import run as run_module
from rlpyt.experiments.sweeps.display import Display
from rlpyt.experiments.sweeps.pools import Pool, egl_device, no_script, run_call
from rlpyt.experiments.sweeps.run import (
    Run,
    RunCommand,
    RunStatus,
    output_file,
    read_status,
    write_status,
)
from rlpyt.experiments.sweeps.variant import VARIANT, save_variant
from rlpyt.utils.files import replacing

SWEEP = "sweep.json"
# Runs take minutes to days, so this delay in finding a free slot does not matter.
POLL_INTERVAL_S = 0.5
# Time for a run to save a checkpoint before it is killed.
END_TIMEOUT_S = 30.0


class FailedRun(NamedTuple):
    """Run whose process did not end with exit code 0."""

    log_dir: str
    run_ID: int
    exit_code: int  # negative for the signal that ended the run


class SweepError(RuntimeError):
    """Error of a sweep in which runs failed."""

    def __init__(self, failed: Sequence[FailedRun], total: int) -> None:
        self.failed = list(failed)
        lines = "\n".join(
            f"  exit code {run.exit_code}: run {run.run_ID} in {run.log_dir}" for run in failed
        )
        super().__init__(
            f"{len(self.failed)} of {total} runs failed, see their logs; retry_failed=True "
            f"(--retry-failed) tries them again:\n{lines}"
        )


class Sweep:
    """Running sweep, with arguments of :func:`~rlpyt.experiments.sweeps.launch.run_experiments`.

    Attributes:
        failed: runs that failed, in this launch or an earlier one.
    """

    def __init__(
        self,
        exp_dir: str,
        script: str | os.PathLike[str],
        pool: Pool,
        total: int,
        common_args: Sequence[Any] = (),
        set_egl_device: bool = False,
        retry_failed: bool = False,
        time_limit_s: float | None = None,
    ) -> None:
        if not osp.isfile(script):
            raise no_script(script)
        if time_limit_s is not None and not time_limit_s > 0:
            raise ValueError(f"time_limit_s={time_limit_s} must be positive, or None for no limit")
        self.exp_dir, self.script, self.pool = exp_dir, osp.abspath(script), pool
        self.common_args, self.set_egl_device = tuple(common_args), set_egl_device
        self.retry_failed, self.time_limit_s = retry_failed, time_limit_s
        self.failed: list[FailedRun] = []
        self._active: dict[int, tuple[Run, Any]] = {}  # By slot: the run and its handle.
        self._unguarded: dict[int, float] = {}  # By slot: when the run was seen without its guard.
        self._n_launched, self._total = 0, total
        self._display = Display(exp_dir, total)

    @contextmanager
    def opened(self, kind: str, content: Any) -> Iterator[None]:
        """Lock the directory, made if needed, after a check that it belongs to this sweep."""
        script, args = _recorded_script(self.script), list(self.common_args)
        identity = {"script": script, "common_args": args, kind: content}
        try:
            identity = json.loads(json.dumps(identity))  # As it is read back: tuples are lists.
        except TypeError as error:
            raise ValueError(f"variants and arguments are saved as JSON, but {error}") from error
        _check_sweep(self.exp_dir, identity)
        os.makedirs(self.exp_dir, exist_ok=True)
        with run_module.locked(osp.join(self.exp_dir, "sweep.lock")) as lock:
            if lock is None:
                raise ValueError(
                    f"a launcher is at work in {self.exp_dir!r}: wait until it ends, or end it"
                )
            with replacing(osp.join(self.exp_dir, SWEEP), encoding="utf-8") as file:
                json.dump(identity, file, indent=1)
            _wait_for_former_runs(self.exp_dir)
            yield

    def work(
        self,
        runs: Iterator[Run],
        pruned: Callable[[Sequence[Run]], Iterable[Run]] = lambda active: (),
    ) -> None:
        """Run all missing, interrupted and retried runs, and return when all are over.

        The next run is taken when a slot is free; of the active ones, those that ``pruned`` returns
        end early.
        """
        to_start = (run for run in runs if self._has_to_run(run))
        exhausted = False
        try:
            with _terminated_like_interrupted(), self._display:
                while self._active or not exhausted:
                    while len(self._active) < len(self.pool.slots) and not exhausted:
                        run = next(to_start, None)
                        exhausted = run is None
                        if run is not None:
                            self._start(run)
                    self._prune(pruned([run for run, _ in self._active.values()]))
                    self._collect()
                    self._display.show({slot: run for slot, (run, _) in self._active.items()})
                    if self._active:
                        time.sleep(POLL_INTERVAL_S)
        finally:
            self._end_all()
            self._log_failed()
        if self.failed:
            raise SweepError(self.failed, self._total)

    def _has_to_run(self, run: Run) -> bool:
        """Return whether a run is missing, interrupted, or failed and to be retried."""
        status = run.status
        if status.state == run_module.FAILED and not self.retry_failed:
            self.failed.append(FailedRun(run.log_dir, run.run_ID, status.exit_code or 0))
            reason = "failed earlier; retry_failed=True (--retry-failed) tries it again"
        elif status.state in (run_module.FINISHED, run_module.PRUNED):
            reason = status.state
        else:
            return True
        self._display.skipped(run, reason)
        self._count()
        return False

    def _start(self, run: Run) -> None:
        number = next(n for n in range(len(self._active) + 1) if n not in self._active)
        os.makedirs(run.log_dir, exist_ok=True)
        if not osp.exists(osp.join(run.log_dir, VARIANT)):
            save_variant(run.variant, run.log_dir)
        args = (*self.common_args, *run.args)
        slot = self.pool.slots[number]
        call = run_call(self.script, slot, run.log_dir, run.run_ID, args)
        env = egl_device(slot) if self.set_egl_device else {}
        command = RunCommand(run.log_dir, run.run_ID, call, env, self.time_limit_s, END_TIMEOUT_S)
        self._active[number] = run, self.pool.start(command)
        self._display.started(run, number)
        self._count()

    def _count(self) -> None:
        self._n_launched += 1
        log_num_launched(self.exp_dir, self._n_launched, self._total)

    def _prune(self, runs: Iterable[Run]) -> None:
        """End runs early, and record it, so that they do not start again."""
        for run in runs:
            slot, handle = next((s, h) for s, (r, h) in self._active.items() if r == run)
            del self._active[slot]
            self.pool.stop(handle)
            while not self.pool.ended(handle):
                time.sleep(POLL_INTERVAL_S)
            if run.status.state == run_module.INTERRUPTED:
                status = RunStatus(state=run_module.PRUNED, attempt=run.status.attempt)
                write_status(run.log_dir, run.run_ID, status)
            self._display.ended(run, run.status)

    def _collect(self) -> None:
        """Free the slots of runs that ended, and report failures."""
        for slot, (run, handle) in list(self._active.items()):
            if not self.pool.ended(handle):
                continue
            # In this order, since a run that is over has written its last state.
            is_alive = run_module.is_alive(run.log_dir, run.run_ID)
            status = run.status
            if status.state == run_module.RUNNING and is_alive:
                if _is_elsewhere(handle, status):
                    continue
                # Its guard was killed, so the system sent SIGTERM: the run saves a checkpoint.
                seen = self._unguarded.setdefault(slot, time.monotonic())
                if time.monotonic() - seen < END_TIMEOUT_S:
                    continue
                assert status.pid is not None
                run_module.kill_group(status.pid)
            self._unguarded.pop(slot, None)
            del self._active[slot]
            if status.state == run_module.RUNNING or status.exit_code is None:
                reason = "its guard died"
                status = replace(status, state=run_module.FAILED, exit_code=-9, reason=reason)
            if status.state != run_module.FINISHED:
                self.failed.append(FailedRun(run.log_dir, run.run_ID, status.exit_code or 0))
            self._display.ended(run, status)
            if status.state != run_module.FINISHED:
                self._display.failure(run, status, _end_of(output_file(run.log_dir, run.run_ID)))

    def _end_all(self) -> None:
        """Ask the active runs to end, and wait until their guards have ended them."""
        for _, handle in self._active.values():
            self.pool.stop(handle)
        deadline = time.monotonic() + END_TIMEOUT_S + 5.0
        while self._active and time.monotonic() < deadline:
            self._active = {
                slot: (run, handle)
                for slot, (run, handle) in self._active.items()
                if not self.pool.ended(handle)
            }
            time.sleep(0.05)

    def _log_failed(self) -> None:
        path = osp.join(self.exp_dir, "failed.txt")
        if self.failed:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{r.exit_code}\t{r.run_ID}\t{r.log_dir}\n" for r in self.failed)
        elif osp.exists(path):
            os.remove(path)


def _recorded_script(script: str) -> str:
    """Return the path of a script, relative for scripts of this package."""
    package = Path(osp.abspath(__file__)).parents[2]
    path = Path(script)
    return str(path.relative_to(package.parent) if path.is_relative_to(package) else path)


def _check_sweep(exp_dir: str, identity: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if another sweep has the directory."""
    try:
        with open(osp.join(exp_dir, SWEEP), encoding="utf-8") as file:
            before = json.load(file)
    except FileNotFoundError:
        if osp.exists(osp.join(exp_dir, "experiments_tree.txt")):
            raise ValueError(
                f"{exp_dir!r} is the directory of a sweep that has no {SWEEP}, so that its runs "
                "may belong to another sweep: choose another directory"
            ) from None
        places = [Path(exp_dir, log_dir) for log_dir in ("", *identity.get("variants", ()))]
        runs = [run for place in places for run in place.glob("run_*")]
        if runs or osp.exists(osp.join(exp_dir, "params.json")):
            raise ValueError(
                f"{exp_dir!r} has runs that belong to no sweep: choose another directory"
            ) from None
        return
    if before == identity:
        return
    different = [key for key in {**before, **identity} if before.get(key) != identity.get(key)]
    key = different[0]
    was, now = before.get(key), identity.get(key)
    if isinstance(was, dict) and isinstance(now, dict):
        name = next(name for name in {**was, **now} if was.get(name) != now.get(name))
        key, was, now = f"{key}[{name!r}]", was.get(name), now.get(name)
    raise ValueError(
        f"{exp_dir!r} is the directory of another sweep, with {key}={was!r} instead of {now!r}: "
        "choose another directory"
    )


def _wait_for_former_runs(exp_dir: str) -> None:
    """Wait until guards have ended the runs of a killed launcher."""
    deadline = time.monotonic() + END_TIMEOUT_S + 5.0
    for path in Path(exp_dir).rglob("status_*.lock"):
        log_dir, run_ID = str(path.parent), int(path.stem.rpartition("_")[2])
        while run_module.is_alive(log_dir, run_ID):
            status = read_status(log_dir, run_ID)
            if status.state == run_module.FINISHED:
                break  # Only a process that it left behind is there.
            if time.monotonic() > deadline:
                raise ValueError(
                    f"run {run_ID} in {log_dir!r} is still at work: process {status.pid} of "
                    f"{status.host}; wait for its end, or end it"
                )
            time.sleep(min(POLL_INTERVAL_S, 0.1))


def _is_elsewhere(handle: Any, status: RunStatus) -> bool:
    """Return whether a run is in a job of an earlier launcher or a cluster."""
    return (
        not isinstance(handle, subprocess.Popen)
        or handle.returncode == run_module.EXIT_ALIVE
        or status.host != platform.node()
    )


def _end_of(path: str) -> str:
    if not osp.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(deque(file, maxlen=10))


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Raise an exception on SIGTERM in this process, so that it ends its runs too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread can set a handler.
        return
    before = signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def log_num_launched(exp_dir: str, n: int, total: int) -> None:
    """Write the number of launched runs into ``exp_dir/num_launched.txt``."""
    with open(osp.join(exp_dir, "num_launched.txt"), "w", encoding="utf-8") as file:
        file.write(f"Experiments launched so far: {n} out of {total}.\n")

"""One run of a sweep: its process, its guard, and its state on disk.

The guard of a run is a small process that starts the script and watches it. It writes the state of
the run, and ends the run at its time limit or when the launcher ends, even if the launcher was
killed.

Files of run ``N``, in the directory of its setting:

* ``status_N.json``: state, number of attempts, exit code, process; replaced as a whole.
* ``status_N.lock``: locked as long as the guard or a process of the run lives.
* ``launch_N.log``: the output of the run in all attempts.

``python -m rlpyt.experiments.sweeps.run`` is the guard; :func:`start` starts it. This module avoids
slow imports.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import os.path as osp
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from rlpyt.utils.files import replacing

# States. A run that is RUNNING and whose lock is free was killed together with its guard.
NEW, RUNNING, INTERRUPTED = "new", "running", "interrupted"
FINISHED, FAILED, PRUNED = "finished", "failed", "pruned"

# Exit code of a guard that found its run at work already.
EXIT_ALIVE = 75
# Signals that end a run from outside.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
_ENDED_FROM_OUTSIDE = {code for s in _ENDING for code in (-int(s), 128 + int(s))}

_PR_SET_PDEATHSIG = 1  # Constant of prctl in Linux.


@dataclass(frozen=True)
class RunCommand:
    """Settings of a guard, as plain values."""

    log_dir: str  # directory of the setting, which exists
    run_ID: int  # number among the runs of one setting
    call: list[str]  # program with its arguments
    env: Mapping[str, str] = field(default_factory=dict)  # variables to add
    time_limit_s: float | None = None  # of an attempt; None for no limit
    end_timeout_s: float = 30.0  # from SIGTERM, the request to end, to SIGKILL


@dataclass(frozen=True)
class RunStatus:
    """State of a run on disk."""

    state: str = NEW  # one of the states of this module
    attempt: int = 0  # number of times that the run was started
    exit_code: int | None = None  # of the last attempt, negative for a signal; None before its end
    reason: str = ""  # for the end, if the exit code does not show it
    started: float | None = None  # time of the last start, in seconds since 1970
    ended: float | None = None  # time of the last end
    pid: int | None = None  # process of the run, which leads a process group
    host: str = ""  # name of its machine


# --- State on disk -------------------------------------------------------------------------------


def output_file(log_dir: str, run_ID: int) -> str:
    """Return the path of the file with the output of a run."""
    return osp.join(log_dir, f"launch_{run_ID}.log")


def read_status(log_dir: str, run_ID: int) -> RunStatus:
    """Return the last written state of a run."""
    try:
        with open(_status_file(log_dir, run_ID), encoding="utf-8") as file:
            return RunStatus(**json.load(file))
    except FileNotFoundError:
        return RunStatus()


def write_status(log_dir: str, run_ID: int, status: RunStatus) -> None:
    """Replace the state of a run."""
    with replacing(_status_file(log_dir, run_ID), encoding="utf-8") as file:
        json.dump(asdict(status), file, indent=1)


def is_alive(log_dir: str, run_ID: int) -> bool:
    """Return whether the guard or a process of a run lives, on any machine with these files."""
    path = _lock_file(log_dir, run_ID)
    if not osp.exists(path):
        return False
    with locked(path) as lock:
        return lock is None


@contextmanager
def locked(path: str) -> Iterator[int | None]:
    """Hold the lock of a file or directory; yields its descriptor, or None if another holds it.

    A file is made if there is none.
    """
    flags = os.O_RDONLY if osp.isdir(path) else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)  # Frees the lock, unless a child has a copy of the descriptor.


def _status_file(log_dir: str, run_ID: int) -> str:
    return osp.join(log_dir, f"status_{run_ID}.json")


def _lock_file(log_dir: str, run_ID: int) -> str:
    return osp.join(log_dir, f"status_{run_ID}.lock")


# --- A run ---------------------------------------------------------------------------------------


class Run(NamedTuple):
    """Run of a sweep."""

    name: str  # directory below the directory of the sweep
    log_dir: str
    run_ID: int
    variant: Mapping[str, Any]
    args: tuple[Any, ...] = ()

    @property
    def status(self) -> RunStatus:
        """State on disk."""
        return read_status(self.log_dir, self.run_ID)


# --- Start of a guard ----------------------------------------------------------------------------


def start(command: RunCommand) -> subprocess.Popen[bytes]:
    """Start the guard of a run; close its ``stdin`` to end the run.

    The guard has its own session, so that Ctrl-C reaches only the calling process.
    """
    with open(output_file(command.log_dir, command.run_ID), "ab") as output:
        guard = subprocess.Popen(
            [sys.executable, "-m", "rlpyt.experiments.sweeps.run"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **library_path()},
            start_new_session=True,
        )
    assert guard.stdin is not None
    with suppress(BrokenPipeError):  # The exit code shows the failure.
        guard.stdin.write(json.dumps(asdict(command)).encode() + b"\n")
        guard.stdin.flush()
    return guard


def run_to_end(command: RunCommand) -> int:
    """Start a run and return the exit code of its guard; an exception ends the run."""
    guard = start(command)
    assert guard.stdin is not None
    try:
        # Ray cancels by an exception that waits for the end of a call into the system.
        while guard.poll() is None:
            time.sleep(0.1)
        return guard.returncode
    finally:
        guard.stdin.close()
        guard.wait()


def library_path() -> dict[str, str]:
    """Return the environment variables with which a process imports this copy of the library."""
    root = osp.abspath(osp.join(osp.dirname(__file__), "../../.."))
    if "site-packages" in root:
        return {}
    others = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {"PYTHONPATH": os.pathsep.join([root, *others])}


# --- The guard -----------------------------------------------------------------------------------


def main() -> int:
    """Run the command from standard input, until it ends or standard input is closed."""
    command = RunCommand(**json.loads(sys.stdin.buffer.readline()))
    deadline = time.monotonic() + 2.0  # Another process may be checking the lock.
    while True:
        with locked(_lock_file(command.log_dir, command.run_ID)) as lock:
            if lock is not None:
                return _guard(command, lock)
        if time.monotonic() > deadline:
            return EXIT_ALIVE
        time.sleep(0.05)


def _guard(command: RunCommand, lock: int) -> int:
    before = read_status(command.log_dir, command.run_ID)
    if before.state == FINISHED:
        return 0
    events: SimpleQueue[str] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: events.put("stop"))
    process = subprocess.Popen(
        command.call,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **command.env},
        start_new_session=True,
        pass_fds=(lock,),  # The lock stays as long as the run, even if this guard is killed.
        preexec_fn=_end_with_parent,
    )
    status = RunStatus(
        state=RUNNING,
        attempt=before.attempt + 1,
        started=time.time(),
        pid=process.pid,
        host=platform.node(),
    )
    write_status(command.log_dir, command.run_ID, status)
    _in_thread(process.wait, events, "exit")
    # Returns when the launcher closes the pipe, or is gone.
    _in_thread(sys.stdin.buffer.read, events, "stop")
    ending = _wait_for(events, command.time_limit_s)
    if ending != "exit":
        _end(process, events, command.end_timeout_s)
    code = process.wait()
    if code != 0:
        kill_group(process.pid)  # Processes that the run left behind.
    state, reason = _judge(code, ending, command.time_limit_s)
    status = replace(status, state=state, reason=reason, exit_code=code, ended=time.time())
    write_status(command.log_dir, command.run_ID, status)
    return code if code >= 0 else 128 - code


def _in_thread(wait: Callable[[], Any], events: SimpleQueue[str], event: str) -> None:
    """Announce an event when ``wait`` returns."""

    def watch() -> None:
        wait()
        events.put(event)

    threading.Thread(target=watch, daemon=True).start()


def _end_with_parent() -> None:
    """Let the kernel end this process when its guard is killed; only Linux can do that."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_for(events: SimpleQueue[str], timeout_s: float | None) -> str:
    try:
        return events.get(timeout=timeout_s)
    except Empty:
        return "time limit"


def _end(process: subprocess.Popen[bytes], events: SimpleQueue[str], timeout_s: float) -> None:
    """Ask a run to end, which may save a checkpoint, and end it by force after a time."""
    with suppress(ProcessLookupError):
        process.terminate()
    deadline = time.monotonic() + timeout_s
    while _wait_for(events, max(0.0, deadline - time.monotonic())) == "stop":
        pass
    if process.poll() is None:
        kill_group(process.pid)


def _judge(code: int, ending: str, time_limit_s: float | None) -> tuple[str, str]:
    """Return the state of a run that ended, and the reason."""
    if code == 0:
        return FINISHED, ""
    if ending == "time limit":
        return FAILED, f"time limit of {time_limit_s:g} s"
    if ending == "stop" or code in _ENDED_FROM_OUTSIDE:
        return INTERRUPTED, ""
    return FAILED, ""


def kill_group(pid: int) -> None:
    """Kill the process group that ``pid`` leads, if there is any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    # Without the interpreter's shutdown, which would wait for the reading thread.
    code = main()
    sys.stdout.flush()
    os._exit(code)

"""Launcher of the runs of a sweep as processes, as many at a time as the machine has slots.

Every run is ``python script <slot_affinity_code> <log_dir> <run_ID> <args...>``, with its settings
in ``<log_dir>/variant_config.json`` and its output in ``<log_dir>/launch_<run_ID>.log``. The script
calls :func:`~rlpyt.utils.launching.affinity.affinity_from_code` and
:func:`~rlpyt.utils.launching.variant.load_variant`.
"""

from __future__ import annotations

import os
import os.path as osp
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

from rlpyt.utils.launching.affinity import affinity_from_code, get_n_run_slots, prepend_run_slot
from rlpyt.utils.launching.variant import save_variant
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.processes.launch import check_cpus

# Runs take minutes to days, so this delay in finding a free slot does not matter.
POLL_INTERVAL_S = 0.5
# Time for a run to write its files after Ctrl-C, before it is killed.
END_TIMEOUT_S = 10.0


class FailedRun(NamedTuple):
    """Run whose process did not end with exit code 0."""

    log_dir: str
    run_ID: int
    exit_code: int  # negative for the signal that ended the run


class SweepError(RuntimeError):
    """Error of a sweep in which runs failed.

    Args:
        failed: runs that failed.
        total: number of runs of the sweep.
    """

    def __init__(self, failed: Sequence[FailedRun], total: int) -> None:
        self.failed = list(failed)
        lines = "\n".join(
            f"  exit code {run.exit_code}: run {run.run_ID} in {run.log_dir}" for run in failed
        )
        super().__init__(f"{len(self.failed)} of {total} runs failed, see their logs:\n{lines}")


def log_exps_tree(exp_dir: str, log_dirs: Sequence[str], runs_per_setting: int) -> None:
    """Write the settings of the sweep into ``exp_dir/experiments_tree.txt``.

    Args:
        exp_dir: directory of the sweep, made if needed.
        log_dirs: directories of the settings, below ``exp_dir``.
        runs_per_setting: number of runs of each setting.
    """
    os.makedirs(exp_dir, exist_ok=True)
    with open(osp.join(exp_dir, "experiments_tree.txt"), "w", encoding="utf-8") as file:
        file.write(f"Experiment manager process ID: {os.getpid()}.\n")
        file.write(
            f"Number of settings (experiments) to run: {len(log_dirs)} "
            f"({runs_per_setting * len(log_dirs)}).\n\n"
        )
        file.writelines(f"{log_dir}\n" for log_dir in log_dirs)


def log_num_launched(exp_dir: str, n: int, total: int) -> None:
    """Write the number of launched runs into ``exp_dir/num_launched.txt``."""
    with open(osp.join(exp_dir, "num_launched.txt"), "w", encoding="utf-8") as file:
        file.write(f"Experiments launched so far: {n} out of {total}.\n")


def launch_experiment(
    script: str | os.PathLike[str],
    run_slot: int,
    affinity_code: str,
    log_dir: str,
    variant: Mapping[str, Any],
    run_ID: int,
    args: Sequence[Any],
    python_executable: str | None = None,
    set_egl_device: bool = False,
    output: Any = None,
) -> subprocess.Popen[bytes]:
    """Start one run, confined to the CPUs of its slot unless the code has ``saf=0``.

    Args:
        script: path of a Python file.
        run_slot: slot of the run, its part of the machine.
        affinity_code: affinity code without a slot.
        log_dir: directory of the log, in which the variant is saved.
        variant: settings of the run.
        run_ID: number that distinguishes the runs of one setting.
        args: further arguments of the script, converted to text.
        python_executable: path of the interpreter; None for that of this process.
        set_egl_device: whether to set ``EGL_DEVICE_ID`` to the first GPU of the run, for rendering.
        output: file for the output of the run; None for that of this process.

    Returns:
        The running process.

    Raises:
        FileNotFoundError: if there is no such script.
        ValueError: if the code or the slot is impossible.
    """
    if not osp.isfile(script):
        raise FileNotFoundError(f"script {str(script)!r} does not exist: give the path of the file")
    slot_affinity_code = prepend_run_slot(run_slot, affinity_code)
    affinity = affinity_from_code(slot_affinity_code)
    python = sys.executable if python_executable is None else python_executable
    call = [python, script, slot_affinity_code, log_dir, run_ID, *args]
    call_list = [*_pinning(affinity), *map(str, call)]
    env = _environment()
    gpus = _gpus_of(affinity)
    if set_egl_device and gpus:
        env["EGL_DEVICE_ID"] = str(gpus[0])
    save_variant(variant, log_dir)
    print("\ncall string:\n", " ".join(call_list), flush=True)
    # In a session of its own, because Ctrl-C must reach only this process, which ends the runs.
    return subprocess.Popen(
        call_list,
        env=env,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
    )


def _halves(affinity: Any) -> list[Any]:
    """Return the affinities of a run's processes: one, one per GPU, or optimizers and samplers."""
    if isinstance(affinity, (list, tuple)):
        return [half for one in affinity for half in _halves(one)]
    if "optimizer" not in affinity:
        return [affinity]
    return [*affinity["optimizer"], *_halves(affinity["sampler"])]


def _cpus_of(affinity: Any) -> list[int]:
    """Return the CPUs of a run; none if they are not to be set."""
    halves = affinity if isinstance(affinity, list) else [affinity]
    if not all(half.get("set_affinity", True) for half in halves):
        return []
    return list(dict.fromkeys(cpu for half in halves for cpu in half.get("all_cpus", ())))


def _pinning(affinity: Any) -> list[str]:
    """Return the beginning of a command that confines it to its CPUs, empty if impossible."""
    cpus = _cpus_of(affinity)
    if not cpus:
        return []
    if shutil.which("taskset") is None:
        print("The program taskset is missing: processes of the run set their affinity themselves.")
        return []
    return ["taskset", "-c", ",".join(map(str, cpus))]


def _environment() -> dict[str, str]:
    """Return this process's environment, extended so that runs import this copy of the library."""
    env = dict(os.environ)
    root = osp.abspath(osp.join(osp.dirname(__file__), "../../.."))
    if "site-packages" not in root:
        others = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
        env["PYTHONPATH"] = os.pathsep.join([root, *others])
    return env


def _gpus_of(affinity: Any) -> list[int]:
    """Return the GPUs of a run in order, those of the samplers last."""
    gpus = [half.get("cuda_idx") for half in _halves(affinity)]
    return [gpu for gpu in gpus if gpu is not None]


def run_experiments(
    script: str | os.PathLike[str],
    affinity_code: str,
    experiment_title: str,
    runs_per_setting: int,
    variants: Sequence[Mapping[str, Any]],
    log_dirs: Sequence[str],
    common_args: Sequence[Any] | None = None,
    runs_args: Sequence[Sequence[Any]] | None = None,
    set_egl_device: bool = False,
) -> None:
    """Run every variant ``runs_per_setting`` times, as many at a time as the code has slots.

    A run that fails is reported at once, and in ``failed.txt``; the others continue. Ctrl-C ends
    all.

    Args:
        script: path of a Python file, called as this module describes.
        affinity_code: code from :func:`~rlpyt.utils.launching.affinity.encode_affinity`.
        experiment_title: name of the sweep and of its directory.
        runs_per_setting: number of runs of each variant, with ``run_ID`` 0, 1, ...; every variant
            runs once before any runs again.
        variants: settings from :func:`~rlpyt.utils.launching.variant.make_variants`.
        log_dirs: directories of the variants, from the same function.
        common_args: arguments of every run.
        runs_args: arguments of the runs of each variant, after the common ones.
        set_egl_device: whether to set ``EGL_DEVICE_ID``, see :func:`launch_experiment`.

    Raises:
        ValueError: if the sequences differ in length, or the code does not fit this machine.
        SweepError: at the end, if runs failed.
    """
    n_settings = len(variants)
    runs_args = [()] * n_settings if runs_args is None else runs_args
    for name, given in (("log_dirs", log_dirs), ("runs_args", runs_args)):
        if len(given) != n_settings:
            raise ValueError(
                f"{name} has {len(given)} entries for {n_settings} variants: give one each"
            )
    if runs_per_setting < 1:
        raise ValueError(f"runs_per_setting={runs_per_setting} must be at least 1")
    n_slots = get_n_run_slots(affinity_code)
    for slot in range(n_slots):
        check_cpus(_cpus_of(affinity_from_code(prepend_run_slot(slot, affinity_code))))
    slots = _Slots(n_slots)
    exp_dir = get_log_dir(experiment_title)
    total = n_settings * runs_per_setting
    log_exps_tree(exp_dir, log_dirs, runs_per_setting)
    log_num_launched(exp_dir, 0, total)
    settings = list(zip(variants, log_dirs, runs_args))
    try:
        with _terminated_like_interrupted():
            for n, (run_ID, setting) in enumerate(product(range(runs_per_setting), settings), 1):
                variant, setting_dir, args = setting
                log_dir = osp.join(exp_dir, setting_dir)
                slot = slots.wait_for_free_one()
                os.makedirs(log_dir, exist_ok=True)
                with open(osp.join(log_dir, f"launch_{run_ID}.log"), "wb") as output:
                    process = launch_experiment(
                        script=script,
                        run_slot=slot,
                        affinity_code=affinity_code,
                        log_dir=log_dir,
                        variant=variant,
                        run_ID=run_ID,
                        args=(*(common_args or ()), *args),
                        set_egl_device=set_egl_device,
                        output=output,
                    )
                slots.take(slot, process, log_dir, run_ID)
                log_num_launched(exp_dir, n, total)
            slots.wait_for_all()
    finally:
        slots.end_all()
        _log_failed(exp_dir, slots.failed)
    if slots.failed:
        raise SweepError(slots.failed, total)


def _log_failed(exp_dir: str, failed: Sequence[FailedRun]) -> None:
    if failed:
        with open(osp.join(exp_dir, "failed.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{run.exit_code}\t{run.run_ID}\t{run.log_dir}\n" for run in failed)


class _Slots:
    """Running processes of a sweep, one in each slot.

    Attributes:
        failed: runs that ended without success.
    """

    def __init__(self, n: int) -> None:
        self.failed: list[FailedRun] = []
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * n
        self._runs: list[tuple[str, int]] = [("", 0)] * n

    def take(self, slot: int, process: subprocess.Popen[bytes], log_dir: str, run_ID: int) -> None:
        """Put a run into a free slot."""
        self._processes[slot], self._runs[slot] = process, (log_dir, run_ID)

    def wait_for_free_one(self) -> int:
        """Return the first free slot, once there is one."""
        while True:
            self._collect()
            if None in self._processes:
                return self._processes.index(None)
            time.sleep(POLL_INTERVAL_S)

    def wait_for_all(self) -> None:
        """Return when every run is over."""
        self._collect()
        while any(self._processes):
            time.sleep(POLL_INTERVAL_S)
            self._collect()

    def end_all(self) -> None:
        """Interrupt the runs that still work, and kill those that do not end in time."""
        at_work = [p for p in self._processes if p is not None and p.poll() is None]
        for process in at_work:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + END_TIMEOUT_S
        for process in at_work:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # Includes its workers.
                process.wait()
        self._collect()

    def _collect(self) -> None:
        """Free the slots of finished runs, and report failures."""
        for slot, process in enumerate(self._processes):
            if process is None or process.poll() is None:
                continue
            self._processes[slot] = None
            if process.returncode != 0:
                run = FailedRun(*self._runs[slot], process.returncode)
                self.failed.append(run)
                output = osp.join(run.log_dir, f"launch_{run.run_ID}.log")
                print(
                    f"FAILED with exit code {run.exit_code}: run {run.run_ID}; the end of {output} "
                    f"is:\n{_end_of(output)}",
                    flush=True,
                )


def _end_of(path: str, n_lines: int = 10) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(deque(file, maxlen=n_lines))


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM raise an exception in this process, so that it ends its runs too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread can set a handler.
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(signum: int, frame: Any) -> None:
    sys.exit(128 + signum)

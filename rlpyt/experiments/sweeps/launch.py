"""Launcher of a sweep: every run is a process in one of the machine's slots.

Every run is ``python script <slot_affinity_code> <log_dir> <run_ID> <args...>``, with its settings
in ``<log_dir>/variant_config.json`` and its output in ``<log_dir>/launch_<run_ID>.log``. The script
calls :func:`~rlpyt.experiments.sweeps.affinity.affinity_from_code` and
:func:`~rlpyt.experiments.sweeps.variant.load_variant`.

A sweep that is launched again into its directory skips finished runs, restarts interrupted ones,
and starts missing ones: see :mod:`~rlpyt.experiments.sweeps.sweep`.
"""

from __future__ import annotations

import os
import os.path as osp
import subprocess
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from rlpyt.experiments.sweeps.affinity import decode_affinity
from rlpyt.experiments.sweeps.pools import LocalSlots, Pool, egl_device, no_script, run_call
from rlpyt.experiments.sweeps.run import Run, library_path
from rlpyt.experiments.sweeps.slots import Slot
from rlpyt.experiments.sweeps.sweep import (
    FailedRun as FailedRun,
    Sweep,
    SweepError as SweepError,
    log_num_launched as log_num_launched,
)
from rlpyt.experiments.sweeps.variant import save_variant, update_config
from rlpyt.processes.allocator import startup_environment
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.names import first_duplicate


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
    *,
    retry_failed: bool = False,
    time_limit_s: float | None = None,
    config: Mapping[str, Any] | None = None,
    pool: Pool | None = None,
) -> None:
    """Run every variant ``runs_per_setting`` times, as many at a time as the code has slots.

    A failed run is reported at once, and in ``failed.txt``; the others continue. Ctrl-C ends all
    runs; launched again, the sweep continues. A run continues from its checkpoint if the script
    calls ``runner.train(resume="auto")``.

    Args:
        script: path of a Python file, called as this module describes.
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`.
        experiment_title: name of the sweep and its directory; an absolute path to launch a
            sweep again.
        runs_per_setting: number of runs of each variant, with ``run_ID`` 0, 1, ...; every variant
            runs once before any runs again.
        variants: settings from :func:`~rlpyt.experiments.sweeps.variant.make_variants`.
        log_dirs: directories of the variants, from the same function.
        common_args: arguments of every run.
        runs_args: arguments of the runs of each variant, after the common ones.
        set_egl_device: whether to set ``EGL_DEVICE_ID``, see :func:`launch_experiment`.
        retry_failed: whether to restart runs that failed in an earlier launch.
        time_limit_s: seconds that each attempt of a run may take; None for no limit.
        config: configuration that the variants change, to check their keys before the start.
        pool: machine or cluster on which the runs are started; None for :class:`LocalSlots`.

    Raises:
        FileNotFoundError: if there is no such script.
        KeyError: if a variant has a key that ``config`` lacks.
        ValueError: if the sequences differ in length, two variants have one directory, the code
            does not fit the machine, or another sweep or launcher has the directory.
        SweepError: at the end, if runs failed.
    """
    n_settings = len(variants)
    runs_args = [()] * n_settings if runs_args is None else runs_args
    for name, given in (("log_dirs", log_dirs), ("runs_args", runs_args)):
        if len(given) != n_settings:
            raise ValueError(
                f"{name} has {len(given)} entries for {n_settings} variants: give one each"
            )
    twice = first_duplicate(log_dirs)
    if twice is not None:
        raise ValueError(f"log_dirs has {twice!r} twice: give each variant its own")
    if runs_per_setting < 1:
        raise ValueError(f"runs_per_setting={runs_per_setting} must be at least 1")
    for variant in variants:
        if config is not None:
            update_config(config, variant)
    exp_dir = get_log_dir(experiment_title)
    sweep = Sweep(
        exp_dir,
        script,
        pool or LocalSlots(affinity_code),
        n_settings * runs_per_setting,
        common_args or (),
        set_egl_device,
        retry_failed,
        time_limit_s,
    )
    settings = list(zip(variants, log_dirs, runs_args))
    identity = {
        log_dir: {"variant": variant, "args": list(args)} for variant, log_dir, args in settings
    }
    runs = [
        Run(log_dir, osp.join(exp_dir, log_dir), run_ID, variant, tuple(args))
        for run_ID, (variant, log_dir, args) in product(range(runs_per_setting), settings)
    ]
    with sweep.opened("variants", identity):
        log_exps_tree(exp_dir, log_dirs, runs_per_setting)
        sweep.work(iter(runs))


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

    This is for programs; sweeps start their runs by a pool.

    Args:
        script: path of a Python file.
        run_slot: slot of the run, its part of the machine.
        affinity_code: affinity code without a slot.
        log_dir: directory of the log, in which the variant is saved.
        variant: settings of the run.
        run_ID: number that distinguishes the runs of one setting.
        args: further arguments of the script, converted to text.
        python_executable: path of the interpreter; None for the interpreter of this process.
        set_egl_device: whether to set ``EGL_DEVICE_ID`` to the first GPU of the run, for rendering.
        output: file for the output of the run; None for the output of this process.

    Returns:
        The running process.

    Raises:
        FileNotFoundError: if there is no such script.
        ValueError: if the code or the slot is impossible.
    """
    if not osp.isfile(script):
        raise no_script(script)
    slot = Slot(decode_affinity(affinity_code), run_slot)
    call = run_call(script, slot, log_dir, run_ID, args, python_executable)
    env = {**os.environ, **library_path(), **startup_environment()}
    if set_egl_device:
        env.update(egl_device(slot))
    save_variant(variant, log_dir)
    print("\ncall string:\n", " ".join(call), flush=True)
    # In a separate session, because Ctrl-C must reach only this process, which ends the runs.
    return subprocess.Popen(
        call,
        env=env,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
    )

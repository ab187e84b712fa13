"""Directory of a run, and a log that is open for the length of the run."""

from __future__ import annotations

import json
import os
import os.path as osp
import platform
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import rlpyt
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.log import Logger, timestamp
from rlpyt.utils.logging.services import make_sinks
from rlpyt.utils.logging.sinks import RunInfo, Sink
from rlpyt.utils.names import import_extra
from rlpyt.utils.torchrun import torchrun_ranks

# Assign this name, or set the environment variable, to log elsewhere.
LOG_DIR = osp.abspath(os.environ.get("RLPYT_LOG_DIR", "data"))

# Packages that affect numbers.
PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "mujoco")

# Environment variable with the bundle that this program reproduces, see rlpyt/reproduce.py.
REPRODUCED_BUNDLE = "RLPYT_REPRODUCED_BUNDLE"


def reproduced_bundle() -> Path | None:
    """Return the directory of the bundle that this program reproduces, if it does."""
    bundle = os.environ.get(REPRODUCED_BUNDLE)
    return None if bundle is None else Path(bundle)


def get_log_dir(
    experiment_name: str, root_log_dir: str | None = None, date: bool = True, create: bool = False
) -> str:
    """Return ``<root_log_dir>/local/<yyyymmdd>/<hhmmss>/<experiment_name>``.

    Args:
        experiment_name: last part of the path; an absolute path is returned unchanged.
        root_log_dir: root of all logs; ``LOG_DIR`` if None.
        date: ignored argument.
        create: whether to create the directory; if another run of the same second has it, the
            first free one of ``<hhmmss>-2``, ``<hhmmss>-3``, ...
    """
    root = LOG_DIR if root_log_dir is None else root_log_dir
    if not osp.isabs(experiment_name):  # Without leading "..", which would leave the directory.
        parts = osp.normpath(experiment_name).split(os.sep)
        experiment_name = os.sep.join(part for part in parts if part != os.pardir)
    day, time = datetime.now().strftime("%Y%m%d %H%M%S").split()
    second = osp.join(root, "local", day, time)
    path, n = osp.join(second, experiment_name), 1
    while create and not osp.isabs(experiment_name):
        try:
            os.makedirs(path)
            break
        except FileExistsError:
            n += 1
            path = osp.join(f"{second}-{n}", experiment_name)
    return path


@contextmanager
def logger_context(
    log_dir: str | os.PathLike[str],
    run_ID: int | str,
    name: str,
    log_params: Mapping[str, Any] | None = None,
    snapshot_mode: str = "none",
    override_prefix: bool = False,
    use_summary_writer: bool = False,
    resume: bool = False,
    sinks: Sequence[Sink | str] = (),
) -> Iterator[None]:
    """Log one run into ``<log_dir>/run_<run_ID>``: debug.log, progress.csv, params.json, snapshots.

    In the ``with`` block the functions of ``logger`` work on a logger of this run. At its end, also
    after an exception, the files are closed and the former logger is current again, unchanged. The
    traceback of an exception is in debug.log. A nested context has separate csv and tensorboard
    files; its text is written to both logs.

    A process that ``torchrun`` started logs only if it is rank 0.

    Args:
        log_dir: directory of the experiment.
        run_ID: number or name that distinguishes the runs of the experiment.
        name: beginning of each line of text, together with ``run_ID``.
        log_params: parameters, written to params.json with ``name`` and ``run_ID``; objects that
            JSON has no type for become the name of their type.
        snapshot_mode: name of the mode, see ``logger.set_snapshot_mode``.
        override_prefix: whether to use ``log_dir`` unchanged; otherwise a path outside ``LOG_DIR``
            becomes ``get_log_dir(<log_dir>/run_<run_ID>, create=True)``, which keeps absolute
            paths.
        use_summary_writer: whether to write recorded numbers to tensorboard too.
        resume: whether to use ``log_dir`` unchanged and continue an existing progress.csv, which is
            emptied otherwise.
        sinks: further receivers of all logged data, or their names: ``"jsonl"``, ``"tensorboard"``,
            ``"wandb"``, ``"mlflow"``.

    Raises:
        ImportError: if the package that a sink needs is not installed.
        OSError: at the end, if rows of progress.csv or the last snapshot could not be written.
        ValueError: if the snapshot mode or a sink is unknown.
    """
    place = torchrun_ranks()
    if place is not None and place.rank > 0:
        with logger.using(Logger(sinks=[])):
            yield
        return
    bundle = reproduced_bundle()
    if bundle is None:
        exp_dir = _run_dir(os.fspath(log_dir), run_ID, override_prefix, resume)
    else:  # The original run's logs stay as they were.
        exp_dir, resume = osp.join(bundle, "reproduction", f"run_{run_ID}"), False
        sinks, use_summary_writer = (), False
    use_summary_writer = use_summary_writer or "tensorboard" in sinks
    further_sinks = make_sinks([sink for sink in sinks if sink != "tensorboard"])
    params = {**(log_params or {}), "name": name, "run_ID": run_ID}
    with ExitStack() as stack:
        run = stack.enter_context(closing(logger.current().derive()))
        stack.enter_context(logger.using(run))
        logger.set_log_tabular_only(False)
        logger.set_snapshot_mode(snapshot_mode)
        logger.set_snapshot_dir(exp_dir)
        if use_summary_writer:
            writer = stack.enter_context(closing(_summary_writer(exp_dir)))
            logger.set_tf_summary_writer(writer)
        logger.add_text_output(osp.join(exp_dir, "debug.log"))
        logger.add_tabular_output(osp.join(exp_dir, "progress.csv"), append=resume)
        logger.push_prefix(f"{name}_{run_ID} ")
        logger.write_params(osp.join(exp_dir, "params.json"), params)
        if further_sinks or use_summary_writer:
            # From the file, where all values are plain.
            with open(osp.join(exp_dir, "params.json"), encoding="utf-8") as file:
                params = json.load(file)
            info = RunInfo(exp_dir, name, run_ID, params, code_version(), resume)
            for sink in further_sinks:
                run.open(sink, info)
            if use_summary_writer:
                text = json.dumps({**params, "code": info.code}, indent=2)
                writer.add_text("params", f"```json\n{text}\n```")
        try:
            yield
            run.check_written()
        except (Exception, KeyboardInterrupt):
            _keep_traceback(run, osp.join(exp_dir, "debug.log"))
            raise


def add_exp_param(
    param_name: str, param_val: Any, exp_dir: str | None = None, overwrite: bool = False
) -> None:
    """Add a parameter to every params.json in a directory and below.

    Args:
        param_name: key of the parameter.
        param_val: value of the parameter; a dict is merged into an existing dict.
        exp_dir: directory to search; the current one if None.
        overwrite: whether to replace existing values; in a dict, values of equal keys.
    """
    for path in _files_below(exp_dir, "params.json"):
        with open(path, encoding="utf-8") as file:
            params = json.load(file)
        old = params.get(param_name)
        if isinstance(old, dict) and isinstance(param_val, dict):
            params[param_name] = {**old, **param_val} if overwrite else {**param_val, **old}
        elif overwrite or param_name not in params:
            params[param_name] = param_val
        logger.write_params(path, params)


def check_progress(exp_dir: str | None = None) -> None:
    """Print the number of lines of each progress.csv below a directory, by default the current."""
    for path in _files_below(exp_dir, "progress.csv"):
        with open(path, "rb") as file:
            print(f"{sum(1 for _ in file):8d} {path}")


def _run_dir(log_dir: str, run_ID: int | str, override_prefix: bool, resume: bool) -> str:
    run_dir = osp.join(log_dir, f"run_{run_ID}")
    exp_dir = osp.abspath(run_dir)
    if override_prefix or resume or exp_dir.startswith(osp.join(LOG_DIR, "")):
        return exp_dir
    exp_dir = osp.abspath(get_log_dir(run_dir, create=True))
    print(f"Logging to {exp_dir}")
    return exp_dir


def _summary_writer(directory: str) -> Any:
    tensorboard = import_extra("torch.utils.tensorboard", "use_summary_writer=True", "tensorboard")
    return tensorboard.SummaryWriter(directory)


@cache
def versions() -> dict[str, str]:
    """Return the versions of all that affects numbers: packages, system and kind of processor."""
    found = {"python": platform.python_version(), "rlpyt": rlpyt.__version__}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return {**found, "machine": f"{platform.system()} {processor()}"}


def processor() -> str:
    """Return the kind of processor, on which the last digits of floating point depend."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    entries = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    kind = [entries[key] for key in ("vendor_id", "cpu family", "model") if key in entries]
    return " ".join([platform.machine(), *kind, torch.backends.cpu.get_cpu_capability()])


def code_version() -> dict[str, Any] | None:
    """Return the commit of the running program, and whether tracked files differ from it.

    Returns:
        ``{"commit": str, "dirty": bool}``, or None outside of a git repository.
    """
    main = getattr(sys.modules["__main__"], "__file__", None)
    directory = os.path.dirname(os.path.abspath(main)) if main else os.getcwd()
    try:
        commit = _git(directory, "rev-parse", "HEAD")
        changes = _git(directory, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changes)}


def _git(directory: str, *args: str) -> str:
    found = subprocess.run(
        ["git", "-C", directory, *args], capture_output=True, text=True, timeout=10, check=True
    )
    return found.stdout.strip()


def _keep_traceback(run: Logger, path: str) -> None:
    """Write the traceback to the run's text file; a console shows it anyway."""
    sink = run.text_files.get(path)
    if sink is not None:
        with suppress(OSError):  # A full disk must not hide the error.
            sink.write_text(f"{timestamp()} | {run.prefix}{traceback.format_exc().rstrip()}")


def _files_below(directory: str | None, name: str) -> list[str]:
    root = os.getcwd() if directory is None else directory
    return sorted(osp.join(folder, name) for folder, _, files in os.walk(root) if name in files)

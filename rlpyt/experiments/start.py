"""The start of every run: its calls, and its directory, which may have the log of another."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import rlpyt
from rlpyt import __version__
from rlpyt.core.protocols import RunnerLike
from rlpyt.experiments.program import LOGGER_CONTEXT, Call, runner_call, started_from
from rlpyt.experiments.results.runs import read_params, read_rows
from rlpyt.experiments.sweeps.run import locked
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.logging.logger import stub_to_json
from rlpyt.utils.names import flat


class Start(Callback):
    """Callback that records when the start of a run is over."""

    is_over = False

    def on_start(self, runner: RunnerLike) -> None:
        self.is_over = True


def train_run(
    runner: Call,
    log: Call,
    callbacks: Sequence[Callback] = (),
    start: Start | None = None,
    prepare: Callable[[Path], Any] | None = None,
    **saving: Any,
) -> Path:
    """Train, and return the directory of the run; a start that fails leaves no new one.

    Args:
        runner: call that makes the runner.
        log: call of :func:`log_call`; without a directory there is a new one, named after the time.
        callbacks: callbacks beside those of ``runner``.
        start: callback that is told when the start is over.
        prepare: function that is called with the directory before the log is opened.
        saving: arguments of ``runner.train``.
    """
    start = start or Start()
    own = [each.make() for each in runner.kwargs.get("callbacks", [])]
    made = runner.make(callbacks=[*own, *callbacks, start])
    kwargs = log.kwargs
    log_dir = kwargs["log_dir"] or get_log_dir(kwargs["name"], create=True)
    params = {**kwargs["log_params"], "code": library_code()}
    log = log._replace(kwargs={**kwargs, "log_dir": log_dir, "log_params": params})
    run_dir = Path(log_dir, f"run_{kwargs['run_ID']}")
    is_new = not run_dir.exists()
    with alone_in(run_dir):
        try:
            if prepare is not None:
                prepare(run_dir)
            with log.make():
                made.train(**saving)
        except (Exception, KeyboardInterrupt):
            if is_new and not start.is_over:
                shutil.rmtree(run_dir, ignore_errors=True)  # It contains only the error.
            raise
    return run_dir


def run_calls(
    config: Config,
    seed: int,
    log_dir: str | None,
    run_ID: int | str = 0,
    resume: bool = False,
    more_params: Mapping[str, Any] | None = None,
) -> tuple[Call, Call]:
    """Return the calls of a run's runner and of its log, see :func:`log_call`.

    The parameter ``init`` among ``more_params`` lets the run start from another one.
    """
    runner, origin = runner_call(config, seed), more_params or {}
    if origin.get("init"):
        runner = started_from(runner, origin["init"], origin.get("init_replay", False))
    return runner, log_call(config, seed, log_dir, run_ID, resume, more_params)


def origin_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that name the run that a run started from, if it did."""
    names = ("init", "init_replay", "branch")
    return {name: params[name] for name in names if params.get(name)}


def log_call(
    config: Config,
    seed: int,
    log_dir: str | None,
    run_ID: int | str = 0,
    resume: bool = False,
    more_params: Mapping[str, Any] | None = None,
) -> Call:
    """Return the call of ``logger_context`` for a run.

    Its parameters are the configuration, the seed and ``more_params``, from which agent and
    environment can be made again.
    """
    params = {**config, "seed": seed, "version": __version__}
    params.update(more_params or {})
    return Call(
        LOGGER_CONTEXT,
        {
            "log_dir": log_dir,
            "run_ID": run_ID,
            "name": run_name(config),
            "log_params": _as_recorded(params),
            "snapshot_mode": "last",
            "override_prefix": True,
            **({"resume": True} if resume else {}),
        },
    )


@cache
def library_code() -> str:
    """Return a digest of the library's source files; what a program adds is not in it."""
    digest = hashlib.sha256()
    root = Path(rlpyt.__file__).parent
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _as_recorded(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in the form of ``params.json``, with class names as plain text."""
    plain: dict[str, Any] = json.loads(json.dumps(stub_to_json(params), default=str))
    return plain


def recorded(log_dir: str | None, run_ID: int | str) -> dict[str, Any] | None:
    """Return the parameters of the run in a directory; None if there is none."""
    if log_dir == "" or not str(run_ID) or "/" in str(run_ID):
        raise ValueError(
            f"log_dir={log_dir!r} run_ID={run_ID!r}: give names that are not empty; a run_ID has "
            "no slash"
        )
    file = Path(log_dir or "") / f"run_{run_ID}" / "params.json"
    return read_params(file) if log_dir is not None and file.exists() else None


def check_same_run(
    config: Config,
    params: Mapping[str, Any],
    run_dir: Path,
    resume: bool,
    seed: int | None = None,
) -> None:
    """Raise ``ValueError`` unless a directory has the same run, with checkpoints to resume from.

    The sections ``runner`` and ``affinity`` may differ: a run can become longer, or move to other
    devices. ``params`` are those that the directory has.
    """
    if not resume:
        raise ValueError(
            f"{run_dir} has the log of another run: choose another directory, or resume that run"
        )
    if not any((run_dir / "checkpoints").glob("*")) and read_rows(run_dir / "progress.csv"):
        raise ValueError(
            f"{run_dir} has a run without checkpoints: choose another directory; checkpoints are "
            "saved by runs that are started with resume"
        )
    free = ("runner", "affinity")
    now = _as_recorded({key: value for key, value in config.items() if key not in free})
    if seed is not None:
        now["seed"] = seed
    before, after = dict(flat({key: params.get(key, {}) for key in now})), dict(flat(now))
    names = [
        name
        for name in {**before, **after}
        # The changes of a branch are in the configuration too.
        if before.get(name) != after.get(name) and not name.startswith("branch.changes.")
    ]
    if names:
        changes = ", ".join(f"{name}={before.get(name)} now {after.get(name)}" for name in names)
        raise ValueError(
            f"{run_dir} has the log of another run ({changes}): choose another directory"
        )


@contextmanager
def alone_in(run_dir: Path) -> Iterator[None]:
    """Hold the lock of a run's directory, which is made if necessary."""
    run_dir.mkdir(parents=True, exist_ok=True)
    with locked(str(run_dir)) as lock:
        if lock is None:
            raise ValueError(f"{run_dir} has a run that is at work: wait for its end, or end it")
        yield


def run_name(config: Config) -> str:
    """Return the name of a run in its log: algorithm and environment."""
    env = config["env"]
    name = env.get("game") or env.get("id") or config["roles"]["env"].rpartition(".")[2]
    return f"{config['roles']['algo'].rpartition('.')[2]}_{name}".replace("/", "_")

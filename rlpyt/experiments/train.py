"""Training of a configuration: from names and overrides, or as one run of a sweep."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import rlpyt
from rlpyt import __version__
from rlpyt.core.protocols import RunnerLike
from rlpyt.core.records import BatchSpec
from rlpyt.experiments.catalog import (
    ATARI_ENTRIES,
    entries,
    find_environment,
    unknown,
)
from rlpyt.experiments.program import LOGGER_CONTEXT, Call, runner_call, started_from
from rlpyt.experiments.results.runs import read_params, read_rows
from rlpyt.experiments.settings import checked, overridden, with_environment
from rlpyt.experiments.sweeps.affinity import affinity_from_code
from rlpyt.experiments.sweeps.run import locked
from rlpyt.experiments.sweeps.variant import Config, changed, load_variant, merged
from rlpyt.runners.callbacks import Callback
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.vector.sampler import FirstEnv, VectorSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.logging.logger import stub_to_json
from rlpyt.utils.names import flat
from rlpyt.utils.shared_array import get_context

# Interval between checkpoints in the runs of a sweep.
CHECKPOINT_INTERVAL_MINUTES = 10.0

# --- Configurations ------------------------------------------------------------------------------


def entry_name(name: str, environment: str | None = None) -> str:
    """Return the full name of an entry, ``"table/entry"``.

    For an algorithm it is the entry for this kind of environment: an id, the name of an Atari game,
    or the full name of a class.
    """
    known = entries()
    if not isinstance(name, str):
        raise TypeError(
            f"algorithm={name!r}: give a name such as 'ppo', and a class of your own as algo="
        )
    if "/" in name:
        if name not in known:
            raise unknown("entry", name, known)
        return name
    general, own = f"generic/{name}", f"minatar/{name}"
    if general not in known:
        algorithms = [key.removeprefix("generic/") for key in known if "generic/" in key]
        raise unknown("algorithm", name, algorithms)
    if environment is None:
        return general
    role = find_environment(environment)[0]
    if role in ("atari", "atari_vector") and name in ATARI_ENTRIES:
        return ATARI_ENTRIES[name]
    return own if environment.lower().startswith("minatar/") and own in known else general


def starting_point(name: str, environment: str | None = None) -> Config:
    """Return the configuration that a run starts from, with ``environment`` if it is given."""
    config = changed(entries()[entry_name(name, environment)])
    return config if environment is None else with_environment(config, environment)


def configuration(
    name: str,
    words: Sequence[str] = (),
    steps: float | None = None,
    variant: Mapping[str, Any] | None = None,
) -> Config:
    """Return the checked configuration of ``rlpyt train NAME [ENVIRONMENT] [NAME=VALUE]...``.

    Args:
        name: entry or algorithm.
        words: environment, and settings in the form ``name=value``.
        steps: environment steps of the run; None for the number in the entry.
        variant: further changes, such as those of a run in a sweep.
    """
    settings = [word for word in words if "=" in word and not word.startswith("env=")]
    environments = [word.removeprefix("env=") for word in words if word not in settings]
    if len(environments) > 1:
        raise ValueError(
            f"there are several environments, {' and '.join(environments)}: give one; settings "
            "have the form name=value, without spaces"
        )
    config = starting_point(name, *environments)
    if steps is not None:
        config = with_steps(config, steps)
    config = overridden(config, settings)
    check_steps(config, steps)
    config = merged(config, variant or {})
    check_environment(name, config)
    return checked(config)


def check_environment(name: str, config: Config) -> None:
    """Refuse the configuration of an algorithm without an environment."""
    if not config.get("env") and config["roles"].get("env", "gym") == "gym":
        name = name.removeprefix("generic/")
        raise ValueError(f"name an environment, as in: rlpyt train {name} CartPole-v1")


def with_steps(config: Config, n_steps: float) -> Config:
    """Return the configuration for a run of different length, with ten log rows if it can."""
    if isinstance(n_steps, str):
        raise TypeError(f"steps={n_steps!r} is a text: give a number")
    if not math.isfinite(n_steps):
        raise ValueError(f"--steps={n_steps:g}: give a finite number")
    interval = min(config["runner"]["log_interval_steps"], max(1, n_steps // 10))
    return changed(config, runner={"n_steps": n_steps, "log_interval_steps": interval})


def check_steps(config: Config, steps: float | None) -> None:
    """Refuse two different lengths of a run, and log intervals that make it longer."""
    if steps is None:
        return
    n_steps, interval = (config["runner"][name] for name in ("n_steps", "log_interval_steps"))
    if n_steps != steps:
        raise ValueError(
            f"steps={steps:g} and n_steps={n_steps:g}: give one length of the run; the steps of "
            "each environment in a batch are batch_T"
        )
    if interval > n_steps >= 1:
        raise ValueError(
            f"log_interval_steps={interval:g} is more than steps={steps:g}: a run has at least one "
            "log row, so make it smaller"
        )


def run_name(config: Config) -> str:
    """Return the name of a run in its log: algorithm and environment."""
    env = config["env"]
    name = env.get("game") or env.get("id") or config["roles"]["env"].rpartition(".")[2]
    return f"{config['roles']['algo'].rpartition('.')[2]}_{name}".replace("/", "_")


# --- Runs ----------------------------------------------------------------------------------------


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

    Of ``more_params``, those of :func:`origin_of` let the run start from another one.
    """
    runner, origin = runner_call(config, seed), origin_of(more_params or {})
    if origin:
        runner = started_from(runner, origin["init"], origin.get("init_replay", False))
    return runner, log_call(config, seed, log_dir, run_ID, resume, more_params)


def origin_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that name the run whose weights a run started with, if it did."""
    return {name: params[name] for name in ("init", "init_replay") if params.get(name)}


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
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
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


def try_runs(calls: Iterable[Call]) -> None:
    """Start the runs' agents and algorithms, to find wrong settings early.

    Runners with the same environment share one.
    """
    envs: dict[str, Any] = {}
    with ExitStack() as stack, logger.using(logger.Logger(sinks=[])):
        for call in calls:
            runner = call.make()
            agent, algo, sampler = runner.agent, runner.algo, runner.sampler
            key = repr((type(sampler), sampler.EnvCls, sampler.env_kwargs))
            if key not in envs:
                in_vectors = isinstance(sampler, VectorSampler)
                number = {"num_envs": 1} if in_vectors else {}
                env = sampler.EnvCls(**{**number, **sampler.env_kwargs})
                envs[key] = stack.enter_context(closing(FirstEnv(env) if in_vectors else env))
            spec, forks = sampler.batch_spec, False
            if isinstance(sampler, (ParallelSamplerBase, AsyncSamplerMixin)):
                forks = get_context(sampler.start_method).get_start_method() == "fork"
                forks = forks if sampler.example_subprocess is None else sampler.example_subprocess
            ranks = list(range(spec.B))
            agent.initialize(envs[key].spaces, share_memory=False, global_B=spec.B, env_ranks=ranks)
            algo.initialize(
                agent=agent,
                n_itr=int(max(1, runner.n_steps // spec.size)),
                batch_spec=spec,
                mid_batch_reset=sampler.mid_batch_reset,
                examples=build_samples_buffer(
                    agent, envs[key], BatchSpec(1, 1), algo.bootstrap_value, subprocess=forks
                )[2],
                world_size=1,
                rank=0,
            )


def slot_runner(
    affinity: Any,
    seed: int,
    name: str,
    words: Sequence[str],
    variant: Mapping[str, Any],
) -> tuple[Config, Call]:
    """Return the configuration of a run in a slot of a sweep, and the call that makes its runner.

    With an affinity of several processes, the run has a synchronous or asynchronous runner. For the
    other arguments see :func:`configuration`.
    """
    config = configuration(name, words, variant=variant)
    config = checked(changed(config, roles=roles_for(config["roles"], affinity)))
    return config, runner_call(config, seed, affinity)


def build_and_train(
    slot_affinity_code: str,
    log_dir: str,
    run_ID: int | str,
    family: str,
    config_key: str,
    *words: str,
) -> None:
    """Train one run of a sweep, started by its guard (:mod:`rlpyt.experiments.sweeps.run`).

    An interrupted run continues from its latest checkpoint. Checkpoints are saved every ten
    minutes; :mod:`rlpyt.experiments.launched` removes them at the end of the run.

    Args:
        slot_affinity_code: affinity code, with the run's share of the machine.
        log_dir: directory of the log, with the variant, whose values replace values of the entry.
        run_ID: number of the run, and its seed.
        family, config_key: names of the table and the entry.
        words: environment and settings of all runs, in the form of ``rlpyt train``.
    """
    seed, variant = int(run_ID), load_variant(log_dir)
    affinity = affinity_from_code(slot_affinity_code)
    config, call = slot_runner(affinity, seed, f"{family}/{config_key}", words, variant)
    is_resumed = Path(log_dir, f"run_{run_ID}", "progress.csv").exists()
    log = log_call(config, seed, log_dir, run_ID, is_resumed)
    train_run(call, log, checkpoint_interval_minutes=CHECKPOINT_INTERVAL_MINUTES, resume="auto")


def roles_for(roles: Mapping[str, str], affinity: Any) -> dict[str, str]:
    """Return the runner, and if known the sampler, that fit an affinity of a launcher."""
    if isinstance(affinity, list):
        return {"runner": "sync"}
    if "optimizer" not in affinity:
        if roles.get("runner", "minibatch") != "minibatch":
            raise ValueError(
                f"the entry has runner={roles['runner']}, but the affinity is for one process: "
                "for sync add --gpus-per-run 2 (in a code gpu_per_run=2), for async encode it with "
                "async_sample=True"
            )
        return {}
    if not isinstance(affinity["sampler"], list):
        return {"runner": "async"}
    serves = roles.get("sampler") in ("gpu", "alternating")
    return {"runner": "async"} if serves else {"runner": "async", "sampler": "gpu"}

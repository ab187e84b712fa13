"""Training of a configuration: from names and overrides, or as one run of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from rlpyt.core.records import BatchSpec
from rlpyt.experiments.catalog import ATARI_ENTRIES, entries, find_environment, unknown
from rlpyt.experiments.program import Call, runner_call
from rlpyt.experiments.settings import checked, overridden, with_environment
from rlpyt.experiments.start import log_call, train_run
from rlpyt.experiments.sweeps.affinity import affinity_from_code
from rlpyt.experiments.sweeps.variant import Config, changed, load_variant, merged
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.utils.logging import logger
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


# --- Runs of a sweep ----------------------------------------------------------------------------


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
                envs[key] = stack.enter_context(closing(sampler._example_env()))
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

"""Sweeps by names, for ``rlpyt sweep``.

Each run is a call of :func:`rlpyt.experiments.train.build_and_train`, with words that all runs of
an algorithm on an environment share, and a variant with the settings that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from os import path
from typing import Any, NamedTuple

from rlpyt.experiments import launched
from rlpyt.experiments.catalog import extra_for
from rlpyt.experiments.results.suites import SUITES, load_suite
from rlpyt.experiments.settings import (
    ROLES,
    Setting,
    fit,
    overridden,
    parse_value,
    path_of,
    section_parameters,
)
from rlpyt.experiments.sweeps.launch import run_experiments
from rlpyt.experiments.sweeps.search import DIRECTORY, run_search
from rlpyt.experiments.sweeps.slots import Slot
from rlpyt.experiments.sweeps.spaces import (
    Choice,
    Distribution,
    Integer,
    Path,
    Real,
    grid_variants,
    random_variants,
)
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.experiments.train import (
    configuration,
    entry_name,
    slot_runner,
    starting_point,
    try_runs,
    with_steps,
)
from rlpyt.utils.names import first_duplicate

SEARCHES = ("grid", "random", "optuna")
# Searches that use an option.
OPTIONS = {"seed": ("random",), "trials": ("random", "optuna"), "metric": ("optuna",)}


class Part(NamedTuple):
    """Part of a sweep: an algorithm on an environment, and the settings to try."""

    entry: str  # "table/entry"
    words: tuple[str, ...]  # environment and settings of all its runs
    log_dir: str  # below the directory of the sweep
    space: dict[Path, Distribution]


class Variant(NamedTuple):
    """Setting of a sweep, which runs with several seeds."""

    part: Part
    changes: Config
    log_dir: str  # below the directory of the sweep


# --- Words ---------------------------------------------------------------------------------------


def split_list(text: str) -> list[str]:
    """Split a text at its commas, except inside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if letter == "," and not depth and not quote:
            parts.append("")
            continue
        parts[-1] += letter
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
    return parts


def check_search(search: str, is_given: Callable[[str], bool]) -> None:
    """Raise ``ValueError`` if an option is given that belongs to another ``search``."""
    for option, searches in OPTIONS.items():
        if search not in searches and is_given(option):
            raise ValueError(
                f"--{option} is for --search {' or '.join(searches)}: leave it out; a grid runs "
                "all combinations, with the seeds 0 to --seeds minus 1"
            )


def parts_of(
    what: str, arguments: Sequence[str], steps: float | None = None, suite: bool = False
) -> list[Part]:
    """Return the parts of ``rlpyt sweep WHAT [ENVIRONMENT,...] [NAME=VALUE,...]...``.

    Args:
        what: algorithms or entries of tables, separated by commas.
        arguments: environments and settings. A setting may have several values to try, or a range
            ``LOW:HIGH`` or ``LOW:HIGH:log``.
        steps: environment steps of each run; None for the number in the entry.
        suite: whether the environments are all tasks of the suite that an entry belongs to.
    """
    environments: list[str] = []
    fixed: list[str] = []
    varying: list[tuple[str, str]] = []
    for argument in arguments:
        name, equals, text = argument.partition("=")
        values = split_list(text)
        if name == "seed" and equals:
            raise ValueError(f"{argument}: --seeds 3 runs each variant with the seeds 0, 1 and 2")
        if not equals:
            environments += split_list(name)
        elif name == "env":
            environments += values
        elif len(values) == 1 and _limits(text) is None:
            fixed.append(argument)
        else:
            varying.append((name, text))
    given = {name.partition("=")[0].removeprefix("runner.") for name in arguments}
    if steps is not None and "n_steps" in given:
        raise ValueError(f"there are both --steps={steps:g} and n_steps: give one")
    parts: list[Part] = []
    algorithms = split_list(what)
    places = [(x, y) for x in algorithms for y in _environments(x, environments, suite)]
    for algorithm, environment in places:
        config = starting_point(algorithm, environment)
        words = [] if environment is None else [environment]
        if steps is not None:
            lengths = {"n_steps", "log_interval_steps"} - given
            runner = with_steps(config, steps)["runner"]
            words += [f"runner.{name}={x}" for name, x in runner.items() if name in lengths]
        first = [f"{name}={split_list(text)[0]}" for name, text in varying]
        config = overridden(config, [*fixed, *first])
        directory = [algorithm] * (len(algorithms) > 1) + [environment or ""]
        parts.append(
            Part(
                entry_name(algorithm, environment),
                (*words, *fixed),
                path.join(*(name.replace("/", "_").replace(":", "_") for name in directory)),
                dict(_distribution(config, name, text) for name, text in varying),
            )
        )
    twice = first_duplicate(part.log_dir for part in parts)
    if twice is not None:
        raise ValueError(f"{twice} is there twice: name algorithms and environments once")
    return parts


def _environments(algorithm: str, given: Sequence[str], suite: bool) -> Sequence[str | None]:
    """Return the environments of an algorithm's runs; None for the one of its entry."""
    if not suite:
        return given or [None]
    table, slash, _ = algorithm.partition("/")
    if given or not slash or table not in SUITES:
        raise ValueError(
            f"--suite runs entries of {', '.join(SUITES)} on all tasks, as in: rlpyt sweep "
            f"atari_100k/der --suite; here are {algorithm} {' '.join(given)}".rstrip()
        )
    return list(load_suite(table).ranges)


def _distribution(config: Config, name: str, text: str) -> tuple[Path, Distribution]:
    """Return the path of a setting, and the values to try."""
    is_role = name in ROLES
    found = ("roles", name) if is_role else path_of(config, name)
    limits = _limits(text)
    if limits is None:
        words = split_list(text)
        values = words if is_role else [parse_value(word) for word in words]
        twice = first_duplicate(map(repr, values))  # Lists cannot be in a set.
        if twice is not None:
            raise ValueError(
                f"{name}={text} has {twice} twice; a value that is a list has brackets, as in "
                f"{name}=[64,64],[256]"
            )
        return found, Choice(values)
    hint = section_parameters(config, found[0])[0].get(found[1], Setting(Any, None)).hint
    low, high, is_log = limits
    try:
        fit(0.5, hint)
    except TypeError:
        if low.is_integer() and high.is_integer():
            return found, Integer(int(low), int(high), is_log)
        raise ValueError(f"{name}={text}: give whole numbers") from None
    return found, Real(low, high, is_log)


def _limits(text: str) -> tuple[float, float, bool] | None:
    """Return the numbers of ``LOW:HIGH`` or ``LOW:HIGH:log``; None for another text."""
    words = text.split(":")
    is_log = words[-1] == "log"
    try:
        low, high = map(float, words[:-1] if is_log else words)
    except ValueError:
        return None
    return low, high, is_log


def variants_of(
    parts: Iterable[Part], search: str = "grid", n_draws: int = 20, seed: int = 0
) -> list[Variant]:
    """Return the variants of all parts: every combination in a grid, else random draws."""
    variants = []
    for part in parts:
        if search != "grid" and not part.space:
            raise ValueError(
                f"--search {search} has nothing to choose: give values or a range, as in "
                "learning_rate=1e-5:1e-2:log"
            )
        if search != "grid":
            changes, log_dirs = random_variants(part.space, n_draws, seed)
        else:
            values = {}
            for name, one in part.space.items():
                if not isinstance(one, Choice):
                    raise ValueError(
                        f"{'.'.join(name)} has a range: use --search random or optuna, or list "
                        "its values, as in 1e-3,3e-4"
                    )
                values[name] = one.values
            changes, log_dirs = grid_variants(values)
        variants += [
            Variant(part, change, path.join(part.log_dir, log_dir))
            for change, log_dir in zip(changes, log_dirs)
        ]
    return variants


# --- Checks --------------------------------------------------------------------------------------


def examples(parts: Sequence[Part]) -> list[Variant]:
    """Return example variants of a search, with every value and both ends of every range."""
    extra_for("optuna", "optuna", "--search optuna")
    part = parts[0]
    if len(parts) > 1 or not part.space:
        raise ValueError(
            "--search optuna chooses settings of one algorithm on one environment: give one of "
            "each, and values or ranges, as in learning_rate=1e-5:1e-2:log"
        )
    values = {
        name: one.values if isinstance(one, Choice) else (one.low, one.high)
        for name, one in part.space.items()
    }
    n_examples = max(map(len, values.values()))
    draws = [{name: [v[n % len(v)]] for name, v in values.items()} for n in range(n_examples)]
    return [
        Variant(part, grid_variants(draw)[0][0], f"example_{n}") for n, draw in enumerate(draws)
    ]


def roles_of(variants: Iterable[Variant]) -> dict[str, str]:
    """Return the roles that the affinity of all runs depends on."""
    found: dict[str, str] = {}
    for part, changes, _ in variants:
        config = configuration(part.entry, part.words, variant=changes)
        if config["affinity"]:
            raise ValueError(
                f"affinity.{next(iter(config['affinity']))} is for rlpyt train: a sweep divides "
                "CPUs and GPUs among its runs, so use --slots and --cpus-per-run"
            )
        roles = {"sampler": "serial", "runner": "minibatch", **config["roles"]}
        found = found or roles
        for role in ("runner", "sampler"):
            pair = {found[role], roles[role]}
            if len(pair) > 1 and pair & {"async", "sync", "alternating"}:
                raise ValueError(
                    f"{found[role]} and {roles[role]} need different slots: make two sweeps, and "
                    "compare them by: rlpyt plot DIRECTORY DIRECTORY"
                )
    return found


def check_runs(variants: Iterable[Variant], slot: Slot) -> None:
    """Try every variant in a slot, so that errors show before any run starts."""
    try_runs(
        slot_runner(slot.affinity, 0, part.entry, part.words, changes)[1]
        for part, changes, _ in variants
    )


# --- Launch --------------------------------------------------------------------------------------


def run_variants(
    variants: Sequence[Variant], code: str, log_dir: str, n_seeds: int, **options: Any
) -> None:
    """Run all variants; options are those of :func:`run_experiments`."""
    run_experiments(
        launched.__file__,
        code,
        path.abspath(log_dir),
        n_seeds,
        [variant.changes for variant in variants],
        [variant.log_dir for variant in variants],
        runs_args=[_arguments(variant.part) for variant in variants],
        **options,
    )


def run_trials(
    part: Part, code: str, log_dir: str, n_seeds: int, n_trials: int, prune: bool, **options: Any
) -> str:
    """Let Optuna search, with options of :func:`run_search`; return its best trial in words."""
    directory = path.abspath(log_dir)
    options["pruner"] = None if prune else import_module("optuna").pruners.NopPruner()
    arguments = _arguments(part)
    study = run_search(
        launched.__file__, code, directory, part.space, n_trials, n_seeds, arguments, **options
    )
    best = study.best_trial
    settings = " ".join(f"{name}={value}" for name, value in best.params.items())
    name = f"trial_{best.user_attrs[DIRECTORY]:04}"
    return f"Best of {n_trials} trials, {name}: {best.value:g}, {settings}"


def _arguments(part: Part) -> tuple[str, ...]:
    """Return the arguments of a run's script."""
    return (*part.entry.split("/", 1), *part.words)

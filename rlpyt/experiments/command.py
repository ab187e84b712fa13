"""The command ``rlpyt``: train, sweep, doctor, list; ``finished`` has those on finished runs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from tabulate import tabulate

from rlpyt.experiments import catalog, finished as finished, settings
from rlpyt.experiments.branching import ChangedOptimizers, read_branch
from rlpyt.experiments.cli import COUNT, SECONDS, STEPS, is_given, main as main, without_traceback
from rlpyt.experiments.program import Call, algo_call, runner_call, source
from rlpyt.experiments.start import (
    Start,
    check_same_run,
    origin_of,
    recorded,
    run_calls,
    run_name,
    train_run,
)
from rlpyt.experiments.sweeps import command as sweeps, pools, slots
from rlpyt.experiments.train import configuration, starting_point, try_runs
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.seed import make_seed

# --- train ---------------------------------------------------------------------------------------


Command = TypeVar("Command", bound=Callable[..., Any])
WATCH = "rlpyt.experiments.health.Watch"


def complete_train(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an entry, then environments and settings."""
    given = list(ctx.params.get("arguments") or ())
    entries = [key.removeprefix("generic/") for key in catalog.entries()]
    if not ctx.params.get("what"):
        return [name for name in entries if name.startswith(incomplete)]
    words = [] if any("=" not in word for word in given) else catalog.names("environments")
    try:
        config = starting_point(ctx.params["what"])
        words += [f"{name}=" for name, _, _ in settings.describe(config)]
    except ValueError:
        pass
    words += [f"{role}=" for role in settings.ROLES]
    return [word for word in words if word.startswith(incomplete)]


def of_run(what: str, arguments: str, required: bool = True) -> Callable[[Command], Command]:
    """Return a decorator that adds the words of a run, in these forms, to a command."""

    def decorate(command: Command) -> Command:
        for part in (
            click.option("--steps", type=STEPS, help="Environment steps of a run."),
            click.argument("arguments", nargs=-1, metavar=arguments, shell_complete=complete_train),
            click.argument("what", metavar=what, required=required, shell_complete=complete_train),
        ):
            command = part(command)
        return command

    return decorate


@main.command()
@of_run("ALGORITHM|TABLE/ENTRY", "[ENVIRONMENT] [NAME=VALUE]...", required=False)
@click.option("--seed", type=int, help="Seed for all random numbers; drawn by default.")
@click.option("--log-dir", type=click.Path(), help="Log directory; by default named by time.")
@click.option("--run-id", default="0", help="Name of the run in --log-dir.")
@click.option(
    "--resume", is_flag=True, help="Save checkpoints in --log-dir, and continue from the latest."
)
@click.option("--checkpoint-steps", type=STEPS, help="Steps between them; else ten minutes.")
@click.option("--init", metavar="RUN", help="Start with the weights of another run.")
@click.option("--init-replay", is_flag=True, help="Start with its replay buffer too.")
@click.option("--keep-checkpoints", is_flag=True, help="Keep all of them, for verify and --branch.")
@click.option(
    "--branch", "origin", metavar="RUN@STEP", help="Continue a run, with NAME=VALUE changed."
)
@click.option(
    "--compile", "compiles", is_flag=True, help="Compile updates: setting runner.compile."
)
@click.option("--watch", "watches", is_flag=True, help="Warn of what rlpyt diagnose finds.")
@click.option("--print", "prints", is_flag=True, help="Print the program that does the same.")
@click.option("--settings", "lists", is_flag=True, help="List all settings with their values.")
def train(
    what: str | None,
    arguments: tuple[str, ...],
    seed: int | None,
    steps: float | None,
    log_dir: str | None,
    run_id: str,
    resume: bool,
    checkpoint_steps: float | None,
    init: str | None,
    init_replay: bool,
    keep_checkpoints: bool,
    origin: str | None,
    compiles: bool,
    watches: bool,
    prints: bool,
    lists: bool,
) -> None:
    """Train an algorithm on an environment, or an entry of a table.

    \b
    rlpyt train ppo CartPole-v1
    rlpyt train sac Pendulum-v1 algo.learning_rate=1e-3 --steps 2e4
    rlpyt train atari_dqn/double breakout sampler=cpu workers=8 batch_B=16
    rlpyt train dqn CartPole-v1 runner=async sampler=cpu --print
    rlpyt train dqn pong --log-dir runs/pong --resume
    rlpyt train dqn breakout --init runs/pong/run_0
    rlpyt train --branch runs/pong/run_0@STEP learning_rate=1e-4
    """
    if compiles:
        arguments = (*arguments, "runner.compile=True")
    with without_traceback():
        words = [*([what] if what else []), *arguments]
        branch = None if origin is None else read_branch(origin, words, steps)
        if branch is not None and (seed is not None or init is not None or prints):
            raise ValueError("--branch continues a run: leave out --seed, --init and --print")
        if branch is not None:
            config, seed = branch.config, branch.seed
        elif what is None:
            raise ValueError("name an algorithm, as in: rlpyt train ppo CartPole-v1")
        else:
            config = configuration(what, arguments, steps)
        if lists:
            # Some algorithms have defaults of their own, such as DQN for Adam's eps.
            config = {**config, "optim": algo_call(config).make().optim_kwargs or {}}
            rows = settings.describe(config)
            click.echo(tabulate(rows, headers=("setting", "type", "value"), disable_numparse=True))
            return
        if (resume or checkpoint_steps) and log_dir is None:
            raise ValueError("--resume and --checkpoint-steps need the --log-dir of the run")
        if keep_checkpoints and not (resume or checkpoint_steps):
            raise ValueError("--keep-checkpoints needs --checkpoint-steps or --resume")
        earlier = recorded(log_dir, run_id)
        start_from = {"init": init, "init_replay": init_replay}
        initial = branch.record() if branch else origin_of(start_from)
        if earlier is not None and not prints:
            run_dir = Path(log_dir or "", f"run_{run_id}")
            check_same_run({**config, **initial}, earlier, run_dir, resume, seed)
            initial = origin_of(earlier)
        if seed is None:
            seed = earlier["seed"] if resume and earlier else make_seed()
        if init_replay and init is None:
            raise ValueError("--init-replay needs --init RUN")
        saving: dict[str, Any] = {"resume": "auto"} if resume else {}
        if checkpoint_steps is not None:
            saving["checkpoint_interval_steps"] = checkpoint_steps
        if keep_checkpoints:
            saving["keep_checkpoints"] = None
        named = log_dir or (get_log_dir(run_name(config)) if prints else None)
        continues = resume or branch is not None
        call, log = run_calls(config, seed, named, run_id, continues, initial)
        if watches:
            callbacks = [*call.kwargs.get("callbacks", []), Call(WATCH, {})]
            call = call._replace(kwargs={**call.kwargs, "callbacks": callbacks})
        if prints:
            given_steps = [f"--steps={steps:.15g}"] if steps else []
            given_init = [f"--init={init}"] * bool(init) + ["--init-replay"] * init_replay
            given = [*given_steps, *given_init, *["--watch"] * watches]
            words = [*words, *given, f"--seed={seed}"]
            click.echo(source(call, log.kwargs, saving, "rlpyt train " + shlex.join(words)))
            return
        new_branch = branch if earlier is None else None
        further = []
        if new_branch is not None:
            saving.update(new_branch.saving(saving))
            further.append(ChangedOptimizers(new_branch.changes))
    start, prepare = Start(), None if new_branch is None else new_branch.copy_log
    try:
        run_dir = train_run(call, log, further, start, prepare, **saving)
    except Exception as error:
        if start.is_over:
            raise
        with without_traceback():
            if new_branch is not None and isinstance(error, RuntimeError):  # Of torch.
                raise ValueError(
                    f"the state of {origin} does not fit the changes: {error}"
                ) from error
            raise
    click.echo(f"\nRun: {run_dir}")


# --- sweep ---------------------------------------------------------------------------------------


@main.command()
@of_run("ALGORITHM,...", "[ENVIRONMENT,...] [NAME=VALUE,...]...")
@click.option("--suite", is_flag=True, help="All tasks of the entry's suite, such as atari_100k.")
@click.option("--seeds", type=COUNT, default=1, help="Runs of each variant: seeds 0, 1, ...")
@click.option("--log-dir", type=click.Path(), help="Sweep directory; by default named by time.")
@click.option("--slots", type=COUNT, help="Runs at a time; by default one for each GPU, or CPU.")
@click.option("--cpus-per-run", type=COUNT, help="CPU cores of each run; else an equal share.")
@click.option(
    "--gpus",
    type=click.IntRange(min=0),
    help="GPUs of all runs; by default all, on a cluster none.",
)
@click.option("--gpus-per-run", type=COUNT, default=1, help="GPUs that train in a run.")
@click.option("--affinity", metavar="CODE", help="Affinity code, in place of the options above.")
@click.option("--search", type=click.Choice(sweeps.SEARCHES), default="grid")
@click.option("--trials", type=COUNT, default=20, help="Number of settings that a search tries.")
@click.option("--seed", default=0, help="Seed of --search random.")
@click.option("--metric", default="ReturnAverage", help="Column of the log that Optuna maximizes.")
@click.option("--prune/--no-prune", default=True, help="Whether Optuna ends trials early.")
@click.option("--pool", type=click.Choice(pools.POOLS), default="local")
@click.option("--job", multiple=True, metavar="NAME=VALUE", help="Parameter of a SLURM job.")
@click.option("--retry-failed", is_flag=True, help="Restart failed runs.")
@click.option("--time-limit", type=SECONDS, metavar="SECONDS", help="Longest time of each run.")
@click.option("--dry-run", is_flag=True, help="Check and list the variants, and start nothing.")
def sweep(
    what: str,
    arguments: tuple[str, ...],
    suite: bool,
    seeds: int,
    steps: float | None,
    log_dir: str | None,
    affinity: str | None,
    search: str,
    trials: int,
    seed: int,
    metric: str,
    prune: bool,
    pool: str,
    job: tuple[str, ...],
    retry_failed: bool,
    time_limit: float | None,
    dry_run: bool,
    **resources: Any,
) -> None:
    """Train with all combinations of values, or with values that a search chooses.

    The same command with the same --log-dir continues an interrupted sweep.

    \b
    rlpyt sweep ppo CartPole-v1,Acrobot-v1 learning_rate=1e-3,3e-4 --seeds 3
    rlpyt sweep dqn,rainbow pong,breakout --seeds 5 --gpus 8 --log-dir runs/atari
    rlpyt sweep sac Pendulum-v1 model.hidden_sizes=[64,64],[256,256] --slots 2
    rlpyt sweep ppo CartPole-v1 learning_rate=1e-5:1e-2:log epochs=1:10 --search optuna
    rlpyt sweep atari_100k/der --suite --log-dir runs/der
    """
    with without_traceback():
        sweeps.check_search(search, is_given)
        parts = sweeps.parts_of(what, arguments, steps, suite)
        if search == "optuna":
            variants = sweeps.examples(parts)
        else:
            variants = sweeps.variants_of(parts, search, trials, seed)
        roles = sweeps.roles_of(variants)
        code = affinity or slots.affinity_code(roles, pool == "local", **resources)
        name = "sweep_" + re.sub("[/,]", "_", what)
        log_dir = log_dir or get_log_dir(name, create=not dry_run)
        words = (word.partition("=") for word in job)
        parameters = {name: settings.parse_value(value) for name, _, value in words}
        place = pools.make_pool(pool, code, resources["slots"], log_dir, parameters)
        sweeps.check_runs(variants, place.slots[0])
        if dry_run:
            rows = [(variant.log_dir, json.dumps(variant.changes)) for variant in variants]
            click.echo(tabulate(rows, headers=("directory", "changes"), disable_numparse=True))
            click.echo(f"\n{len(place.slots)} at a time, each {seeds} times, in {log_dir}")
            return
        options: dict[str, Any] = {"retry_failed": retry_failed, "time_limit_s": time_limit}
        options["pool"] = place
        if search == "optuna":
            options["metric"] = metric
            best = sweeps.run_trials(parts[0], code, log_dir, seeds, trials, prune, **options)
            click.echo("\n" + best)
        else:
            sweeps.run_variants(variants, code, log_dir, seeds, **options)
    click.echo(f"\nSweep: {log_dir}\nCompare: rlpyt plot {shlex.quote(log_dir)}")


# --- doctor --------------------------------------------------------------------------------------


@main.command()
@of_run("ALGORITHM|TABLE/ENTRY", "[ENVIRONMENT] [NAME=VALUE]...")
@click.option("--seconds", type=SECONDS, default=60.0, help="Time to measure, roughly.")
def doctor(what: str, arguments: tuple[str, ...], seconds: float, steps: float | None) -> None:
    """Find the sampler, workers, batch_B and threads that are fastest on this machine.

    \b
    rlpyt doctor ppo CartPole-v1
    rlpyt doctor a2c pong sampler=gpu --seconds 30

    Given settings, such as the sampler, are not changed.
    """
    from rlpyt.experiments.doctor.diagnosis import examine

    with without_traceback():
        config = configuration(what, arguments, steps)
        try_runs([runner_call(config)])
        found = examine(config, arguments, seconds, lambda text: click.echo(text, err=True))
    click.echo("\n" + found.text())
    options = [f"--steps={steps:.15g}"] if steps else []
    click.echo("\n" + found.command(what, arguments, options))


# --- list ----------------------------------------------------------------------------------------


@main.command("list")
@click.argument("kind", type=click.Choice(catalog.KINDS), required=False)
@click.argument("text", required=False)
def list_(kind: str | None, text: str | None) -> None:
    """List the names that train takes, or only names that contain TEXT."""
    for each in [kind] if kind else catalog.KINDS:
        names = catalog.names(each)
        if text:
            names = [name for name in names if text.lower() in name.lower()]
        if not names and text:
            raise click.ClickException(f"none of the {each} contains {text!r}: rlpyt list {each}")
        if kind is None:
            click.secho(f"{each} ({len(names)})", bold=True)
            names = names if each != "environments" else [*names[:20], "..."]
            click.echo("  " + "  ".join(names) + "\n")
        else:
            click.echo("\n".join(names))

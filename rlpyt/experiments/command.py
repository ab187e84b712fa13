"""The command ``rlpyt``: to train, search, examine, act, verify, diagnose and compare."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import gymnasium
from tabulate import tabulate

from rlpyt.core.protocols import RunnerLike
from rlpyt.experiments import catalog, evaluation, settings
from rlpyt.experiments.branching import read_branch
from rlpyt.experiments.health import Watch, report
from rlpyt.experiments.program import runner_call, source, started_from
from rlpyt.experiments.results.pictures import plot_results
from rlpyt.experiments.results.statistics import STATISTICS
from rlpyt.experiments.results.suites import SUITES
from rlpyt.experiments.sweeps import command as sweeps, pools, slots
from rlpyt.experiments.sweeps.launch import SweepError
from rlpyt.experiments.train import (
    alone_in,
    check_same_run,
    configuration,
    library_code,
    log_call,
    recorded,
    run_name,
    starting_point,
    try_runs,
)
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.seed import make_seed

Command = TypeVar("Command", bound=Callable[..., Any])

COUNT, STEPS = click.IntRange(min=1), click.FloatRange(min=1)
SECONDS = click.FloatRange(min=0, min_open=True)
GIVEN = click.core.ParameterSource.COMMANDLINE

# Errors of wrong input, shown without a traceback.
WRONG = (ValueError, TypeError, ImportError, OSError, gymnasium.error.Error, SweepError)


class Start(Callback):
    """Callback that records when the start of a run is over."""

    is_over = False

    def on_start(self, runner: RunnerLike) -> None:
        self.is_over = True


class WrongInput(click.ClickException):
    """Message that ends the command."""

    exit_code = 2  # 1 is the verdict of `compare`.


@contextmanager
def without_traceback() -> Iterator[None]:
    """End the command on wrong input, with a message and without a traceback."""
    try:
        yield
    except WRONG as error:
        raise WrongInput(str(error)) from error


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="rlpyt")
def main() -> None:
    """Reinforcement learning from the command line."""
    if os.getcwd() not in sys.path:  # For classes of the user, given by name.
        sys.path.append(os.getcwd())


# --- train ---------------------------------------------------------------------------------------


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
    """Return a decorator that adds the words of a run to a command.

    Args:
        what: form of the first word, for the help.
        arguments: form of the others.
        required: whether there must be a first word.
    """

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
    rlpyt train --branch runs/pong/run_0@1e6 learning_rate=1e-4
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
            rows = settings.describe(config)
            click.echo(tabulate(rows, headers=("setting", "type", "value"), disable_numparse=True))
            return
        if (resume or checkpoint_steps) and log_dir is None:
            raise ValueError("--resume and --checkpoint-steps need the --log-dir of the run")
        if keep_checkpoints and not (resume or checkpoint_steps):
            raise ValueError("--keep-checkpoints needs --checkpoint-steps or --resume")
        earlier = recorded(log_dir, run_id)
        if earlier is not None and not prints:
            check_same_run(config, earlier, Path(log_dir or "", f"run_{run_id}"), resume, seed)
        if seed is None:
            seed = earlier["seed"] if resume and earlier else make_seed()
        call = runner_call(config, seed)
        if init is not None:
            call = started_from(call, init, init_replay)
        elif init_replay:
            raise ValueError("--init-replay needs --init RUN")
        saving: dict[str, Any] = {"resume": "auto"} if resume else {}
        if checkpoint_steps is not None:
            saving["checkpoint_interval_steps"] = checkpoint_steps
        if keep_checkpoints:
            saving["keep_checkpoints"] = None
        if prints:
            given_steps = [f"--steps={steps:.15g}"] if steps else []
            given_init = [f"--init={init}"] * bool(init) + ["--init-replay"] * init_replay
            words = [*words, *given_steps, *given_init, f"--seed={seed}"]
            log = log_call(config, seed, log_dir, run_id, resume)
            click.echo(source(call, log.kwargs, saving, "rlpyt train " + shlex.join(words)))
            return
        start = Start()
        further = [each.make() for each in call.kwargs.get("callbacks", [])]
        further += [Watch()] * watches
        new_branch = branch if earlier is None else None
        if new_branch is not None:
            saving.update(new_branch.saving(saving))
            further += new_branch.callbacks()
        runner = call.make(callbacks=[*further, start])
        log_dir = log_dir or get_log_dir(run_name(config), create=True)
        parent = branch.record() if branch else {"init": init} if init else {}
        more = {"code": library_code(), **parent}
        log = log_call(config, seed, log_dir, run_id, resume or branch is not None, more)
        run_dir = Path(log_dir, f"run_{run_id}")
        is_new = not run_dir.exists()
    try:
        with alone_in(run_dir):
            if new_branch is not None:
                new_branch.copy_log(run_dir)
            with log.make():
                runner.train(**saving)
    except Exception as error:
        if start.is_over:
            raise
        if is_new:
            shutil.rmtree(run_dir, ignore_errors=True)  # It contains only the error.
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
        sweeps.check_search(search, _is_given)
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
        launch = sweeps.Launch(log_dir, code, place, seeds, retry_failed, time_limit)
        if search == "optuna":
            click.echo("\n" + launch.search(parts[0], trials, metric, prune))
        else:
            launch.run(variants)
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
        if kind is None:
            click.secho(f"{each} ({len(names)})", bold=True)
            names = names if each != "environments" else [*names[:20], "..."]
            click.echo("  " + "  ".join(names) + "\n")
        else:
            click.echo("\n".join(names))


# --- evaluate, watch, export, plot and compare ---------------------------------------------------


@main.command()
@click.argument("path", metavar="RUN_OR_SNAPSHOT", type=click.Path())
@click.option("--episodes", type=COUNT, default=10, help="Exact number of episodes.")
@click.option("--seed", type=int, help="Seed for all random numbers; drawn by default.")
@click.option(
    "--csv", "file", type=click.Path(), help="Table of the episodes; else beside the snapshot."
)
def evaluate(path: str, episodes: int, seed: int | None, file: str | None) -> None:
    """Play episodes with a trained agent and print their statistics."""
    with without_traceback():
        saved = evaluation.load_agent(path)
        infos = evaluation.evaluate(saved, episodes, seed)
        click.echo(_table(infos))
        file = file or str(saved.file.with_name(f"{saved.file.stem}_evaluation.csv"))
        evaluation.write_episodes(infos, file)
    click.echo(f"\n{len(infos)} episodes of {saved.file}: {file}")


@main.command()
@click.argument("path", metavar="RUN_OR_SNAPSHOT", type=click.Path())
@click.option("--video", type=click.Path(), help="File, .mp4 or .gif; else a window.")
@click.option("--episodes", type=COUNT, default=1, help="Number of episodes.")
@click.option("--seed", type=int, help="Seed for all random numbers; drawn by default.")
@click.option("--max-frames", type=COUNT, default=10_000, help="Largest number of pictures.")
def watch(path: str, video: str | None, episodes: int, seed: int | None, max_frames: int) -> None:
    """Show a trained agent in a window, or write a video of it."""
    with without_traceback():
        infos = evaluation.watch(evaluation.load_agent(path), episodes, video, seed, max_frames)
    click.echo(_table(infos))
    if video is not None:
        click.echo(f"\nVideo: {video}")


@main.command()
@click.argument("run", type=click.Path())
@click.option("--intervals", type=COUNT, default=3, help="Number of intervals to compute again.")
@click.option("--seed", type=int, help="Seed that chooses them; drawn by default.")
def verify(run: str, intervals: int, seed: int | None) -> None:
    """Compute parts of RUN again; if they differ from its log, the exit code is 1.

    \b
    rlpyt train ppo CartPole-v1 --log-dir runs/ppo --checkpoint-steps 1e4 --keep-checkpoints
    rlpyt verify runs/ppo/run_0

    A part is what lies between two checkpoints. Its log rows, but for times, and the whole state
    after it must be equal to the last digit. RUN/verify.json records the verdict.
    """
    from rlpyt.experiments import verification

    with without_traceback():
        verdict = verification.verify(run, intervals, seed)
    click.echo(verdict.text())
    if verdict.differences:
        raise SystemExit(1)


@main.command()
@click.argument("run", type=click.Path(exists=True))
def diagnose(run: str) -> None:
    """Say what is wrong with RUN, since when, and what to try, in at most ten lines.

    \b
    rlpyt diagnose runs/ppo/run_0
    """
    with without_traceback():
        click.echo(report(run))


@main.command()
@click.argument("path", metavar="RUN_OR_SNAPSHOT", type=click.Path())
@click.argument("file", type=click.Path(dir_okay=False))
def export(path: str, file: str) -> None:
    """Write the policy of a trained agent to FILE, as one graph.

    \b
    rlpyt export runs/cartpole/run_0 cartpole.onnx   # for ONNX Runtime
    rlpyt export runs/cartpole/run_0 cartpole.pt2    # for torch.export.load
    """
    from rlpyt.experiments.trained import load

    with without_traceback():
        graph = load(path).export(file)
    rows = [
        (kind, name, str(example.dtype).removeprefix("torch."), graph.shape(name))
        for kind, examples in (("input", graph.inputs), ("output", graph.outputs))
        for name, example in examples.items()
    ]
    click.echo(tabulate(rows, headers=("", "name", "type", "shape")))
    click.echo(f"\nPolicy: {file}")


@main.command()
@click.argument("directories", nargs=-1, required=True)
@click.option("--output", default="plots", help="Directory of the pictures.")
@click.option("--by", multiple=True, help="Parameter that distinguishes curves; may be repeated.")
@click.option("--task", help="Parameter that names the task; the environment by default.")
@click.option("--suite", type=click.Choice(list(SUITES)), help="Suite with published scores.")
@click.option("--column", "y", help="Column of the log to plot; ReturnAverage by default.")
@click.option("--smooth", type=COUNT, default=1, help="Number of log rows in the moving mean.")
@click.option("--baseline", help="Label to compare the others with; by default the first.")
@click.option("--x", help="Column of the horizontal axis; by default environment steps.")
@click.option("--statistic", type=click.Choice(list(STATISTICS)), help="Of the runs; else iqm.")
@click.option("--confidence", type=float, help="Probability of the intervals; 0.95 by default.")
@click.option("--min-steps", type=float, help="Leave out runs that end earlier.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="TASK=LOW:HIGH",
    help="Scores of a task that become 0 and 1 when tasks are compared together.",
)
@click.option("--title", default="", show_default=False, help="Title of the pictures.")
@click.option("--runs", is_flag=True, help="Draw single runs too.")
def plot(
    directories: tuple[str, ...],
    output: str,
    by: tuple[str, ...],
    task: str | None,
    ranges: tuple[str, ...],
    title: str,
    runs: bool,
    **options: Any,
) -> None:
    """Compare runs, settings or sweeps in pictures: curves over seeds, profiles, improvement.

    \b
    rlpyt plot data/my_sweep --smooth 3
    rlpyt plot PPO=runs/ppo A2C=runs/a2c --output figures
    rlpyt plot DER=runs/der --suite atari_100k
    """
    with without_traceback():
        given = {name: value for name, value in options.items() if value is not None}
        if ranges:
            given["score_ranges"] = dict(map(_score_range, ranges))
        comparison, files = plot_results(
            directories, output, by, task, ("png", "svg"), title, runs, **given
        )
    click.echo(comparison.table())
    click.echo("\n" + "\n".join(str(file) for file in files))


@main.command()
@click.argument("runs", type=click.Path())
@click.argument("baseline", type=click.Path(exists=True))
@click.option("--tolerance", default=0.1, help="Loss that does not matter, as part of the range.")
@click.option("--column", "y", default="ReturnAverage", help="Column of the log to compare.")
@click.option("--score-fraction", default=0.5, help="Last part of steps, to average scores over.")
@click.option("--confidence", default=0.95, help="Probability of all intervals together.")
@click.option("--paired", is_flag=True, help="Compare runs of equal seed, such as branches.")
@click.option("--until", type=float, help="Train further seeds until the test has this confidence.")
@click.option("--max-seeds", type=COUNT, default=20, help="Largest number of seeds with --until.")
def compare(runs: str, baseline: str, until: float | None, max_seeds: int, **options: Any) -> None:
    """Find out whether RUNS learn worse than BASELINE; if they do, the exit code is 1.

    \b
    rlpyt compare runs/new runs/old          # the same settings, before and after a change
    rlpyt compare runs/new runs/old --until 0.95   # with as many seeds as it takes

    Runs are compared on each task, which is the path below the directory, and on all tasks. They
    are worse if the interval of P(improvement), the probability that a run scores more than one of
    the baseline, lies below 0.5, and the effect (the difference of interquartile means, in units of
    the range of the baseline's curve) is below -TOLERANCE. Few seeds reveal only large losses.
    With --paired each run is compared with the run of its seed, and the effect is the interquartile
    mean of the differences. With --until, seeds are trained one by one, with the settings in both
    directories, until the scores differ; without a difference that happens with a probability of 1
    - UNTIL at most, over all seeds. Finished runs are not repeated.
    """
    from rlpyt.experiments import gate

    if until is not None:
        from rlpyt.experiments.until import compare_until

        given = [name for name in ("tolerance", "confidence", "paired") if _is_given(name)]
        with without_traceback():
            if given:
                raise ValueError(f"--until has its own test: leave out --{', --'.join(given)}")
            kept = {name: options[name] for name in ("y", "score_fraction")}
            verdict = compare_until(runs, baseline, until, max_seeds, **kept, tell=click.echo)
        click.echo(verdict)
        raise SystemExit(int(verdict == "worse"))
    with without_traceback():
        lines, notes = gate.compare(runs, baseline, **options)
    click.echo("\n".join([gate.table(lines), *notes]))
    if any(line.is_worse for line in lines):
        raise SystemExit(1)


def _is_given(name: str) -> bool:
    """Return whether an option is on the command line."""
    return click.get_current_context().get_parameter_source(name) == GIVEN


def _score_range(word: str) -> tuple[str, tuple[float, float]]:
    """Split ``TASK=LOW:HIGH``."""
    task, _, limits = word.rpartition("=")
    low, _, high = limits.partition(":")
    try:
        return task, (float(low), float(high))
    except ValueError as error:
        raise ValueError(f"--range {word}: give TASK=LOW:HIGH, as in pong=-20.7:14.6") from error


def _table(infos: Sequence[Any]) -> str:
    rows = [{"": name, **row} for name, row in evaluation.statistics(infos).items()]
    return str(tabulate(rows, headers="keys", floatfmt=".4g"))

"""The command ``rlpyt``: train, list, evaluate, watch and plot."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import gymnasium
from tabulate import tabulate

from rlpyt.experiments import catalog, evaluation, settings
from rlpyt.experiments.configs.tables import Config
from rlpyt.experiments.program import runner_call, source
from rlpyt.experiments.train import (
    check_same_run,
    log_call,
    recorded,
    starting_point,
    try_environment,
    with_steps,
)
from rlpyt.utils.results.pictures import plot_results
from rlpyt.utils.results.statistics import STATISTICS
from rlpyt.utils.seed import make_seed

KINDS = ("algorithms", "agents", "entries", "environments", "runners", "samplers")


@contextmanager
def explained() -> Iterator[None]:
    """Let wrong input end the command with its message, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, ImportError, FileNotFoundError, gymnasium.error.Error) as error:
        raise click.ClickException(str(error)) from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rlpyt")
def main() -> None:
    """Reinforcement learning from the command line."""


# --- train ---------------------------------------------------------------------------------------


def complete_train(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an entry, then environments and settings."""
    given = list(ctx.params.get("arguments") or ())
    entries = [key.removeprefix("generic/") for key in catalog.entries()]
    if not ctx.params.get("what"):
        return [name for name in entries if name.startswith(incomplete)]
    words = [] if any("=" not in word for word in given) else _environments()
    try:
        config = starting_point(ctx.params["what"])
        words += [f"{name}=" for name, _, _ in settings.describe(config)]
    except ValueError:
        pass
    words += [f"{role}=" for role in settings.ROLES]
    return [word for word in words if word.startswith(incomplete)]


def _environments() -> list[str]:
    return [*catalog.atari_games(), *catalog.environment_ids()]


def configuration(what: str, arguments: Sequence[str], steps: float | None = None) -> Config:
    """Return the checked configuration of ``rlpyt train WHAT [ENVIRONMENT] [NAME=VALUE]...``.

    Raises:
        ValueError: if something is unknown or of another type; the message says what to type.
    """
    environments = [word for word in arguments if "=" not in word]
    if len(environments) > 1:
        raise ValueError(
            f"there are two environments, {' and '.join(environments)}: give one; settings have "
            "the form name=value"
        )
    config = starting_point(what, *environments)
    if steps is not None:
        config = with_steps(config, steps)
    config = settings.overridden(config, [word for word in arguments if "=" in word])
    if not config["env"] and config["roles"].get("env", "gym") == "gym":
        raise ValueError(f"name an environment, as in: rlpyt train {what} CartPole-v1")
    return settings.checked(config)


@main.command()
@click.argument("what", metavar="ALGORITHM|TABLE/ENTRY", shell_complete=complete_train)
@click.argument(
    "arguments",
    nargs=-1,
    metavar="[ENVIRONMENT] [NAME=VALUE]...",
    shell_complete=complete_train,
)
@click.option("--seed", type=int, help="Seed of everything random; drawn by default.")
@click.option("--steps", type=float, help="Environment steps of the run.")
@click.option("--log-dir", type=click.Path(), help="Directory of the log; named after the time.")
@click.option("--run-id", default="0", show_default=True, help="Name of the run in --log-dir.")
@click.option(
    "--resume", is_flag=True, help="Save checkpoints in --log-dir, and go on from the latest one."
)
@click.option("--checkpoint-steps", type=float, help="Steps between them; else ten minutes.")
@click.option("--print", "prints", is_flag=True, help="Print the program that does the same.")
@click.option("--settings", "lists", is_flag=True, help="List all settings with their values.")
def train(
    what: str,
    arguments: tuple[str, ...],
    seed: int | None,
    steps: float | None,
    log_dir: str | None,
    run_id: str,
    resume: bool,
    checkpoint_steps: float | None,
    prints: bool,
    lists: bool,
) -> None:
    r"""Train an algorithm on an environment, or an entry of a table.

    \b
    rlpyt train ppo CartPole-v1
    rlpyt train sac Pendulum-v1 algo.learning_rate=1e-3 --steps 2e4
    rlpyt train atari_dqn/double breakout sampler=cpu workers=8 batch_B=16
    rlpyt train dqn CartPole-v1 runner=async sampler=cpu --print
    rlpyt train dqn pong --log-dir runs/pong --resume
    """
    with explained():
        config = configuration(what, arguments, steps)
        if lists:
            rows = settings.describe(config)
            click.echo(tabulate(rows, headers=("setting", "type", "value"), disable_numparse=True))
            return
        if (resume or checkpoint_steps) and log_dir is None:
            raise ValueError("--resume and --checkpoint-steps need the --log-dir of the run")
        earlier = recorded(log_dir, run_id)
        if seed is None:
            seed = earlier["seed"] if resume and earlier else make_seed()
        log = log_call(config, seed, log_dir, run_id, resume)
        run_dir = Path(log.kwargs["log_dir"]) / f"run_{run_id}"
        call = runner_call(config, seed)
        saving: dict[str, Any] = {"resume": "auto"} if resume else {}
        if checkpoint_steps is not None:
            saving["checkpoint_interval_steps"] = checkpoint_steps
        if prints:
            words = [what, *arguments, *([f"--steps={steps:g}"] if steps else []), f"--seed={seed}"]
            click.echo(source(call, log.kwargs, saving, "rlpyt train " + shlex.join(words)))
            return
        if earlier is not None:
            check_same_run(config, earlier, run_dir, resume)
        try_environment(config)
        runner = call.make()
    with log.make():
        runner.train(**saving)
    click.echo(f"\nRun: {run_dir}")


# --- list ----------------------------------------------------------------------------------------


@main.command("list")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.argument("text", required=False)
def list_(kind: str | None, text: str | None) -> None:
    """List the names that train understands; only those that contain TEXT, if it is given."""
    for each in [kind] if kind else KINDS:
        names = _names_of(each)
        if text:
            names = [name for name in names if text.lower() in name.lower()]
        if kind is None:
            click.secho(f"{each} ({len(names)})", bold=True)
            names = names if each != "environments" else [*names[:20], "..."]
            click.echo("  " + "  ".join(names) + "\n")
        else:
            click.echo("\n".join(names))


def _names_of(kind: str) -> list[str]:
    if kind == "agents":
        return [
            f"{algo} agent={agent}"
            for algo, algorithm in catalog.ALGORITHMS.items()
            for agent in algorithm.agents
        ]
    if kind == "environments":
        return _environments()
    tables: dict[str, Iterable[str]] = {
        "algorithms": catalog.ALGORITHMS,
        "entries": catalog.entries(),
        "runners": catalog.RUNNERS,
        "samplers": catalog.SAMPLERS,
    }
    return list(tables[kind])


# --- evaluate, watch and plot --------------------------------------------------------------------


@main.command()
@click.argument("path", metavar="RUN_OR_SNAPSHOT", type=click.Path())
@click.option("--episodes", default=10, show_default=True, help="Number of episodes, exactly.")
@click.option("--seed", type=int, help="Seed of everything random; drawn by default.")
@click.option(
    "--csv", "file", type=click.Path(), help="Table of the episodes; beside the snapshot."
)
def evaluate(path: str, episodes: int, seed: int | None, file: str | None) -> None:
    """Play episodes with a trained agent and print their statistics."""
    with explained():
        saved = evaluation.load_agent(path)
        infos = evaluation.evaluate(saved, episodes, seed)
    file = file or str(saved.file.with_name(f"{saved.file.stem}_evaluation.csv"))
    evaluation.write_episodes(infos, file)
    click.echo(_table(infos))
    click.echo(f"\n{len(infos)} episodes of {saved.file}: {file}")


@main.command()
@click.argument("path", metavar="RUN_OR_SNAPSHOT", type=click.Path())
@click.option("--video", type=click.Path(), help="File to write, .mp4 or .gif; else a window.")
@click.option("--episodes", default=1, show_default=True, help="Number of episodes.")
@click.option("--seed", type=int, help="Seed of everything random; drawn by default.")
@click.option("--max-frames", default=10_000, show_default=True, help="Pictures of the video.")
def watch(path: str, video: str | None, episodes: int, seed: int | None, max_frames: int) -> None:
    """Show a trained agent in a window, or write a video of it."""
    with explained():
        infos = evaluation.watch(evaluation.load_agent(path), episodes, video, seed, max_frames)
    click.echo(_table(infos))
    if video is not None:
        click.echo(f"\nVideo: {video}")


@main.command()
@click.argument("directories", nargs=-1, required=True)
@click.option("--output", default="plots", show_default=True, help="Directory of the pictures.")
@click.option("--by", multiple=True, help="Parameter that distinguishes curves; may be repeated.")
@click.option("--task", help="Parameter that tells the task; the environment by default.")
@click.option("--column", "y", default="ReturnAverage", show_default=True, help="What to plot.")
@click.option("--smooth", default=1, show_default=True, help="Log rows in a moving mean.")
@click.option("--baseline", help="Label that the others are compared with; the first by default.")
@click.option("--x", help="Column of the horizontal axis; environment steps by default.")
@click.option("--statistic", type=click.Choice(list(STATISTICS)), help="Of the runs; iqm.")
@click.option("--confidence", type=float, help="Probability of the intervals; 0.95.")
@click.option("--min-steps", type=float, help="Leave out runs that end before.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="TASK=LOW:HIGH",
    help="Scores that become 0 and 1 where tasks are put together; for every task.",
)
@click.option("--title", default="")
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
    r"""Compare runs, settings or sweeps in pictures: curves over seeds, profiles, improvement.

    \b
    rlpyt plot data/my_sweep --smooth 3
    rlpyt plot PPO=runs/ppo A2C=runs/a2c --output figures
    """
    with explained():
        given = {name: value for name, value in options.items() if value is not None}
        if ranges:
            given["score_ranges"] = dict(map(_score_range, ranges))
        comparison, files = plot_results(
            directories, output, by, task, ("png", "svg"), title, runs, **given
        )
    click.echo(comparison.table())
    click.echo("\n" + "\n".join(str(file) for file in files))


def _score_range(word: str) -> tuple[str, tuple[float, float]]:
    """Split ``TASK=LOW:HIGH``."""
    task, _, limits = word.rpartition("=")
    low, _, high = limits.partition(":")
    try:
        return task, (float(low), float(high))
    except ValueError as error:
        raise ValueError(f"--range {word}: write it as TASK=LOW:HIGH, as in pong=-20.7:14.6") from (
            error
        )


def _table(infos: Sequence[Any]) -> str:
    rows = [{"": name, **row} for name, row in evaluation.statistics(infos).items()]
    return str(tabulate(rows, headers="keys", floatfmt=".4g"))

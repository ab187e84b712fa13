"""The command ``rlpyt``: train, list, evaluate and watch."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from rlpyt.experiments import catalog, evaluation, settings
from rlpyt.experiments.configs.tables import Config
from rlpyt.experiments.program import runner_call, source
from rlpyt.experiments.train import (
    check_unused,
    log_call,
    starting_point,
    try_environment,
    with_steps,
)
from rlpyt.utils.seed import make_seed

KINDS = ("algorithms", "agents", "entries", "environments", "runners", "samplers")


@contextmanager
def explained() -> Iterator[None]:
    """Let wrong input end the command with its message, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, ImportError, FileNotFoundError) as error:
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
@click.option("--print", "prints", is_flag=True, help="Print the program that does the same.")
@click.option("--settings", "lists", is_flag=True, help="List all settings with their values.")
def train(
    what: str,
    arguments: tuple[str, ...],
    seed: int | None,
    steps: float | None,
    log_dir: str | None,
    run_id: str,
    prints: bool,
    lists: bool,
) -> None:
    r"""Train an algorithm on an environment, or an entry of a table.

    \b
    rlpyt train ppo CartPole-v1
    rlpyt train sac Pendulum-v1 algo.learning_rate=1e-3 --steps 2e4
    rlpyt train atari_dqn/double breakout sampler=cpu workers=8 batch_B=16
    rlpyt train dqn CartPole-v1 runner=async sampler=cpu --print
    """
    with explained():
        config = configuration(what, arguments, steps)
        if lists:
            rows = settings.describe(config)
            click.echo(tabulate(rows, headers=("setting", "type", "value"), disable_numparse=True))
            return
        seed = make_seed() if seed is None else seed
        call = runner_call(config, seed)
        log = log_call(config, seed, log_dir, run_id)
        if prints:
            options = [] if steps is None else ["--steps", f"{steps:g}"]
            words = ["rlpyt", "train", what, *arguments, *options, "--seed", str(seed)]
            click.echo(source(call, log.kwargs, shlex.join(words)))
            return
        check_unused(log)
        try_environment(config)
        runner = call.make()
    with log.make():
        runner.train()
    click.echo(f"\nRun: {Path(log.kwargs['log_dir']) / f'run_{run_id}'}")


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


# --- evaluate and watch --------------------------------------------------------------------------


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


def _table(infos: Sequence[Any]) -> str:
    rows = [{"": name, **row} for name, row in evaluation.statistics(infos).items()]
    return str(tabulate(rows, headers="keys", floatfmt=".4g"))

"""Parts that all commands of ``rlpyt`` share: the group, types of options, wrong input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
import gymnasium

from rlpyt.experiments.sweeps.launch import SweepError

COUNT, STEPS = click.IntRange(min=1), click.FloatRange(min=1)
SECONDS = click.FloatRange(min=0, min_open=True)
GIVEN = click.core.ParameterSource.COMMANDLINE

# Errors of wrong input, shown without a traceback.
WRONG = (ValueError, TypeError, ImportError, OSError, gymnasium.error.Error, SweepError)


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


BEGIN = """Begin with one of these:

  rlpyt train ppo CartPole-v1 --steps 1e5 --log-dir runs/first
  rlpyt watch runs/first/run_0      in a window: pip install 'rlpyt[video]'
  rlpyt plot runs/first             the learning curve: pip install 'rlpyt[plot]'
  rlpyt doctor ppo CartPole-v1      the fastest settings on this machine
  rlpyt list                        algorithms, entries, samplers, environments

rlpyt --help has all commands."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    invoke_without_command=True,
)
@click.version_option(package_name="rlpyt")
@click.pass_context
def main(context: click.Context) -> None:
    """Reinforcement learning from the command line."""
    if context.invoked_subcommand is None:
        click.echo(BEGIN)
    if os.getcwd() not in sys.path:  # For classes of the user, given by name.
        sys.path.append(os.getcwd())


def is_given(name: str) -> bool:
    """Return whether an option is on the command line."""
    return click.get_current_context().get_parameter_source(name) == GIVEN

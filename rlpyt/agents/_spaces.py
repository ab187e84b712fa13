"""Checks of an environment's spaces, which may be of any class."""

from __future__ import annotations

from typing import Any

from rlpyt.utils._subclassing import overrides


def check_one_discrete_action(agent: Any, space: Any) -> None:
    """Raise an error unless an action is one number from 0 to ``space.n - 1``.

    Args:
        agent: whose users' subclasses may go on from here to other actions.
        space: of actions; without ``shape`` or ``low`` it is taken to be as it should.

    Raises:
        ValueError: if the space is another one.
    """
    is_single = getattr(space, "shape", ()) in ((), None)
    is_one = hasattr(space, "n") and is_single and getattr(space, "low", 0) == 0
    if not is_one and not overrides(agent, "initialize", "step"):
        raise ValueError(
            f"{type(agent).__name__} needs one discrete action, a number from 0 to n - 1, but the "
            f"action space is {space}: make it one in a wrapper (of several discrete actions, a "
            "number for every combination), or use an agent for such actions"
        )


def array_shape(agent_name: str, space: Any) -> tuple[int, ...]:
    """The shape of an observation which is one array.

    Args:
        agent_name: for the error.
        space: of observations.

    Raises:
        ValueError: if an observation is a record of several arrays.
    """
    if any(isinstance(size, tuple) for size in space.shape):
        raise ValueError(
            f"{agent_name} needs observations which are one array, but the observation space is "
            f"{space}, with arrays of shapes {space.shape}: join them in a wrapper of the "
            "environment, or use GenericFfAgent, which takes any"
        )
    shape: tuple[int, ...] = space.shape
    return shape

"""Kinds of spaces that networks are built for.

Spaces of this library and wrapped spaces of gym are read by their attributes, not by their class,
into arrays of choices, arrays of numbers, and records of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import numpy as np

from rlpyt.core.bounds import policy_bounds
from rlpyt.utils.logging import logger
from rlpyt.utils.types import NDArray


class Choices(NamedTuple):
    """An array of choices, each a number from 0 to its entry of ``nvec`` minus 1."""

    nvec: NDArray  # shape of an element; [] for a single choice


class Box(NamedTuple):
    """An array of numbers."""

    low: NDArray  # shape of an element, float32; -inf where there is no bound
    high: NDArray  # shape of an element, float32; inf where there is no bound
    is_integer: bool


class Fields(NamedTuple):
    """A record."""

    names: tuple[str, ...]
    kinds: tuple[Any, ...]


Kind = Union[Choices, Box, Fields]


def observation_kind(space: Any) -> Kind:
    """Return the kind of an observation space; arrays of integers are boxes.

    Raises:
        ValueError: if the space is of an unknown kind.
    """
    if _is_record(space):
        return _fields(space, observation_kind)
    n_choices = getattr(space, "n", None)
    is_number = getattr(space, "shape", None) == () and isinstance(n_choices, (int, np.integer))
    if is_number and _starts_at_0(space):
        return Choices(np.asarray(n_choices))
    gym_space = _inner(space)
    if hasattr(gym_space, "nvec"):
        return Choices(np.asarray(gym_space.nvec))
    if n_choices is not None and not hasattr(space, "low"):  # A binary space of gym.
        return Box(np.zeros(space.shape), np.ones(space.shape), is_integer=True)
    return _box(space)


def action_kind(space: Any) -> Kind:
    """Return the kind of an action space; arrays of integers are choices.

    Raises:
        ValueError: if the space is of an unknown kind, or its integers do not start at 0.
    """
    if _is_record(space):
        return _fields(space, action_kind)
    kind = observation_kind(space)
    if not (isinstance(kind, Box) and kind.is_integer):
        return kind
    if not np.all(kind.low == 0) or not np.all(np.isfinite(kind.high)):
        raise ValueError(
            f"the action space {space} has integers from {kind.low.min()} to {kind.high.max()}: "
            "count from 0, up to a bound, in a wrapper of the environment"
        )
    return Choices(kind.high.astype(np.int64) + 1)


def record_parts(space: Any) -> dict[str, Any]:
    """Return the sub-spaces of a record by name; none for any other space."""
    inner = _inner(space)
    return dict(zip(inner.names, inner.spaces)) if _is_record(space) else {}


def _inner(space: Any) -> Any:
    """Return the space inside a wrapper of gym spaces, or ``space`` itself."""
    return getattr(space, "space", space)


def _is_record(space: Any) -> bool:
    inner = _inner(space)
    return hasattr(inner, "names") and hasattr(inner, "spaces")


def _fields(space: Any, read: Any) -> Fields:
    inner = _inner(space)
    return Fields(tuple(inner.names), tuple(map(read, inner.spaces)))


def _starts_at_0(space: Any) -> bool:
    return bool(getattr(space, "low", 0) == 0)


def _box(space: Any) -> Box:
    if not all(hasattr(space, name) for name in ("low", "high", "shape", "dtype")):
        raise ValueError(
            f"cannot read the space {space!r}: it needs n, or low, high, shape and dtype, or be a "
            "Composite of such spaces; convert it in a wrapper of the environment, or pass a "
            "ModelCls that takes it"
        )
    low, high = (np.asarray(bound, dtype=np.float64) for bound in (space.low, space.high))
    is_integer = np.issubdtype(space.dtype, np.integer) or space.dtype == np.bool_
    # The upper bound of an IntBox, which has a number of choices, is exclusive.
    high = high - 1 if is_integer and hasattr(space, "n") else high
    low, high = (np.broadcast_to(bound, space.shape) for bound in (low, high))
    return Box(*policy_bounds(low, high), bool(is_integer))


def check_one_choice(agent_name: str, space: Any) -> None:
    """Warn unless an action is one number from 0 to ``space.n - 1``, as a subclass need not take.

    Args:
        agent_name: class of the agent, for the message.
        space: action space; a missing ``shape`` or ``low`` is taken to be right.

    Raises:
        ValueError: if the space has no ``n``.
    """
    objection = (
        f"{agent_name} needs one discrete action, a number from 0 to n - 1, but the "
        f"action space is {space}: make it one in a wrapper (of several discrete actions, a "
        "number for every combination), or use an agent for such actions"
    )
    if not hasattr(space, "n"):
        raise ValueError(objection)
    if getattr(space, "shape", ()) not in ((), None) or getattr(space, "low", 0) != 0:
        logger.log(f"WARNING: {objection}")


def array_shape(agent_name: str, space: Any) -> tuple[int, ...]:
    """Return the shape of an observation that is one array.

    Args:
        agent_name: class of the agent, for the error message.
        space: observation space.

    Raises:
        ValueError: if an observation is a record of several arrays.
    """
    if any(isinstance(size, tuple) for size in space.shape):
        raise ValueError(
            f"{agent_name} needs observations that are one array, but the observation space is "
            f"{space}, with arrays of shapes {space.shape}: join them in a wrapper of the "
            "environment, or use GenericFfAgent, which takes any"
        )
    shape: tuple[int, ...] = space.shape
    return shape

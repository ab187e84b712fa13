"""The box that continuous actions lie in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rlpyt.utils.types import NDArray


class ActionBounds(NamedTuple):
    """Least and greatest action, per dimension.

    Networks and noise know actions u in [-1, 1]; those of the environment are
    ``mid + half_range * u``.
    """

    low: NDArray  # [A] float32
    high: NDArray  # [A] float32

    @property
    def mid(self) -> NDArray:
        """[A] half way between the bounds."""
        return (self.low + self.high) / 2

    @property
    def half_range(self) -> NDArray:
        """[A] from ``mid`` to either bound; positive."""
        return (self.high - self.low) / 2

    @property
    def is_unit(self) -> bool:
        """Whether every dimension is [-1, 1]."""
        return bool(np.all(self.low == -1) and np.all(self.high == 1))

    def rows(self) -> NDArray:
        """[2,A] ``low`` and ``high``, as ``Gaussian`` takes ``clip`` and ``squash``."""
        return np.stack([self.low, self.high])


def check_noise(agent: Any, *names: str, may_be_none: bool = False) -> None:
    """Raise an error unless settings of ``agent`` are numbers, or arrays of numbers, from 0 on.

    Raises:
        ValueError: if one is something else.
    """
    for name in names:
        value = getattr(agent, name)
        if value is None and may_be_none:
            continue
        numbers = np.asarray(value)
        if not (np.issubdtype(numbers.dtype, np.number) and np.all(numbers >= 0)):
            remedy = "make it 0 or positive, or None" if may_be_none else "make it 0 or positive"
            raise ValueError(f"{name} is {value!r}: {remedy}")


def check_vector_action(agent_name: str, space: Any) -> None:
    """Raise an error unless actions are vectors of real numbers.

    Args:
        agent_name: for the error.
        space: of actions, with ``shape``, ``low`` and ``high``.

    Raises:
        ValueError: if the space is another one.
    """
    shape = getattr(space, "shape", None)
    is_real = np.issubdtype(getattr(space, "dtype", np.float32), np.floating)
    if not (hasattr(space, "high") and is_real and shape is not None and len(shape) == 1):
        raise ValueError(
            f"{agent_name} needs actions which are a vector of real numbers, but the action space "
            f"is {space}: use an agent for such actions, or make them one vector in a wrapper"
        )


def continuous_action_bounds(agent_name: str, space: Any) -> ActionBounds:
    """Bounds of a space of actions which are vectors of real numbers.

    Args:
        agent_name: for the error.
        space: of actions, with ``shape``, ``low`` and ``high``.

    Raises:
        ValueError: if the space is another one, or a bound is infinite or equal to its opposite.
    """
    check_vector_action(agent_name, space)
    low, high = (
        np.array(np.broadcast_to(bound, space.shape), np.float32)
        for bound in (space.low, space.high)
    )
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(
            f"{agent_name} scales its actions to the bounds of the action space, but these are "
            f"{low.tolist()} and {high.tolist()}: give finite and different ones in a wrapper"
        )
    return ActionBounds(low, high)

"""Spaces whose elements are records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.spaces.base import Space
from rlpyt.utils.types import Nested


class Composite(Space):
    """Space of records, with one sub-space for each field.

    Args:
        spaces: sub-spaces of the fields, in order.
        NamedTupleCls: class of the records, with ``_fields``; called with one value per field.
    """

    def __init__(self, spaces: Sequence[Any], NamedTupleCls: Any) -> None:
        self._spaces = list(spaces)
        self._NamedTupleCls = NamedTupleCls
        if len(self._spaces) != len(NamedTupleCls._fields):
            raise ValueError(
                f"spaces has {len(self._spaces)} entries for {len(NamedTupleCls._fields)} fields "
                f"{NamedTupleCls._fields}: give one space per field"
            )

    def sample(self) -> Nested:
        """Return a record of one sample of every sub-space."""
        return self._NamedTupleCls(*[space.sample() for space in self._spaces])

    def null_value(self) -> Nested:
        """Return a record of the null values of all sub-spaces."""
        return self._NamedTupleCls(*[space.null_value() for space in self._spaces])

    def contains(self, x: Nested) -> bool:
        """Return whether ``x`` has these fields, each in its sub-space."""
        if not isinstance(x, tuple) or getattr(x, "_fields", None) != self._NamedTupleCls._fields:
            return False
        return all(space.contains(part) for space, part in zip(self._spaces, x))

    def seed(self, seed: int | None = None) -> list[Any]:
        """Seed the sub-spaces differently and return the list of their results."""
        n_spaces = len(self._spaces)
        seeds: list[int | None] = [None] * n_spaces
        if seed is not None:
            numbers = np.random.SeedSequence(seed).generate_state(n_spaces)
            seeds = [int(number >> 1) for number in numbers]
        return [
            space.seed(seed) if hasattr(space, "seed") else None  # Optional in users' spaces.
            for space, seed in zip(self._spaces, seeds)
        ]

    @property
    def shape(self) -> Nested:
        """Record with the shapes of all sub-spaces."""
        return self._NamedTupleCls(*[space.shape for space in self._spaces])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(self._NamedTupleCls._fields)

    @property
    def spaces(self) -> list[Any]:
        """Sub-spaces, in the order of the fields."""
        return self._spaces

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the sub-spaces."""
        return {"spaces": [space.state_dict() for space in self._spaces]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore every sub-space to its state."""
        for space, part in zip(self._spaces, state["spaces"]):
            space.load_state_dict(part)

    def __repr__(self) -> str:
        return ", ".join(repr(space) for space in self._spaces)

"""What every space can do."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.types import Nested


class Space:
    """A set of values: all observations or all actions of an environment.

    A subclass has to give ``sample`` and ``null_value``.
    """

    _rng: np.random.Generator | None = None

    @property
    def rng(self) -> np.random.Generator:
        """The generator of this space; an unseeded one is made when it is first used."""
        if self._rng is None:
            self._rng = make_generator()
        return self._rng

    def sample(self) -> Nested:
        """Return a random element, uniform where the space is bounded."""
        raise NotImplementedError

    def null_value(self) -> Nested:
        """Return the element which stands for "nothing", as the action before the first step."""
        raise NotImplementedError

    def contains(self, x: Nested) -> bool:
        """Return whether ``x`` is an element."""
        raise NotImplementedError(f"{type(self).__name__} cannot tell its elements: add contains()")

    def seed(self, seed: int | None = None) -> Any:
        """Start the random sequence of :meth:`sample` anew.

        Args:
            seed: at least 0; None takes one from the global numpy generator.
        """
        self._rng = make_generator() if seed is None else np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator."""
        return {"rng": None if self._rng is None else generator_state(self._rng)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the random sequence from ``state``."""
        if state["rng"] is None:
            self._rng = None
        else:
            set_generator_state(self.rng, state["rng"])

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

    # Names which a subclass with a generator of its own is not likely to take.
    _own_generator: np.random.Generator | None = None

    def _generator(self) -> np.random.Generator:
        """The generator of this space; an unseeded one is made when it is first used."""
        if self._own_generator is None:
            self._own_generator = make_generator()
        return self._own_generator

    def sample(self) -> Nested:
        """Return a random element, uniform where the space is bounded."""
        raise NotImplementedError

    def null_value(self) -> Nested:
        """Return the element that stands for "nothing", as the action before the first step."""
        raise NotImplementedError

    def contains(self, x: Nested) -> bool:
        """Return whether ``x`` is an element."""
        raise NotImplementedError(f"{type(self).__name__} cannot tell its elements: add contains()")

    def seed(self, seed: int | None = None) -> Any:
        """Start the random sequence of :meth:`sample` anew.

        Args:
            seed: at least 0; None takes one from the global numpy generator.
        """
        self._own_generator = make_generator() if seed is None else np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator."""
        generator = self._own_generator
        return {"rng": None if generator is None else generator_state(generator)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the random sequence from ``state``."""
        if state["rng"] is None:
            self._own_generator = None
        else:
            set_generator_state(self._generator(), state["rng"])

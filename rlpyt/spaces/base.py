"""Base class of spaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.types import Nested


class Space:
    """Base class of sets of values: all observations or all actions of an environment.

    A subclass must define ``sample`` and ``null_value``.
    """

    # Names that do not clash with the generator of a subclass.
    _own_generator: np.random.Generator | None = None

    def _generator(self) -> np.random.Generator:
        """Return the generator of this space, made on first use if it was not seeded."""
        if self._own_generator is None:
            self._own_generator = make_generator()
        return self._own_generator

    def sample(self) -> Nested:
        """Return a random element, uniform where the space is bounded."""
        raise NotImplementedError

    def null_value(self) -> Nested:
        """Return the null element, such as the action before the first step."""
        raise NotImplementedError

    def contains(self, x: Nested) -> bool:
        """Return whether ``x`` is an element."""
        raise NotImplementedError(f"{type(self).__name__} does not define contains(): add it")

    def seed(self, seed: int | None = None) -> Any:
        """Restart the random sequence of :meth:`sample`.

        Args:
            seed: integer of at least 0; None draws one from the global numpy generator.
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

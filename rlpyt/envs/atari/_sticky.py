"""Sticky actions, for an emulator whose state leaves out the action which it holds."""

from __future__ import annotations

from typing import Any

import numpy as np


class StickyEmulator:
    """An emulator each of whose frames repeats the action of the frame before, by chance.

    The emulator can do this by itself, but what it hands out as its state lacks the action it
    holds, so that a game could not be continued exactly. All else is the emulator's own.

    Args:
        ale: the emulator, not sticky itself.
        probability: that a frame repeats the action of the frame before.

    Source: Machado et al. 2018, arXiv:1709.06009, section 5.2.
    """

    def __init__(self, ale: Any, probability: float) -> None:
        self._ale = ale
        self._probability = probability
        self.held_code = 0
        self.rng: np.random.Generator

    def act(self, code: int) -> float:
        """Let one frame pass, with the action of the frame before or with ``code``."""
        if self.rng.random() >= self._probability:
            self.held_code = code
        return float(self._ale.act(self.held_code))

    def reset_game(self) -> None:
        """Start a game, which holds no action."""
        self.held_code = 0
        self._ale.reset_game()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

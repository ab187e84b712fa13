"""The schedule of learning rates which policy gradient algorithms follow."""

from __future__ import annotations

from typing import Any


class LinearDecay:
    """Lets the learning rates of an optimizer fall to zero in equal steps.

        lr(itr) = lr(0) * factor,      factor = max(0, 1 - itr / n_itr)

    Args:
        optimizer: whose parameter groups keep lr(0) as "initial_lr".
        n_itr: iterations of the whole run.
        itr: to begin with.
    """

    def __init__(self, optimizer: Any, n_itr: int, itr: int = 0) -> None:
        self.optimizer = optimizer
        self.n_itr = n_itr
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.set_itr(itr)

    @property
    def factor(self) -> float:
        """Of the present iteration, in [0, 1]."""
        return max(0.0, (self.n_itr - self.itr) / self.n_itr)

    def set_itr(self, itr: int) -> None:
        """Use the learning rates of iteration ``itr``."""
        self.itr = itr
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.factor

    def step(self) -> None:
        """Go on to the next iteration."""
        self.set_itr(self.itr + 1)

"""The schedule of learning rates which policy gradient algorithms follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class LinearDecay:
    """Lets the learning rates of an optimizer fall to zero in equal steps.

        lr(itr) = lr(0) * max(0, 1 - itr / n_itr)

    It has the methods of torch's schedulers which algorithms use; one of those can take its place.

    Args:
        optimizer: whose parameter groups keep lr(0) as "initial_lr".
        n_itr: iterations of the whole run.
    """

    def __init__(self, optimizer: Any, n_itr: int) -> None:
        self.optimizer = optimizer
        self.n_itr = n_itr
        self._set_itr(0)

    def step(self) -> None:
        """Go on to the next iteration."""
        self._set_itr(self.itr + 1)

    def state_dict(self) -> dict[str, Any]:
        """The iteration."""
        return {"itr": self.itr}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``, with the first learning rates which the optimizer knows."""
        self._set_itr(state["itr"])

    def _set_itr(self, itr: int) -> None:
        self.itr = itr
        for group in self.optimizer.param_groups:
            first = group.setdefault("initial_lr", group["lr"])
            group["lr"] = first * max(0.0, (self.n_itr - itr) / self.n_itr)

"""The registry of oracles: what each compares, how far it may differ, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.utils.seed import set_seed

SB3, CONTRIB = "stable-baselines3", "sb3-contrib"
Numbers = Sequence[Any]

PARAMETER_LIMIT = 1e-4  # Of the largest change of a parameter.
LOSS_LIMIT = 1e-5


class Outcome(NamedTuple):
    """Parameters before and after the updates, and losses, of the library and of the oracle."""

    before: Numbers  # arrays
    ours: Numbers
    theirs: Numbers
    losses: Mapping[str, tuple[Any, Any]]  # ours, theirs

    def moved(self):
        """Largest change of a parameter by the oracle."""
        return distance(self.before, self.theirs)

    def parameters(self):
        """Largest difference of a parameter."""
        return distance(self.ours, self.theirs)

    def agrees(self):
        """Whether parameters and losses differ by no more than rounding does."""
        return self.parameters() < PARAMETER_LIMIT * self.moved() and self.relative() <= LOSS_LIMIT

    def relative(self):
        """Largest difference of a loss, relative to its value, or to 0.1 if that is smaller."""
        return max(
            distance([ours], [theirs]) / max(np.abs(array(theirs)).max(), 0.1)
            for ours, theirs in self.losses.values()
        )


class Oracle(NamedTuple):
    """One row of the table."""

    algorithm: str
    source: str  # a package, or a paper
    settings: str
    run: Callable[[], Outcome]

    def labels(self):
        """First columns of the table: algorithm, source with the version of a package, settings."""
        is_package = self.source in (SB3, CONTRIB)
        source = f"{self.source} {version(self.source)}" if is_package else self.source
        return self.algorithm, source, self.settings


ENTERED = {}


def oracle(algorithm, source, settings):
    """Enter a function that runs one comparison, under its name."""

    def entered(run):
        @wraps(run)
        def seeded():
            set_seed(0)
            return run()

        ENTERED[run.__name__] = Oracle(algorithm, source, settings, seeded)
        return run

    return entered


def array(x):
    """As float64, without gradient."""
    if isinstance(x, torch.Tensor):
        return x.detach().double().numpy()
    return np.asarray(x, np.float64)


def distance(first, second):
    """Largest difference; infinite if something is not a number."""
    pairs = [(array(x), array(y)) for x, y in zip(first, second, strict=True)]
    assert all(x.shape == y.shape for x, y in pairs)
    return float(np.nan_to_num(max(np.abs(x - y).max() for x, y in pairs), nan=np.inf))


def copies(parameters):
    """What they are now."""
    return [array(p).copy() for p in parameters]


@torch.no_grad()
def assign(parameters, values):
    """Set ``parameters`` to ``values``."""
    for p, x in zip(parameters, values, strict=True):
        p.copy_(x)


def flat(modules):
    """Parameters of modules, in order; those of linear layers are weight and bias."""
    parts = [[m] if isinstance(m, torch.nn.Parameter) else list(m.parameters()) for m in modules]
    return [p for part in parts for p in part]

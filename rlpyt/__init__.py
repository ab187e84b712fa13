"""Reinforcement learning on one machine: deep Q-learning, policy gradients, actor-critics."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlpyt.experiments.trained import load as load

__version__ = "1.0.0"


def __getattr__(name: str) -> object:
    """Import ``load`` when it is first used, so that ``import rlpyt`` takes no time."""
    if name == "load":
        from rlpyt.experiments.trained import load

        return load
    raise AttributeError(f"module 'rlpyt' has no attribute {name!r}")

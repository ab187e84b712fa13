"""What a runner is."""

from __future__ import annotations


class BaseRunner:
    """Orchestrates sampler, agent and algorithm; logs and saves."""

    def train(self) -> None:
        """Run the whole training."""
        raise NotImplementedError

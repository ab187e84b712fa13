"""The limiter of the ratio between trained and sampled data in asynchronous runs."""

from __future__ import annotations

import math
from typing import Any

# Batches by which the sampler may be ahead of the optimizer: one for each of its two buffers.
LEAD_ITRS = 2


class RateLimiter:
    """Limiter that makes optimizer and sampler wait for each other, to keep the replay ratio.

    It counts batches of the sampler. The optimizer's n-th iteration (from 0) begins when
    ``first + n * delta`` batches are in the replay buffer. The sampler may be ``LEAD_ITRS`` ahead.

    Args:
        ctrl: semaphores and values that all processes share.
        first: number of batches before training starts.
        delta: number of batches for each iteration of the optimizer.
        n_copied: number of batches in the run before it resumed.

    Attributes:
        itr: number of batches that the next iteration needs; may be fractional.
        n_copied: number of batches in the replay buffer.
    """

    def __init__(self, ctrl: Any, first: float, delta: float, n_copied: int = 0) -> None:
        self.itr = float(first)
        self.delta = delta
        self.n_copied = n_copied
        self._ctrl = ctrl
        self._n_allowed = n_copied
        self._allow()

    def advance(self) -> None:
        """Begin an iteration of the optimizer."""
        self.itr += self.delta
        self._allow()

    def is_due(self) -> bool:
        """Return whether there are enough batches for the next iteration."""
        return self.n_copied >= self.itr

    def wait_for_batch(self, block: bool, timeout: float | None) -> bool:
        """Wait at most ``timeout`` seconds for a batch and count it; return whether it came."""
        if not self._ctrl.batch_copied.acquire(block, timeout):
            return False
        # At the end of the run the semaphore is released without a batch, to wake the optimizer.
        self.n_copied = min(self.n_copied + 1, self._ctrl.sampler_itr.value + 1)
        return True

    def count_batches(self) -> None:
        """Count all batches that have arrived."""
        while self.wait_for_batch(False, None):
            pass

    def _allow(self) -> None:
        """Allow the sampler to fill the batches for the next iteration, and ``LEAD_ITRS`` more."""
        if self._ctrl.may_sample is None:
            return
        n_allowed = math.ceil(self.itr) + LEAD_ITRS
        for _ in range(n_allowed - self._n_allowed):
            self._ctrl.may_sample.release()
        self._n_allowed = n_allowed

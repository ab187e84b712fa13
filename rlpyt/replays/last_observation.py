"""Storage of the observations at which time limits truncated episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays._store import broadcast
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import named_leaves, numpy_leaves
from rlpyt.utils.types import IntArray, Nested


class LastObservationMixin(BaseNStepReturnBuffer):
    """Mixin that stores the last observation of every episode that a time limit truncated.

    If the example has ``last_observation`` (the observation that the environment returned for each
    action), rows with ``timeout`` store it.

    Attributes:
        samples_last_observation: [T,B,...], or None.
    """

    samples_last_observation: Any = None

    def allocate_rows(self, example: Nested) -> None:
        super().allocate_rows(example)
        if "last_observation" in example._fields:
            last = self.store.allocate(example.last_observation, (self.T, self.B))
            self.samples_last_observation = last
            self.stored_rows.update(named_leaves(last, "last_observation"))

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        n_rows, rows = super().append_samples(samples)
        if self.samples_last_observation is not None:
            timeout, *last = numpy_leaves((samples.timeout, samples.last_observation))
            if timeout.shape != (n_rows, self.B):
                timeout = broadcast("timeout", timeout, n_rows, (self.B,))
            t, b = np.nonzero(timeout)
            if len(t):
                entries = tuple(x[t, b] for x in last)
                self.store.put(
                    self.samples_last_observation, np.arange(self.T)[rows][t], b, entries
                )
        return n_rows, rows


def first_of(flags: Any) -> Any:
    """Return the index [...] of the first flag of ``flags`` [n,...] that is not 0; 0 without."""
    return ((flags != 0) * 1).argmax(0)

"""Storage of the observations at which time limits truncated episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays._memory import numpy_dtype
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import as_numpy, leaves, named_leaves, numpy_leaves
from rlpyt.utils.types import IntArray, NDArray, Nested


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
            last = self.allocate(example.last_observation, (self.T, self.B))
            self.samples_last_observation = last
            self.stored_rows.update(named_leaves(last, "last_observation"))

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        n_rows, rows = super().append_samples(samples)
        if self.samples_last_observation is not None:
            timeout = as_numpy(samples.timeout)
            if timeout.shape != (n_rows, self.B):
                timeout = self._broadcast("timeout", timeout, n_rows, ())
            self._store_last(samples.last_observation, timeout, np.arange(self.T)[rows])
        return n_rows, rows

    def _store_last(self, last_observation: Nested, timeout: NDArray, rows: IntArray) -> None:
        """Write the entries of ``last_observation`` [T',B,...] at time limits to ``rows`` [T']."""
        t, b = np.nonzero(timeout)
        if len(t) == 0:
            return
        arrays = leaves(self.samples_last_observation)
        sources = zip(numpy_leaves(last_observation), arrays, strict=True)
        last = [x[t, b].astype(numpy_dtype(array), copy=False) for x, array in sources]
        row, env, *last = self.move(rows[t], b, *last)
        for array, entries in zip(arrays, last):
            array[row, env] = entries


def first_of(flags: Any) -> Any:
    """Return the index [...] of the first True in ``flags`` [n,...]; 0 if there is none."""
    return flags.argmax(0) if isinstance(flags, np.ndarray) else flags.byte().argmax(0)

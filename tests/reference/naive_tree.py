"""Priorities as a dictionary, and draws by a cumulative sum."""

import numpy as np


class NaiveTree:
    """Remembers the priority of every row that was ever appended.

    Rows are numbered from the first one ever appended; row g is in the ring at g % T.
    """

    def __init__(self, T, B, off_backward, off_forward, default_value=1.0, shift=0):
        self.T, self.B = T, B
        self.off_backward, self.off_forward = off_backward, off_forward
        self.default_value = default_value
        self.shift = shift
        self.n_rows = 0
        self.inputs = {}
        self.priorities = {}  # Of rows that are or were on.

    def valid_rows(self):
        first = max(0, self.n_rows - self.T) + self.off_forward
        return range(first, self.n_rows - self.off_backward)

    def advance(self, T, priorities=None):
        for i in range(T):
            for b in range(self.B):
                if priorities is not None:
                    given = np.broadcast_to(priorities, (T, self.B))[i, b]
                    self.inputs[self.n_rows + i - self.shift, b] = given
        self.n_rows += T
        for g in self.valid_rows():
            for b in range(self.B):
                value = self.inputs.get((g, b), self.default_value)
                self.priorities.setdefault((g, b), value)

    def array(self):
        """[T,B] of the priorities that count now."""
        result = np.zeros((self.T, self.B))
        for g in self.valid_rows():
            for b in range(self.B):
                result[g % self.T, b] = self.priorities[g, b]
        return result

    def update(self, T_idxs, B_idxs, values, n_rows_sampled=None):
        """The first of several values for one entry counts; entries that are off stay off.

        The entries are those of the time when ``n_rows_sampled`` rows had been appended.
        """
        n_rows = self.n_rows if n_rows_sampled is None else n_rows_sampled
        seen = set()
        for t, b, value in zip(T_idxs, B_idxs, values, strict=True):
            g = n_rows - 1 - (n_rows - 1 - int(t)) % self.T
            is_on = g in self.valid_rows() and self.priorities[g, int(b)] > 0
            if is_on and (g, b) not in seen:
                self.priorities[g, int(b)] = value
            seen.add((g, b))

    def find(self, random_values):
        """Flat indexes t * B + b at the given parts of the total."""
        sums = np.cumsum(self.array().ravel())
        return np.searchsorted(sums, np.asarray(random_values) * sums[-1], side="right")

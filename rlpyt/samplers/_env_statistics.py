"""Running statistics of all training environments, in memory that processes share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlpyt.core.protocols import EnvLike
from rlpyt.core.statistics import (
    MOMENTS,
    HasStatistics,
    Statistics,
    continue_statistics,
    merged,
    statistics_of,
)
from rlpyt.utils.shared_array import np_mp_array
from rlpyt.utils.types import NDArray


class SharedStatistics:
    """Running statistics of B environments, one row each.

    Workers write the rows of their environments after each batch; every process may read.

    Args:
        example: statistics of one environment, with the names and shapes of all.
        B: number of environments.

    Attributes:
        rows: all rows [B,N], float64.
    """

    def __init__(self, example: Statistics, B: int) -> None:
        self._shapes = {name: np.shape(part["mean"]) for name, part in example.items()}
        # A vector environment writes those of all its parts in one row.
        self._size = sum(2 * int(np.prod(shape)) + 1 for shape in self._shapes.values())
        self.rows: NDArray = np_mp_array((B, self._size), np.float64)

    def write(self, statistics: Iterable[Statistics], columns: slice = slice(None)) -> None:
        """Write the statistics of each environment into its row."""
        for row, given in zip(self.rows[columns], statistics):
            parts = [given[name][key] for name in self._shapes for key in MOMENTS if name in given]
            flat = [np.ravel(part) for part in parts]
            if sum(map(len, flat)) == self._size:
                np.concatenate(flat, out=row)

    def continue_in(self, envs: Iterable[EnvLike], columns: slice = slice(None)) -> None:
        """Let environments count on from their rows: of a worker or a run that was interrupted."""
        for env, row in zip(envs, self.rows[columns]):
            continue_statistics(env, self._of_row(row))

    def merged(self) -> Statistics:
        """Return the statistics of all environments, merged by count."""
        return merged(map(self._of_row, self.rows))

    def _of_row(self, row: NDArray) -> Statistics:
        statistics, start = {}, 0
        for name, shape in self._shapes.items():
            n = int(np.prod(shape))
            mean, var, count = np.split(row[start : start + 2 * n + 1].copy(), [n, 2 * n])
            start += 2 * n + 1
            if count[0] > 0:
                moments = (mean.reshape(shape), var.reshape(shape), count[0])
                statistics[name] = dict(zip(MOMENTS, moments))
        return statistics


def shared_statistics(env: EnvLike, B: int) -> SharedStatistics | None:
    """Return memory for the statistics of B environments such as ``env``; None if it has none."""
    example = statistics_of(env)
    return SharedStatistics(example, B) if example else None


def give_statistics(envs: Iterable[EnvLike], statistics: Statistics) -> None:
    """Let environments use ``statistics``, frozen."""
    for env in envs:
        if statistics and isinstance(env, HasStatistics):
            env.use_statistics(statistics)

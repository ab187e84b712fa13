"""Kept for programs of rlpyt 0.1.2; nothing here uses it.

Selection, one-hot vectors, masked means and leading dimensions of numpy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.utils.types import NDArray


def select_at_indexes(indexes: Any, array: NDArray) -> NDArray:
    """Pick one entry along the first dimension after the dimensions of ``indexes``.

    Args:
        indexes: integers [...], e.g. actions [T,B]; may have no dimension.
        array: entries [..., n, *shape] to pick from.

    Returns:
        Entries [..., *shape], ``array[i, indexes[i]]`` at every position i.

    Raises:
        ValueError: if ``array`` does not begin with the dimensions of ``indexes``.
    """
    indexes = np.asarray(indexes)
    n_dim = indexes.ndim
    if array.shape[:n_dim] != indexes.shape or array.ndim == n_dim:
        raise ValueError(
            f"array of shape {array.shape} must have the dimensions of indexes, {indexes.shape}, "
            "and one more to pick from"
        )
    at = indexes.reshape(indexes.shape + (1,) * (array.ndim - n_dim))
    return np.take_along_axis(array, at, axis=n_dim).squeeze(axis=n_dim)


def to_onehot(indexes: Any, dim: int, dtype: Any = None) -> NDArray:
    """Return one-hot vectors.

    Args:
        indexes: integers [...] from 0 to dim - 1.
        dim: length of the vectors.
        dtype: type of the result; by default the type of ``indexes``.

    Returns:
        One-hot vectors [..., dim].
    """
    indexes = np.asarray(indexes)
    onehot = np.zeros((indexes.size, dim), dtype=indexes.dtype if dtype is None else dtype)
    onehot[np.arange(indexes.size), indexes.ravel()] = 1
    return onehot.reshape(indexes.shape + (dim,))


def from_onehot(onehot: NDArray, dtype: Any = None) -> NDArray:
    """Return the indexes [...] of vectors [..., dim], in ``dtype`` or numpy's index type."""
    return np.asarray(np.argmax(onehot, axis=-1), dtype=dtype)


def valid_mean(array: NDArray, valid: NDArray | None = None, axis: Any = None) -> Any:
    """Return the mean over the entries that count.

        sum(array * valid) / sum(valid)

    Args:
        array: numbers [...].
        valid: mask [...], 1 where the entry counts, 0 elsewhere; None to count all.
        axis: axis or axes to reduce; None for all.

    Returns:
        The mean; NaN where no entry is valid.

    Raises:
        ValueError: if an axis of ``valid`` is neither that of ``array`` nor 1.
    """
    if valid is None:
        return array.mean(axis=axis)
    weight = np.broadcast_to(valid, array.shape).astype(array.dtype)
    with np.errstate(invalid="ignore"):
        return (array * weight).sum(axis=axis) / weight.sum(axis=axis)


def infer_leading_dims(array: NDArray, dim: int) -> tuple[int, int, tuple[int, ...], bool, bool]:
    """Return the leading dimensions [], [B] or [T,B] of an array, and the shape of its data.

    Args:
        array: data [...], [B,...] or [T,B,...].
        dim: number of dimensions of one datum.

    Returns:
        T, B (1 where missing), shape of one datum, has_T, has_B.

    Raises:
        ValueError: if there are not 0, 1 or 2 leading dimensions.
    """
    lead_dim = array.ndim - dim
    if lead_dim not in (0, 1, 2):
        raise ValueError(
            f"array of shape {array.shape} must have {dim} data dimensions after [], [B] or [T,B]"
        )
    T, B = ((1, 1) + array.shape[:lead_dim])[-2:]
    return T, B, array.shape[lead_dim:], lead_dim == 2, lead_dim > 0

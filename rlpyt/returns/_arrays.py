"""How numpy arrays and torch tensors reach the compiled recursions, and how results come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.utils.types import Array, NDArray


def as_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """View a time-major ``array`` [T,...] as numpy [T,N]; a single row if ``shape`` has T = 1.

    Args:
        name: of the argument, for errors.
        array: numpy or torch, on any device.
        shape: expected shape [T,...]; None to accept any with at least one dimension.

    Raises:
        ValueError: if the shape differs, or a tensor is part of a graph (returns are targets).
    """
    if isinstance(array, torch.Tensor):
        if array.requires_grad:
            raise ValueError(f"{name} requires grad, but returns are targets: pass {name}.detach()")
        array = array.cpu().numpy()
    rows = np.asarray(array)
    if shape is None:
        shape = rows.shape
    if rows.shape != shape and rows.size != np.prod(shape, dtype=int):
        raise ValueError(f"{name} has shape {rows.shape}, expected {shape}, the shape of reward")
    if not shape:
        raise ValueError(f"{name} needs a leading time dimension, got a scalar")
    width = int(np.prod(shape[1:], dtype=int))
    # Contiguous, so that every caller meets the same compiled specialisation.
    return np.ascontiguousarray(rows.reshape(shape[0], width))


def as_float_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """Like :func:`as_rows`, integers and booleans turned into float64."""
    rows = as_rows(name, array, shape)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def as_flag_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """Like :func:`as_rows`, any numeric flag turned into bool."""
    return as_rows(name, array, shape).astype(np.bool_, copy=False)


def like(result: NDArray, shape: tuple[int, ...], example: Any, dest: Array | None) -> Any:
    """Give ``result`` the shape and kind (numpy; torch and device) of ``example``.

    Args:
        result: [T,N].
        shape: to return.
        example: the argument whose kind the caller expects back.
        dest: if given, the result is written there and ``dest`` is returned.
    """
    shaped = result.reshape(shape)
    if isinstance(dest, torch.Tensor):
        return dest.copy_(torch.from_numpy(shaped))
    if dest is not None:
        dest[:] = shaped
        return dest
    if isinstance(example, torch.Tensor):
        return torch.from_numpy(shaped).to(example.device)
    return shaped

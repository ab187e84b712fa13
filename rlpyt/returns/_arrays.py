"""Conversion of numpy arrays and torch tensors to the rows of compiled recursions, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.utils.types import Array, NDArray


def as_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """View a time-major ``array`` [T,...] as numpy [T,N]; a single row if ``shape`` has T = 1.

    Args:
        name: argument named in errors.
        array: numpy or torch, on any device.
        shape: expected shape [T,...]; None to accept any with at least one dimension.

    Raises:
        ValueError: if the shape differs, or a tensor is part of a graph (returns are targets).
    """
    if isinstance(array, torch.Tensor):
        if array.requires_grad:
            raise ValueError(f"{name} requires grad, but returns are targets: pass {name}.detach()")
        # numpy has no bfloat16.
        array = (array.float() if array.dtype == torch.bfloat16 else array).cpu().numpy()
    rows = np.asarray(array)
    shape = rows.shape if shape is None else shape
    if not shape:
        raise ValueError(f"{name} needs a leading time dimension, got a scalar")
    # One row for all time steps, as [B,...] or a scalar, is meant; one column less is a mistake.
    if rows.shape != shape and shape[0] > 1 and rows.ndim != len(shape):
        raise ValueError(f"{name} has shape {rows.shape}, expected {shape}, time first")
    try:
        rows = np.broadcast_to(rows, shape)
    except ValueError:
        raise ValueError(f"{name} has shape {rows.shape}, expected {shape}, time first") from None
    width = int(np.prod(shape[1:], dtype=int))
    # Contiguous, so that every caller meets the same compiled specialisation.
    return np.ascontiguousarray(rows.reshape(shape[0], width))


def as_float_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """Convert like :func:`as_rows`; integers and booleans become float64, float16 float32."""
    rows = as_rows(name, array, shape)
    if rows.dtype == np.float16:  # Compiled loops do not know it.
        return rows.astype(np.float32)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def as_flag_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """Convert like :func:`as_rows`; numeric flags become bool."""
    return as_rows(name, array, shape).astype(np.bool_, copy=False)


def like(result: NDArray, shape: tuple[int, ...], example: Any, dest: Array | None) -> Any:
    """Give ``result`` the shape and kind (numpy; torch and device) of ``example``, and its dtype.

    Args:
        result: [T,N] flags or numbers; numbers stay float where the example has integers.
        shape: shape of the returned array.
        example: argument that has the kind the caller expects back.
        dest: array to write the result into and return, optional.
    """
    shaped = result.reshape(shape)
    if isinstance(dest, torch.Tensor):
        return dest.copy_(torch.from_numpy(shaped))
    if dest is not None:
        dest[:] = shaped
        return dest
    is_flags = result.dtype == np.bool_
    if isinstance(example, torch.Tensor):
        moved = torch.from_numpy(shaped).to(example.device)
        return moved.to(example.dtype) if is_flags or example.is_floating_point() else moved
    if is_flags or example.dtype.kind == "f":
        return shaped.astype(example.dtype, copy=False)
    return shaped

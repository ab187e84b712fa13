"""Functions of torch tensors: selection, one-hot vectors, means, dimensions, values to log."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    Shape = torch.Size
else:
    Shape = list[int]  # What a shape is to torch.jit.script.


def select_at_indexes(indexes: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Pick one entry along the first dimension after the dimensions of ``indexes``.

    Args:
        indexes: integers [...] from 0 to n - 1, e.g. actions [T,B]; may have no dimension.
        tensor: entries [..., n, *shape] to pick from.

    Returns:
        Entries [..., *shape], ``tensor[i, indexes[i]]`` at every position i.

    Raises:
        ValueError: if ``tensor`` does not begin with the dimensions of ``indexes``.
    """
    n_dim = indexes.dim()
    if tensor.shape[:n_dim] != indexes.shape or tensor.dim() == n_dim:
        raise ValueError(
            f"tensor of shape {list(tensor.shape)} must have the dimensions of indexes, "
            f"{list(indexes.shape)}, and one more to pick from"
        )
    at = indexes.long()
    for _ in range(tensor.dim() - n_dim):
        at = at.unsqueeze(-1)
    size = list(tensor.shape)
    size[n_dim] = 1
    at = at.expand(size)
    # Gather, unlike indexing with several tensors, has a fast backward pass.
    return tensor.gather(n_dim, at).squeeze(n_dim)


def to_onehot(indexes: torch.Tensor, num: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return one-hot vectors, on the device of ``indexes``.

    Args:
        indexes: integers [...] from 0 to num - 1.
        num: length of the vectors.
        dtype: type of the result; by default the type of ``indexes``.

    Returns:
        One-hot vectors [..., num].
    """
    onehot = torch.zeros(
        indexes.shape + (num,), dtype=dtype or indexes.dtype, device=indexes.device
    )
    return onehot.scatter_(-1, indexes.unsqueeze(-1).long(), 1)


def from_onehot(
    onehot: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return the indexes of the ones along ``dim``, in ``dtype`` or int64."""
    indexes = torch.argmax(onehot, dim=dim)
    return indexes if dtype is None else indexes.to(dtype)


def valid_mean(
    tensor: torch.Tensor,
    valid: torch.Tensor | None = None,
    dim: int | tuple[int, ...] | None = None,
) -> torch.Tensor:
    """Return the mean over the entries that count.

        sum(tensor * valid) / sum(valid)

    Args:
        tensor: numbers [...].
        valid: mask [...], 1 where the entry counts, 0 elsewhere; None to count all.
        dim: dimension or dimensions to reduce; None for all.

    Returns:
        The mean; NaN where no entry is valid.

    Raises:
        ValueError: if an axis of ``valid`` is neither that of ``tensor`` nor 1.
    """
    if valid is None:
        return tensor.mean() if dim is None else tensor.mean(dim=dim)
    if valid.shape != tensor.shape:
        valid = _expanded(valid, tensor.shape)
    valid = valid.to(tensor.dtype)
    if dim is None:
        return (tensor * valid).sum() / valid.sum()
    return (tensor * valid).sum(dim=dim) / valid.sum(dim=dim)


def _expanded(valid: torch.Tensor, shape: Shape) -> torch.Tensor:
    try:
        return valid.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"valid has shape {tuple(valid.shape)}, but tensor has {tuple(shape)}: give every "
            "entry, or axis, its flag"
        ) from None


def infer_leading_dims(tensor: torch.Tensor, dim: int) -> tuple[int, int, int, Shape]:
    """Return the leading dimensions [], [B] or [T,B] of a tensor, and the shape of its data.

    Args:
        tensor: data [...], [B,...] or [T,B,...].
        dim: number of dimensions of one datum.

    Returns:
        Number of leading dimensions, T, B (1 where missing), shape of one datum.

    Raises:
        ValueError: if there are not 0, 1 or 2 leading dimensions.
    """
    shape = tensor.shape
    lead_dim = len(shape) - dim
    if lead_dim == 2:
        return 2, shape[0], shape[1], shape[2:]
    if lead_dim == 1:
        return 1, 1, shape[0], shape[1:]
    if lead_dim == 0:
        return 0, 1, 1, shape
    raise ValueError(
        f"tensor of shape {list(shape)} must have {dim} data dimensions after [], [B] or [T,B]"
    )


def restore_leading_dims(tensors: Any, lead_dim: int, T: int = 1, B: int = 1) -> Any:
    """Restore the leading dimensions of the input in outputs computed as one batch [T*B].

    Args:
        tensors: tensor [T*B, ...], or a tuple or list of such tensors.
        lead_dim: number of leading dimensions from :func:`infer_leading_dims`.
        T: number of time steps.
        B: number of environments.

    Returns:
        Tensor [...], [B,...] or [T,B,...]; a tuple of them if several were given.

    Raises:
        ValueError: if ``lead_dim`` is 0 but there is more than one datum.
    """
    if isinstance(tensors, (tuple, list)):
        return tuple(restore_leading_dims(tensor, lead_dim, T, B) for tensor in tensors)
    if lead_dim == 2:
        return tensors.reshape((T, B) + tensors.shape[1:])
    if lead_dim == 1:
        return tensors
    if B != 1:
        raise ValueError(
            f"B is {B}, but lead_dim={lead_dim} stands for one datum without batch: pass B=1, or "
            "the lead_dim from infer_leading_dims"
        )
    return tensors.squeeze(0)


class LeadingDims(NamedTuple):
    """Leading dimensions [], [B] or [T,B] that were folded into one."""

    n: int  # 0, 1 or 2
    T: int  # 1 where absent
    B: int  # 1 where absent

    def restore(self, output: torch.Tensor) -> torch.Tensor:
        """Restore the leading dimensions [T,B,...] of the input in an output [T*B,...]."""
        restored: torch.Tensor = restore_leading_dims(output, self.n, self.T, self.B)
        return restored

    def restore_each(self, *outputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Restore the leading dimensions of the input in several outputs [T*B,...]."""
        return outputs if self.n == 1 else tuple(map(self.restore, outputs))


def fold_leading_dims(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, LeadingDims]:
    """Fold the leading dimensions [], [B] or [T,B] of a tensor into one batch.

    Args:
        x: tensor [...], [B,...] or [T,B,...].
        dim: number of dimensions of one datum.

    Returns:
        The data [T*B,...], and the leading dimensions to restore.

    Raises:
        ValueError: if there are not 0, 1 or 2 leading dimensions.
    """
    n, T, B, shape = infer_leading_dims(x, dim)
    folded = x if n == 1 else x.reshape(T * B, *shape)
    return folded, LeadingDims(n, T, B)


def fold_vectors(observation: torch.Tensor, dim: int) -> tuple[torch.Tensor, LeadingDims]:
    """Fold observations [...], [B,...] or [T,B,...] into a batch of flat float vectors.

    Args:
        observation: tensor of any type.
        dim: number of dimensions of one observation.

    Returns:
        The vectors [T*B,size], and the leading dimensions to restore.
    """
    folded, lead = fold_leading_dims(observation, dim)
    flat = folded if dim == 1 else folded.reshape(lead.T * lead.B, -1)
    return as_float(flat), lead


def as_float(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` in a type that networks take.

    Integers, float32 and float64, which may not fit the weights, get torch's default type. Types of
    autocast stay.
    """
    default = torch.get_default_dtype()
    is_kept = x.dtype in (default, torch.float16, torch.bfloat16)
    return x if is_kept else x.to(default)


def thinned(value: torch.Tensor, stride: int) -> torch.Tensor:
    """Return about every ``stride``-th element [n], or the scalar ``value``."""
    # The elements would all be of one column if a stride divided the number of columns.
    while value.dim() > 1 and math.gcd(stride, max(1, value.numel())) > 1:
        stride += 1
    return value.reshape(-1)[::stride] if value.dim() else value


def numbers_of(tensors: list[torch.Tensor]) -> list[list[float]]:
    """Return the elements of each tensor, by one transfer from each device."""
    numbers: list[list[float]] = [[] for _ in tensors]
    devices = [tensor.device for tensor in tensors]
    for device in set(devices):
        places = [i for i, other in enumerate(devices) if other == device]
        values = iter(torch.cat([tensors[i].reshape(-1) for i in places]).tolist())
        for i in places:
            numbers[i] = list(islice(values, tensors[i].numel()))
    return numbers

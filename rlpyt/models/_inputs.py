"""From observations with zero to two leading dimensions to one batch for a network, and back."""

from __future__ import annotations

from typing import NamedTuple

import torch

from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class LeadingDims(NamedTuple):
    """The leading dimensions that were folded into one: [], [B] or [T,B]."""

    n: int  # 0, 1 or 2
    T: int  # 1 where absent
    B: int  # 1 where absent

    def restore(self, output: torch.Tensor) -> torch.Tensor:
        """Give the outputs [T*B,...] of a network the leading dimensions of its input."""
        restored: torch.Tensor = restore_leading_dims(output, self.n, self.T, self.B)
        return restored


def fold(x: torch.Tensor, n_dim: int) -> tuple[torch.Tensor, LeadingDims]:
    """Fold the leading dimensions of ``x``, whose data have ``n_dim`` dimensions, into one.

    Returns:
        [T*B,...] the data, and the leading dimensions they had.

    Raises:
        ValueError: If the number of leading dimensions is not 0, 1 or 2.
    """
    n_lead, T, B, shape = infer_leading_dims(x, n_dim)
    folded = x if n_lead == 1 else x.reshape(T * B, *shape)
    return folded, LeadingDims(n_lead, T, B)


def fold_images(images: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
    """Make one batch of images of [C,H,W], [B,C,H,W] or [T,B,C,H,W].

    uint8 images, 0 to 255, stay so: the convolutions scale them. Any other type is taken to be
    scaled already, and becomes floating point.

    On the CPU, when gradients will be computed, the result is laid out with the channels last:
    the same numbers in an order in which the convolutions' backward pass is faster.
    """
    images, lead = fold(images, 3)
    if torch.is_grad_enabled() and images.device.type == "cpu":
        images = _with_channels_last(images)
    return images if images.dtype == torch.uint8 else _floating(images), lead


def _with_channels_last(images: torch.Tensor) -> torch.Tensor:
    """[B,C,H,W] with the channels adjacent in memory."""
    if images.dtype != torch.uint8 or images.shape[1] > 12:
        return images.contiguous(memory_format=torch.channels_last)
    # Bytes in few channels: more than twice as fast as torch's way, which moves one at a time.
    return torch.stack(images.unbind(1), dim=-1).permute(0, 3, 1, 2)


def fold_vectors(observation: torch.Tensor, n_dim: int) -> tuple[torch.Tensor, LeadingDims]:
    """Make one batch of flat float vectors of observations with ``n_dim`` dimensions."""
    folded, lead = fold(observation, n_dim)
    flat = folded if n_dim == 1 else folded.reshape(lead.T * lead.B, -1)
    return _floating(flat), lead


def _floating(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() else x.float()

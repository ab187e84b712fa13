"""Conversion between indexes and one-hot vectors, for distributions over discrete actions."""

from __future__ import annotations

import torch

from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.tensor import from_onehot, to_onehot


class DiscreteMixin:
    """Mixin of discrete distributions: the number of actions, conversion to and from one-hot.

    Args:
        dim: number of actions A.
        dtype: type of action indexes.
        onehot_dtype: type of one-hot vectors.
    """

    __signature__ = ConstructorSignature()

    def __init__(
        self,
        dim: int,
        dtype: torch.dtype = torch.long,
        onehot_dtype: torch.dtype = torch.float,
    ) -> None:
        self._dim = dim
        self.dtype = dtype
        self.onehot_dtype = onehot_dtype

    @property
    def dim(self) -> int:
        """Number of actions A."""
        return self._dim

    def check_width(self, x: torch.Tensor) -> None:
        """Raise ``ValueError`` unless ``x`` [...,A] has an entry for each action."""
        if x.shape[-1] != self._dim:
            raise ValueError(
                f"the model returned {x.shape[-1]} values for {self._dim} actions, in a tensor of "
                f"shape {tuple(x.shape)}: give its last layer {self._dim} outputs"
            )

    def to_onehot(self, indexes: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return one-hot vectors [...,A] of ``indexes`` [...], of ``onehot_dtype`` by default."""
        return to_onehot(indexes, self.dim, dtype=dtype or self.onehot_dtype)

    def from_onehot(self, onehot: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the actions [...] of one-hot vectors [...,A], of the type ``dtype`` by default."""
        return from_onehot(onehot, dtype=dtype or self.dtype)

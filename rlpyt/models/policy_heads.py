"""Policy heads, built for the action space of an environment.

A policy head turns features into the parameters of a distribution over actions, as a tuple of
tensors; for records, a tuple of such tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import torch

from rlpyt.models.space_kinds import Box, Choices, Fields, Kind, action_kind
from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.tensor import LeadingDims, as_float
from rlpyt.utils.types import NDArray, Nested


class ChoiceHead(torch.nn.Module):
    """Probabilities of choices, ``[N,*shape,n]``; zero for choices that an entry does not have.

    Args:
        input_size: number of features.
        nvec: number of choices of each entry; n is the largest.
    """

    missing: torch.Tensor | None

    def __init__(self, input_size: int, nvec: NDArray) -> None:
        super().__init__()
        n = int(nvec.max())
        self._shape = (*nvec.shape, n)
        self.encoding_size = int(nvec.size) * n
        self.linear = _small_linear(input_size, self.encoding_size)
        missing = torch.as_tensor(np.arange(n) >= nvec[..., None])
        self.register_buffer("missing", missing if missing.any() else None, persistent=False)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor]:
        """Map features [N,input_size] to the probabilities."""
        logits = self.linear(features).reshape(-1, *self._shape)
        if self.missing is not None:
            logits = logits.masked_fill(self.missing, -float("inf"))
        return (torch.softmax(logits, dim=-1),)


class GaussianHead(torch.nn.Module):
    """Mean and log standard deviation, ``[N,A]`` each, in units of half the action's range.

    The mean is within (-1, 1) where there are bounds. The deviation is independent of observations.

    Args:
        input_size: number of features.
        box: bounds and shape of an action; A is its number of entries.
        init_log_std: initial value of the log standard deviation.
    """

    bounded: torch.Tensor

    def __init__(self, input_size: int, box: Box, init_log_std: float) -> None:
        super().__init__()
        self.encoding_size = int(box.low.size)
        self.linear = _small_linear(input_size, self.encoding_size)
        self.log_std = torch.nn.Parameter(torch.full((self.encoding_size,), float(init_log_std)))
        bounded = torch.from_numpy((np.isfinite(box.low) & np.isfinite(box.high)).reshape(-1))
        self.register_buffer("bounded", bounded, persistent=False)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map features [N,input_size] to the mean and the log standard deviation."""
        mean = self.linear(features)
        mean = torch.where(self.bounded, torch.tanh(mean), mean)
        # A copy: a view made without gradients would still count as requiring them.
        return mean, self.log_std.expand(mean.shape[0], -1).clone()


class RecordHead(torch.nn.Module):
    """One head for each field of a record.

    Args:
        heads: heads of the fields, in order.
    """

    def __init__(self, heads: Sequence[Any]) -> None:
        super().__init__()
        self.heads = torch.nn.ModuleList(heads)
        self.encoding_size = sum(head.encoding_size for head in heads)

    def forward(self, features: torch.Tensor) -> tuple[Nested, ...]:
        """Return the outputs of all heads."""
        return tuple(head(features) for head in self.heads)


PolicyHead = Union[ChoiceHead, GaussianHead, RecordHead]


def make_policy_head(space: Any, input_size: int, init_log_std: float) -> PolicyHead:
    """Return the policy head for an action space.

    Initial outputs are near zero: an almost uniform choice, or the middle of a box.

    Args:
        space: action space.
        input_size: number of features.
        init_log_std: initial value of the log standard deviation of continuous actions.

    Raises:
        ValueError: if the space is of an unknown kind.

    Source: small outputs: Andrychowicz et al. 2021, arXiv:2006.05990, section 3.2.
    """
    return _policy_head(action_kind(space), input_size, init_log_std)


def _policy_head(kind: Kind, input_size: int, init_log_std: float) -> PolicyHead:
    if isinstance(kind, Fields):
        return RecordHead([_policy_head(part, input_size, init_log_std) for part in kind.kinds])
    if isinstance(kind, Choices):
        return ChoiceHead(input_size, kind.nvec)
    return GaussianHead(input_size, kind, init_log_std)


def _small_linear(input_size: int, output_size: int) -> torch.nn.Linear:
    linear = torch.nn.Linear(input_size, output_size)
    with torch.no_grad():
        linear.weight.mul_(0.01)
        linear.bias.zero_()
    return linear


def restore_all(outputs: Nested, lead: LeadingDims) -> Nested:
    """Restore the leading dimensions of the input in nested outputs [T*B,...]."""
    return map_buffer(lead.restore, outputs)


def join_encoded_action(action: Nested, lead: LeadingDims) -> torch.Tensor:
    """Join the parts of an encoded action, [...,*] each, into vectors [T*B,encoding_size]."""
    parts: list[torch.Tensor] = []
    map_buffer(lambda part: parts.append(as_float(part).reshape(lead.T * lead.B, -1)), action)
    return torch.cat(parts, dim=-1)

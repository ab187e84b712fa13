"""What the outputs of a model mean for an action space: one class for each kind of actions.

A model returns the parameters of its policy in a plain form, such as probabilities. A policy makes
the ``dist_info`` of them, holds the distribution which that belongs to, and turns past actions into
numbers for a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.distributions.base import Distribution
from rlpyt.distributions.box_gaussian import BoxGaussian
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.gaussian import DistInfoStd
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.models._space_kinds import Box, Fields, Kind, action_kind
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import Nested


class Policy:
    """How an agent uses its distribution.

    Attributes:
        distribution: of actions.
    """

    distribution: Distribution

    def dist_info(self, *parameters: Nested) -> Nested:
        """The record of parameters of the distribution, of the outputs of a model."""
        raise NotImplementedError

    def encode(self, action: Nested) -> Nested:
        """Actions as numbers for a network, with the same leading dimensions."""
        raise NotImplementedError

    def mode(self, dist_info: Nested) -> Nested:
        """The most likely actions."""
        raise NotImplementedError


class ChoicePolicy(Policy):
    """Choices by their probabilities; networks see one-hot vectors."""

    def __init__(self, distribution: Categorical | MultiCategorical) -> None:
        self.distribution: Categorical | MultiCategorical = distribution

    def dist_info(self, prob: torch.Tensor) -> DistInfo:
        return DistInfo(prob=prob)

    def encode(self, action: torch.Tensor) -> torch.Tensor:
        return self.distribution.to_onehot(action)

    def mode(self, dist_info: DistInfo) -> torch.Tensor:
        return torch.argmax(dist_info.prob, dim=-1)


class GaussianPolicy(Policy):
    """Real numbers by mean and log standard deviation; networks see every box as [-1, 1]."""

    def __init__(self, distribution: BoxGaussian) -> None:
        self.distribution: BoxGaussian = distribution

    def dist_info(self, mean: torch.Tensor, log_std: torch.Tensor) -> DistInfoStd:
        return self.distribution.scaled(mean, log_std)

    def encode(self, action: torch.Tensor) -> torch.Tensor:
        return self.distribution.unscaled(action)

    def mode(self, dist_info: DistInfoStd) -> torch.Tensor:
        return self.distribution.mode(dist_info)


class CompositePolicy(Policy):
    """One policy for each field of a record, given a tuple of parameters for each."""

    def __init__(self, names: Sequence[str], policies: Sequence[Policy]) -> None:
        self._policies = list(policies)
        self._names = tuple(names)
        self.distribution = CompositeDistribution(names, [p.distribution for p in policies])

    def dist_info(self, *parameters: Nested) -> Nested:
        DistInfoCls = record_class("DistInfo", self._names)
        return DistInfoCls(*[p.dist_info(*x) for p, x in zip(self._policies, parameters)])

    def encode(self, action: Nested) -> Nested:
        return self._action([p.encode(x) for p, x in zip(self._policies, action)])

    def mode(self, dist_info: Nested) -> Nested:
        return self._action([p.mode(x) for p, x in zip(self._policies, dist_info)])

    def _action(self, parts: Sequence[Nested]) -> Nested:
        # The class is not kept, since classes made at run time cannot be pickled.
        return record_class("Action", self._names)(*parts)


def gaussian_policy(agent_name: str, space: Any, scale: bool, clip: bool) -> Policy:
    """Make the policy for an array of real numbers.

    Args:
        agent_name: for the error.
        space: of actions.
        scale: whether outputs of the model are scaled to the bounds.
        clip: whether actions are clipped to the bounds.

    Raises:
        ValueError: if the space is another one.
    """
    kind = action_kind(space)
    if not isinstance(kind, Box):
        raise ValueError(
            f"{agent_name} needs continuous actions, an array of real numbers, but the action "
            f"space is {space}: use a categorical agent, or GenericFfAgent, which takes any"
        )
    return _policy(kind, scale, clip)


def make_policy(space: Any, scale: bool, clip: bool) -> Policy:
    """Make the policy for any action space.

    Args:
        space: of actions: choices, real numbers, or a record of such.
        scale: whether outputs of the model are scaled to the bounds of real numbers.
        clip: whether real numbers are clipped to their bounds.

    Raises:
        ValueError: if the space is of an unknown kind.
    """
    return _policy(action_kind(space), scale, clip)


def _policy(kind: Kind, scale: bool, clip: bool) -> Policy:
    if isinstance(kind, Fields):
        return CompositePolicy(kind.names, [_policy(part, scale, clip) for part in kind.kinds])
    if isinstance(kind, Box):
        return GaussianPolicy(
            BoxGaussian(kind.low, kind.high, scale_to_box=scale, clip_to_box=clip)
        )
    if kind.nvec.ndim == 0:
        return ChoicePolicy(Categorical(dim=int(kind.nvec)))
    return ChoicePolicy(MultiCategorical(kind.nvec))

"""Policy gradient agents for continuous actions."""

from __future__ import annotations

from typing import Any

import numpy as np  # noqa: F401 - star imports take it from here.
import torch as torch

from rlpyt.agents.base import (
    AgentStep as AgentStep,
    AlternatingRecurrentAgentMixin as AlternatingRecurrentAgentMixin,
    BaseAgent as BaseAgent,
    RecurrentAgentMixin as RecurrentAgentMixin,
)
from rlpyt.agents.pg.base import (
    AgentInfo as AgentInfo,
    AgentInfoRnn as AgentInfoRnn,
    FeedForwardPgAgent,
    Policy,
    PolicyAgent,
    RecurrentPgAgent,
    gaussian_policy,
)
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.gaussian import DistInfoStd as DistInfoStd, Gaussian as Gaussian
from rlpyt.utils.buffer import (
    buffer_func as buffer_func,
    buffer_method as buffer_method,
    buffer_to as buffer_to,
)


class BoxActionMixin(PolicyAgent):
    """What becomes of the bounds of continuous actions; stands before the agent among the bases.

    Bounds may differ from -1 and 1, from each other, and between dimensions. The model works in
    units in which every range is [-1, 1]: that is where its mean is 0, its deviation is 1 and where
    it sees the previous action. For an action space of [-1, 1] all options leave that as it is.

    Args:
        *args: of the agent class.
        scale_actions: False if the model works in the units of the environment, as it always does
            in subclasses of the Gaussian agents with a ``__call__``, ``step`` or ``value`` of their
            own.
        clip_actions: whether actions are clipped to the bounds before they are recorded and given
            to the environment; likelihoods account for it, see
            :class:`~rlpyt.distributions.box_gaussian.BoxGaussian`. False: they may exceed the
            bounds, and the environment has to know what to do.
        **kwargs: of the agent class.
    """

    scale_actions = True
    clip_actions = True

    def __init__(
        self, *args: Any, scale_actions: bool = True, clip_actions: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.scale_actions = scale_actions
        self.clip_actions = clip_actions


class _GaussianMixin(BoxActionMixin):
    """Acts by mean and deviation of a Gaussian."""

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        """Make the policy; it scales nothing if a subclass calls the model in a method of its own.

        Such a method may take what the model returns for actions, as in rlpyt 0.1.2, and then all
        others have to: acting and training would mean different policies.
        """
        name, space = type(self).__name__, env_spaces.action
        cls = type(self)
        methods = cls.__call__, cls.step, cls.value
        is_ours = methods in (_methods(FeedForwardPgAgent), _methods(RecurrentPgAgent))
        scale = self.scale_actions and is_ours
        return gaussian_policy(name, space, scale, self.clip_actions)


def _methods(cls: type[FeedForwardPgAgent | RecurrentPgAgent]) -> tuple[object, ...]:
    return cls.__call__, cls.step, cls.value


class GaussianPgAgent(_GaussianMixin, FeedForwardPgAgent):
    """Acts by mean and deviation of a Gaussian.

    The model returns mu [...,A], log_std [...,A] and v [...]. For the bounds of actions see
    :class:`BoxActionMixin`.
    """


class RecurrentGaussianPgAgentBase(_GaussianMixin, RecurrentPgAgent):
    """Acts by mean and deviation, and remembers; needs a mixin which keeps the state.

    The model returns mu [...,A], log_std [...,A], v [...] and the recurrent state [N,B,H].
    """


class RecurrentGaussianPgAgent(RecurrentAgentMixin, RecurrentGaussianPgAgentBase):
    """:class:`RecurrentGaussianPgAgentBase` with one state for all environments."""


class AlternatingRecurrentGaussianPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentGaussianPgAgentBase
):
    """:class:`RecurrentGaussianPgAgentBase` for samplers which step halves in turn."""

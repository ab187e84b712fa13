"""Recurrent DQN agents for Atari games."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent, R2d1AlternatingAgent
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model


class AtariR2d1Agent(AtariMixin, R2d1Agent):
    """:class:`~rlpyt.agents.dqn.r2d1_agent.R2d1Agent` with the recurrent network for images."""

    def __init__(self, ModelCls: Any = AtariR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AtariR2d1AlternatingAgent(AtariMixin, R2d1AlternatingAgent):
    """:class:`AtariR2d1Agent` for alternating sampling."""

    def __init__(self, ModelCls: Any = AtariR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

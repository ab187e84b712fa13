"""Implicit quantile network agent for Atari games."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.iqn_agent import IqnAgent
from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel


class AtariIqnAgent(AtariMixin, IqnAgent):
    """:class:`~rlpyt.agents.dqn.iqn_agent.IqnAgent` with the network for images."""

    def __init__(self, ModelCls: Any = AtariIqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

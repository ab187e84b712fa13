"""Quantile regression DQN agent for Atari games."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.qrdqn_agent import QrDqnAgent
from rlpyt.models.dqn.atari_qrdqn_model import AtariQrDqnModel


class AtariQrDqnAgent(AtariMixin, QrDqnAgent):
    """:class:`~rlpyt.agents.dqn.qrdqn_agent.QrDqnAgent` with the network for images."""

    def __init__(self, ModelCls: Any = AtariQrDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

"""Parallelised Q-network agents for Atari games."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.pqn_agent import PqnAgent, RecurrentPqnAgentBase
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model


class AtariPqnAgent(AtariMixin, PqnAgent):
    """:class:`~rlpyt.agents.dqn.pqn_agent.PqnAgent` with the network for images."""

    def __init__(self, ModelCls: Any = AtariDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AtariPqnLstmAgent(AtariMixin, RecurrentAgentMixin, RecurrentPqnAgentBase):
    """:class:`AtariPqnAgent` with memory: an LSTM after the convolutions."""

    def __init__(self, ModelCls: Any = AtariR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingAtariPqnLstmAgent(
    AtariMixin, AlternatingRecurrentAgentMixin, RecurrentPqnAgentBase
):
    """:class:`AtariPqnLstmAgent` for alternating sampling."""

    def __init__(self, ModelCls: Any = AtariR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

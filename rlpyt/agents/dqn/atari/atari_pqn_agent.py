"""Parallelised Q-network agent for Atari games."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.pqn_agent import PqnAgent
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel


class AtariPqnAgent(AtariMixin, PqnAgent):
    """:class:`~rlpyt.agents.dqn.pqn_agent.PqnAgent` with the network for images.

    Layers are normalized unless ``model_kwargs`` has ``layer_norm=False``.
    """

    def __init__(self, ModelCls: Any = AtariDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
        if self.ModelCls is AtariDqnModel:
            self.model_kwargs = {"layer_norm": True, **self.model_kwargs}

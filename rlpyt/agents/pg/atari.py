"""Policy gradient agents for Atari games."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin as AtariMixin
from rlpyt.agents.pg.categorical import (
    AlternatingRecurrentCategoricalPgAgent,
    CategoricalPgAgent,
    RecurrentCategoricalPgAgent,
)
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel


class AtariFfAgent(AtariMixin, CategoricalPgAgent):
    """:class:`~rlpyt.agents.pg.categorical.CategoricalPgAgent` with convolutions for images."""

    def __init__(self, ModelCls: Any = AtariFfModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AtariLstmAgent(AtariMixin, RecurrentCategoricalPgAgent):
    """:class:`AtariFfAgent` with an LSTM."""

    def __init__(self, ModelCls: Any = AtariLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingAtariLstmAgent(AtariMixin, AlternatingRecurrentCategoricalPgAgent):
    """:class:`AtariLstmAgent` for samplers that step halves of the environments in turn."""

    def __init__(self, ModelCls: Any = AtariLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

"""The recurrent deep Q-network for vector observations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.dqn.heads import q_head
from rlpyt.models.dqn.torsos import MlpTrunk, WithMemory
from rlpyt.models.mlp import Sizes
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size


class MlpR2d1Model(WithMemory, MlpTrunk):
    """Recurrent Q-network for vectors: a perceptron with an LSTM before its last hidden layer.

    Args:
        observation_shape: shape of one observation, which is flattened.
        output_size: number of actions A.
        hidden_sizes: widths of the hidden layers, the last of them after the LSTM.
        lstm_size: hidden size H of the LSTM.
        dueling: whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.

    Raises:
        ValueError: if observations are not one array.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR).
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        output_size: int,
        hidden_sizes: Sizes = (64, 64),
        lstm_size: int = 64,
        dueling: bool = False,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, layer_norm=layer_norm)
        self.dueling = dueling
        self.lstm = torch.nn.LSTM(lstm_input_size(self.body.output_size, output_size), lstm_size)
        self.head = q_head(lstm_size, self.head_sizes, output_size, dueling, layer_norm=layer_norm)

"""The recurrent deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.conv2d import DQN_CONV, Conv2dHeadModel
from rlpyt.models.dqn.heads import q_head
from rlpyt.models.dqn.torsos import ImageTorso, WithMemory
from rlpyt.models.mlp import Sizes
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size


class AtariR2d1Model(WithMemory, ImageTorso):
    """Recurrent Q-network for images: convolutions, LSTM, perceptron or dueling streams.

    Args:
        image_shape: shape (C, H, W) of an image.
        output_size: number of actions A.
        fc_size: width of the hidden layer(s) between the convolutions and the LSTM.
        lstm_size: hidden size H of the LSTM.
        head_size: width of the hidden layer(s) after the LSTM.
        dueling: whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        use_maxpool: whether to stride by max-pooling.
        channels: channels of each convolution, by default [32, 64, 64].
        kernel_sizes: kernel size of each convolution, by default [8, 4, 3].
        strides: stride of each convolution, by default [4, 2, 1].
        paddings: zero padding of each convolution, by default [0, 1, 1].
        layer_norm: whether to normalize convolutions and hidden layers before their nonlinearity.

    Raises:
        ValueError: if the settings of the convolutions do not fit each other or the image.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR).
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_size: Sizes = 512,
        lstm_size: int = 512,
        head_size: Sizes = 512,
        dueling: bool = False,
        use_maxpool: bool = False,
        channels: Sizes = None,
        kernel_sizes: Sizes = None,
        strides: Sizes = None,
        paddings: Sizes = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.dueling = dueling
        conv = Conv2dHeadModel(
            image_shape=image_shape,
            hidden_sizes=fc_size,
            use_maxpool=use_maxpool,
            layer_norm=layer_norm,
            **DQN_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.conv = conv
        self.lstm = torch.nn.LSTM(lstm_input_size(conv.output_size, output_size), lstm_size)
        self.head = q_head(lstm_size, head_size, output_size, dueling, layer_norm=layer_norm)

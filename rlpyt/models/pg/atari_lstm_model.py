"""The recurrent actor-critic for images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rlpyt.models.conv2d import PG_CONV, Conv2dHeadModel, scaled
from rlpyt.models.mlp import Sizes
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size, run_lstm
from rlpyt.models.utils import initialize_orthogonally
from rlpyt.utils.tensor import fold_leading_dims
from rlpyt.utils.types import Nested


class AtariLstmModel(torch.nn.Module):
    """Recurrent actor-critic for images: the policy and the value share all but the last layer.

    Args:
        image_shape: shape (C, H, W) of an image.
        output_size: number of actions A.
        fc_sizes: widths of the hidden layers between the convolutions and the LSTM.
        lstm_size: hidden size H of the LSTM.
        use_maxpool: whether to stride by max-pooling.
        channels: channels of each convolution, by default [16, 32].
        kernel_sizes: kernel size of each convolution, by default [8, 4].
        strides: stride of each convolution, by default [4, 2].
        paddings: zero padding of each convolution, by default [0, 1].
        nonlinearity: class of the modules after convolutions and hidden layers.
        orthogonal_init: whether to initialize weights orthogonally, with gain sqrt 2 in hidden
            layers, 1 in the LSTM, 0.01 for the policy and 1 for the value, and biases with zero.

    Raises:
        ValueError: if the settings of the convolutions do not fit each other or the image.

    Source: Mnih et al. 2016, arXiv:1602.01783.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: Sizes = 512,
        lstm_size: int = 512,
        use_maxpool: bool = False,
        channels: Sizes = None,
        kernel_sizes: Sizes = None,
        strides: Sizes = None,
        paddings: Sizes = None,
        nonlinearity: Callable[[], torch.nn.Module] = torch.nn.ReLU,
        orthogonal_init: bool = False,
    ) -> None:
        super().__init__()
        self.conv = Conv2dHeadModel(
            image_shape=image_shape,
            hidden_sizes=fc_sizes,
            nonlinearity=nonlinearity,
            use_maxpool=use_maxpool,
            **PG_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.lstm = torch.nn.LSTM(lstm_input_size(self.conv.output_size, output_size), lstm_size)
        self.pi = torch.nn.Linear(lstm_size, output_size)
        self.value = torch.nn.Linear(lstm_size, 1)
        if orthogonal_init:
            initialize_orthogonally(self, {self.pi: 0.01, self.value: 1.0})

    def forward(
        self,
        image: torch.Tensor,
        prev_action: torch.Tensor,
        prev_reward: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, RnnState]:
        """Compute the policy and the value.

        Args:
            image: images [C,H,W], [B,C,H,W] or [T,B,C,H,W]; uint8 is scaled by 1/255.
            prev_action: previous actions [...,A], one-hot.
            prev_reward: previous rewards [...].
            init_rnn_state: state (h, c) before the first step, [1,B,H] each; None for zeros.
            reset: mask [T,B], True where an episode begins: the state before that step is zero;
                None if there is no such step.

        Returns:
            Probabilities of the actions [...,A], values of the states [...], and the recurrent
            state [1,B,H] after the last step.
        """
        images, lead = fold_leading_dims(image, 3)
        features = self.conv(scaled(images))
        lstm_out, rnn_state = run_lstm(
            self.lstm, features, prev_action, prev_reward, init_rnn_state, lead, reset
        )
        pi = torch.softmax(self.pi(lstm_out), dim=-1)
        v = self.value(lstm_out).squeeze(-1)
        pi, v = lead.restore_each(pi, v)
        return pi, v, rnn_state

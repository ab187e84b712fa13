"""The recurrent actor-critic for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.conv2d import PG_CONV, Conv2dHeadModel
from rlpyt.models.mlp import Sizes
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size, run_lstm
from rlpyt.utils.tensor import fold_leading_dims
from rlpyt.utils.types import Nested


class AtariLstmModel(torch.nn.Module):
    """Convolutions, hidden layers and an LSTM, which the policy and the value share.

    Args:
        image_shape: (C, H, W) of an image.
        output_size: Number of actions A.
        fc_sizes: Widths of the hidden layers between the convolutions and the LSTM.
        lstm_size: Hidden size H of the LSTM.
        use_maxpool: Whether striding is by max-pooling.
        channels: Channels of each convolution, by default [16, 32].
        kernel_sizes: By default [8, 4].
        strides: By default [4, 2].
        paddings: By default [0, 1].

    Raises:
        ValueError: If the settings of the convolutions do not fit each other or the image.

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
    ) -> None:
        super().__init__()
        self.conv = Conv2dHeadModel(
            image_shape=image_shape,
            hidden_sizes=fc_sizes,
            use_maxpool=use_maxpool,
            **PG_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.lstm = torch.nn.LSTM(lstm_input_size(self.conv.output_size, output_size), lstm_size)
        self.pi = torch.nn.Linear(lstm_size, output_size)
        self.value = torch.nn.Linear(lstm_size, 1)

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
            image: [C,H,W], [B,C,H,W] or [T,B,C,H,W]; uint8 is scaled by 1/255.
            prev_action: [...,A] one-hot.
            prev_reward: [...]
            init_rnn_state: (h, c), [1,B,H] each; None is zeros.
            reset: [T,B] True where an episode begins: the state before that step is zero; None is
                nowhere.

        Returns:
            [...,A] probabilities of the actions, [...] values of the states, and the state
            [1,B,H] after the last step.
        """
        images, lead = fold_leading_dims(image, 3)
        lstm_out, rnn_state = run_lstm(
            self.lstm, self.conv(images), prev_action, prev_reward, init_rnn_state, lead, reset
        )
        pi = torch.softmax(self.pi(lstm_out), dim=-1)
        v = self.value(lstm_out).squeeze(-1)
        pi, v = lead.restore_each(pi, v)
        return pi, v, rnn_state

"""The recurrent deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.conv2d import DQN_CONV, Conv2dHeadModel
from rlpyt.models.dqn.heads import q_head
from rlpyt.models.mlp import Sizes
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size, run_lstm
from rlpyt.utils.tensor import fold_leading_dims
from rlpyt.utils.types import Nested


class AtariR2d1Model(torch.nn.Module):
    """Convolutions, an LSTM and a perceptron (or two streams) give the value of each action.

    Args:
        image_shape: (C, H, W) of an image.
        output_size: Number of actions A.
        fc_size: Width of the hidden layer(s) between the convolutions and the LSTM.
        lstm_size: Hidden size H of the LSTM.
        head_size: Width of the hidden layer(s) behind the LSTM.
        dueling: Whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        use_maxpool: Whether striding is by max-pooling.
        channels: Channels of each convolution, by default [32, 64, 64].
        kernel_sizes: By default [8, 4, 3].
        strides: By default [4, 2, 1].
        paddings: By default [0, 1, 1].

    Raises:
        ValueError: If the settings of the convolutions do not fit each other or the image.

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
    ) -> None:
        super().__init__()
        self.dueling = dueling
        self.conv = Conv2dHeadModel(
            image_shape=image_shape,
            hidden_sizes=fc_size,
            use_maxpool=use_maxpool,
            **DQN_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.lstm = torch.nn.LSTM(lstm_input_size(self.conv.output_size, output_size), lstm_size)
        self.head = q_head(lstm_size, head_size, output_size, dueling)

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: torch.Tensor,
        prev_reward: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, RnnState]:
        """Estimate the value of each action.

        Args:
            observation: [C,H,W], [B,C,H,W] or [T,B,C,H,W] images; uint8 is scaled by 1/255.
            prev_action: [...,A] one-hot.
            prev_reward: [...]
            init_rnn_state: (h, c), [1,B,H] each; None is zeros.
            reset: [T,B] True where an episode begins: the state before that step is zero; None is
                nowhere.

        Returns:
            [A], [B,A] or [T,B,A] action values, and the state [1,B,H] after the last step.
        """
        images, lead = fold_leading_dims(observation, 3)
        lstm_out, rnn_state = run_lstm(
            self.lstm, self.conv(images), prev_action, prev_reward, init_rnn_state, lead, reset
        )
        return lead.restore(self.head(lstm_out)), rnn_state

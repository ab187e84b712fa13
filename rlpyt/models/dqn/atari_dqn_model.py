"""The deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.conv2d import DQN_CONV, Conv2dModel, read_image_shape
from rlpyt.models.dqn.heads import q_head
from rlpyt.models.mlp import Sizes
from rlpyt.utils.tensor import fold_leading_dims
from rlpyt.utils.types import Nested


class AtariConvTrunk(torch.nn.Module):
    """Base class of feed-forward Q-networks for images: the convolutions, without a head.

    Args:
        image_shape: (C, H, W) of an image.
        use_maxpool: Whether striding is by max-pooling.
        channels: Channels of each convolution, by default [32, 64, 64].
        kernel_sizes: By default [8, 4, 3].
        strides: By default [4, 2, 1].
        paddings: By default [0, 1, 1].

    Raises:
        ValueError: If the settings do not fit each other or the image.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        use_maxpool: bool = False,
        channels: Sizes = None,
        kernel_sizes: Sizes = None,
        strides: Sizes = None,
        paddings: Sizes = None,
    ) -> None:
        super().__init__()
        c, h, w = read_image_shape(image_shape)
        self.conv = Conv2dModel(
            in_channels=c,
            use_maxpool=use_maxpool,
            **DQN_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.conv_out_size = self.conv.conv_out_size(h, w, c)


class AtariDqnModel(AtariConvTrunk):
    """Convolutions and a perceptron (or two streams) give the value of each action.

    Args:
        image_shape: (C, H, W) of an image.
        output_size: Number of actions A.
        fc_sizes: Widths of the hidden layers behind the convolutions.
        dueling: Whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        use_maxpool: Whether striding is by max-pooling.
        channels: Channels of each convolution, by default [32, 64, 64].
        kernel_sizes: By default [8, 4, 3].
        strides: By default [4, 2, 1].
        paddings: By default [0, 1, 1].
        noisy: Whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.

    Raises:
        ValueError: If the settings of the convolutions do not fit each other or the image.

    Source: Mnih et al. 2015 (Nature 518); dueling: Wang et al. 2016, arXiv:1511.06581.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: Sizes = 512,
        dueling: bool = False,
        use_maxpool: bool = False,
        channels: Sizes = None,
        kernel_sizes: Sizes = None,
        strides: Sizes = None,
        paddings: Sizes = None,
        noisy: bool = False,
    ) -> None:
        super().__init__(image_shape, use_maxpool, channels, kernel_sizes, strides, paddings)
        self.dueling = dueling
        self.head = q_head(self.conv_out_size, fc_sizes, output_size, dueling, noisy)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the value of each action.

        Args:
            observation: [C,H,W], [B,C,H,W] or [T,B,C,H,W] images; uint8 is scaled by 1/255.
            prev_action: Not used.
            prev_reward: Not used.

        Returns:
            [A], [B,A] or [T,B,A] action values.
        """
        images, lead = fold_leading_dims(observation, 3)
        features = self.conv(images).flatten(1)
        return lead.restore(self.head(features))

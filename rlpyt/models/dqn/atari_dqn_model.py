"""The deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.conv2d import DQN_CONV, Conv2dModel, read_image_shape, scaled
from rlpyt.models.dqn.heads import q_head
from rlpyt.models.mlp import Sizes
from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.tensor import fold_leading_dims
from rlpyt.utils.types import Nested


class AtariConvTrunk(torch.nn.Module):
    """Base class of feed-forward Q-networks for images: the convolutions, without a head.

    Args:
        image_shape: shape (C, H, W) of an image.
        use_maxpool: whether to stride by max-pooling.
        channels: channels of each convolution, by default [32, 64, 64].
        kernel_sizes: kernel size of each convolution, by default [8, 4, 3].
        strides: stride of each convolution, by default [4, 2, 1].
        paddings: zero padding of each convolution, by default [0, 1, 1].
        layer_norm: whether to normalize the output of each convolution before its nonlinearity.

    Raises:
        ValueError: if the settings do not fit each other or the image.
    """

    __signature__ = ConstructorSignature()

    def __init__(
        self,
        image_shape: Sequence[int],
        use_maxpool: bool = False,
        channels: Sizes = None,
        kernel_sizes: Sizes = None,
        strides: Sizes = None,
        paddings: Sizes = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        c, h, w = read_image_shape(image_shape)
        self.conv = Conv2dModel(
            in_channels=c,
            use_maxpool=use_maxpool,
            layer_norm=layer_norm,
            **DQN_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.conv_out_size = self.conv.conv_out_size(h, w, c)


class AtariDqnModel(AtariConvTrunk):
    """Q-network for images: convolutions, then a perceptron or two dueling streams.

    Args:
        image_shape: shape (C, H, W) of an image.
        output_size: number of actions A.
        fc_sizes: widths of the hidden layers after the convolutions.
        dueling: whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        use_maxpool: whether to stride by max-pooling.
        channels: channels of each convolution, by default [32, 64, 64].
        kernel_sizes: kernel size of each convolution, by default [8, 4, 3].
        strides: stride of each convolution, by default [4, 2, 1].
        paddings: zero padding of each convolution, by default [0, 1, 1].
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.
        layer_norm: whether to normalize convolutions and hidden layers before their nonlinearity.

    Raises:
        ValueError: if the settings of the convolutions do not fit each other or the image.

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
        layer_norm: bool = False,
    ) -> None:
        super().__init__(
            image_shape, use_maxpool, channels, kernel_sizes, strides, paddings, layer_norm
        )
        self.dueling = dueling
        self.head = q_head(self.conv_out_size, fc_sizes, output_size, dueling, noisy, layer_norm)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the value of each action.

        Args:
            observation: images [C,H,W], [B,C,H,W] or [T,B,C,H,W]; uint8 is scaled by 1/255.
            prev_action: not used.
            prev_reward: not used.

        Returns:
            Action values [A], [B,A] or [T,B,A].
        """
        images, lead = fold_leading_dims(observation, 3)
        features = self.conv(scaled(images)).flatten(1)
        return lead.restore(self.head(features))

"""The deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence

from rlpyt.models.dqn.heads import q_head
from rlpyt.models.dqn.torsos import AtariConvTrunk, OnObservations
from rlpyt.models.mlp import Sizes


class AtariDqnModel(OnObservations, AtariConvTrunk):
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

"""The categorical (distributional) deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence

from rlpyt.models.dqn.heads import (
    DistributionalHeadModel as DistributionalHeadModel,
    distributional_head,
)
from rlpyt.models.dqn.torsos import AtariConvTrunk, OfProbabilities
from rlpyt.models.mlp import Sizes


class AtariCatDqnModel(OfProbabilities, AtariConvTrunk):
    """Categorical Q-network for images: a distribution over returns for each action.

    Args:
        image_shape: shape (C, H, W) of an image.
        output_size: number of actions A.
        n_atoms: number of atoms P.
        fc_sizes: widths of the hidden layers after the convolutions.
        dueling: whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DistributionalDuelingHeadModel`.
        use_maxpool: whether to stride by max-pooling.
        channels: channels of each convolution, by default [32, 64, 64].
        kernel_sizes: kernel size of each convolution, by default [8, 4, 3].
        strides: stride of each convolution, by default [4, 2, 1].
        paddings: zero padding of each convolution, by default [0, 1, 1].
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.

    Raises:
        ValueError: if the settings of the convolutions do not fit each other or the image.

    Source: Bellemare, Dabney and Munos 2017, arXiv:1707.06887, section 4.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_atoms: int = 51,
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
        self.head = distributional_head(
            self.conv_out_size, fc_sizes, output_size, n_atoms, dueling, noisy
        )

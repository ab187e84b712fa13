"""The implicit quantile deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.models.dqn.heads import ImplicitQuantileHeadModel
from rlpyt.models.dqn.torsos import AtariConvTrunk, AtFractions
from rlpyt.models.mlp import Sizes


class AtariIqnModel(AtFractions, AtariConvTrunk):
    """Implicit quantile network for images: any quantile of each action's return.

    Args:
        image_shape: shape (C, H, W) of an image.
        output_size: number of actions A.
        n_cosines: number of cosines in which fractions are embedded.
        fc_sizes: widths of the hidden layers after the convolutions.
        dueling: whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.
        **convolutions: settings ``use_maxpool``, ``channels``, ``kernel_sizes``, ``strides`` and
            ``paddings``: see :class:`~rlpyt.models.dqn.atari_dqn_model.AtariDqnModel`.

    Raises:
        ValueError: if the settings of the convolutions do not fit each other or the image.

    Source: Dabney et al. 2018, arXiv:1806.06923, section "Implementation".
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_cosines: int = 64,
        fc_sizes: Sizes = 512,
        dueling: bool = False,
        noisy: bool = False,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, **convolutions)
        self.dueling = dueling
        self.head = ImplicitQuantileHeadModel(
            self.conv_out_size, fc_sizes, output_size, n_cosines, dueling, noisy
        )

"""The quantile regression deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.models.dqn.heads import distributional_head
from rlpyt.models.dqn.torsos import AtariConvTrunk, OnObservations
from rlpyt.models.mlp import Sizes


class AtariQrDqnModel(OnObservations, AtariConvTrunk):
    """Quantile regression network for images: quantiles of each action's return.

    Args:
        image_shape: shape (C, H, W) of an image.
        output_size: number of actions A.
        n_quantiles: number of quantiles N.
        fc_sizes: widths of the hidden layers after the convolutions.
        dueling: whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DistributionalDuelingHeadModel`.
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.
        **convolutions: settings ``use_maxpool``, ``channels``, ``kernel_sizes``, ``strides`` and
            ``paddings``: see :class:`~rlpyt.models.dqn.atari_dqn_model.AtariDqnModel`.

    Raises:
        ValueError: if the settings of the convolutions do not fit each other or the image.

    Source: Dabney et al. 2018, arXiv:1710.10044, section "Quantile Regression DQN".
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_quantiles: int = 200,
        fc_sizes: Sizes = 512,
        dueling: bool = False,
        noisy: bool = False,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, **convolutions)
        self.dueling = dueling
        self.head = distributional_head(
            self.conv_out_size, fc_sizes, output_size, n_quantiles, dueling, noisy
        )

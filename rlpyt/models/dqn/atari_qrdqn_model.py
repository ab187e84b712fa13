"""The quantile regression deep Q-network for images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.models.dqn.atari_dqn_model import AtariConvTrunk
from rlpyt.models.dqn.heads import distributional_head
from rlpyt.models.mlp import Sizes
from rlpyt.utils.tensor import fold_leading_dims
from rlpyt.utils.types import Nested


class AtariQrDqnModel(AtariConvTrunk):
    """Convolutions and a head give quantiles of the return of each action.

    Args:
        image_shape: (C, H, W) of an image.
        output_size: Number of actions A.
        n_quantiles: Number of quantiles N.
        fc_sizes: Widths of the hidden layers behind the convolutions.
        dueling: Whether the head is a
            :class:`~rlpyt.models.dqn.dueling.DistributionalDuelingHeadModel`.
        noisy: Whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.
        **convolutions: ``use_maxpool``, ``channels``, ``kernel_sizes``, ``strides`` and
            ``paddings``, as of :class:`~rlpyt.models.dqn.atari_dqn_model.AtariDqnModel`.

    Raises:
        ValueError: If the settings of the convolutions do not fit each other or the image.

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

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate quantiles of the return of each action.

        Args:
            observation: [C,H,W], [B,C,H,W] or [T,B,C,H,W] images; uint8 is scaled by 1/255.
            prev_action: Not used.
            prev_reward: Not used.

        Returns:
            [A,N], [B,A,N] or [T,B,A,N] quantiles, of the fractions (i - 1/2) / N for i = 1, ..., N.
        """
        images, lead = fold_leading_dims(observation, 3)
        features = self.conv(images).flatten(1)
        return lead.restore(self.head(features))

"""The convolutions that the Atari Q-networks have in common."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models._conv_defaults import DQN_CONV
from rlpyt.models._inputs import LeadingDims, fold_images
from rlpyt.models._sizes import Sizes
from rlpyt.models.conv2d import Conv2dModel, read_image_shape


class AtariConvTrunk(torch.nn.Module):
    """Base of the feed-forward Q-networks for images: the convolutions, without a head."""

    def __init__(
        self,
        image_shape: Sequence[int],
        use_maxpool: bool,
        channels: Sizes,
        kernel_sizes: Sizes,
        strides: Sizes,
        paddings: Sizes,
    ) -> None:
        super().__init__()
        c, h, w = read_image_shape(image_shape)
        self.conv = Conv2dModel(
            in_channels=c,
            use_maxpool=use_maxpool,
            **DQN_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.conv_out_size = self.conv.conv_out_size(h, w, c)

    def features(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Features [T*B,conv_out_size], and the leading dimensions."""
        images, lead = fold_images(observation)
        return self.conv(images).reshape(lead.T * lead.B, -1), lead

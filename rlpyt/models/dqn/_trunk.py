"""What Q-networks have in common before their heads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from rlpyt.models._conv_defaults import DQN_CONV
from rlpyt.models._inputs import LeadingDims, fold_images, fold_vectors
from rlpyt.models._sizes import Sizes, as_list
from rlpyt.models.conv2d import Conv2dModel, read_image_shape
from rlpyt.models.mlp import MlpModel


class AtariConvTrunk(torch.nn.Module):
    """Base of the feed-forward Q-networks for images: the convolutions, without a head.

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

    def features(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Features [T*B,conv_out_size], and the leading dimensions."""
        images, lead = fold_images(observation)
        return self.conv(images).reshape(lead.T * lead.B, -1), lead


class MlpTrunk(torch.nn.Module):
    """Base of the feed-forward Q-networks for vectors: all hidden layers but the last.

    That one (or ``n_in_head`` of them) belongs to the head, since dueling streams have their own.
    """

    def __init__(
        self, observation_shape: Sequence[int], hidden_sizes: Sizes, n_in_head: int = 1
    ) -> None:
        super().__init__()
        if not all(isinstance(length, (int, np.integer)) for length in observation_shape):
            raise ValueError(
                f"observation_shape is {observation_shape}, but {type(self).__name__} takes one "
                "array: join the parts in a wrapper of the environment, or pass a ModelCls which "
                "takes them"
            )
        self._obs_ndim = len(observation_shape)
        sizes = as_list(hidden_sizes)
        n_in_body = max(0, len(sizes) - n_in_head)
        self.body = MlpModel(math.prod(observation_shape), sizes[:n_in_body])
        self.head_sizes = sizes[n_in_body:]

    def features(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Features [T*B,F], and the leading dimensions."""
        flat, lead = fold_vectors(observation, self._obs_ndim)
        return self.body(flat), lead

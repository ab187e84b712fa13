"""Torsos of Q-networks, for images and for vectors, and the ways to run them with a head.

A Q-network is a torso, a module ``head``, and one of three ways to run both: on the present
observation, at fractions of a distribution, or with a recurrent state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.models.conv2d import DQN_CONV, Conv2dModel, read_image_shape, scaled
from rlpyt.models.mlp import MlpModel, Sizes, as_list
from rlpyt.models.rnn import RnnState, run_lstm
from rlpyt.models.utils import precise_softmax
from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.tensor import LeadingDims, fold_leading_dims, fold_vectors
from rlpyt.utils.types import Nested


class ImageTorso(torch.nn.Module):
    """Torso for images [C,H,W]: a module ``conv``. Images of bytes are scaled by 1/255."""

    conv: torch.nn.Module

    def features(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Return features [T*B,F] of images, and the leading dimensions to restore."""
        images, lead = fold_leading_dims(observation, 3)
        return self.conv(scaled(images)).flatten(1), lead


class AtariConvTrunk(ImageTorso):
    """Torso for images: the convolutions alone.

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
        conv = Conv2dModel(
            in_channels=c,
            use_maxpool=use_maxpool,
            layer_norm=layer_norm,
            **DQN_CONV.override(channels, kernel_sizes, strides, paddings),
        )
        self.conv, self.conv_out_size = conv, conv.conv_out_size(h, w, c)


class MlpTrunk(torch.nn.Module):
    """Torso for vectors, and other arrays flattened: all hidden layers but the last.

    Args:
        observation_shape: shape of one observation.
        hidden_sizes: widths of the hidden layers.
        n_in_head: number of hidden layers of the head, of which each dueling stream has a copy.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.

    Raises:
        ValueError: if observations are not one array.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        n_in_head: int = 1,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if not all(isinstance(length, (int, np.integer)) for length in observation_shape):
            raise ValueError(
                f"observation_shape is {observation_shape}, but {type(self).__name__} takes one "
                "array: join the parts in a wrapper of the environment, or pass a ModelCls that "
                "takes them"
            )
        self._obs_ndim = len(observation_shape)
        sizes = as_list(hidden_sizes)
        n_in_body = max(0, len(sizes) - n_in_head)
        size = math.prod(observation_shape)
        self.body = MlpModel(size, sizes[:n_in_body], layer_norm=layer_norm)
        self.head_sizes = sizes[n_in_body:]

    def features(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Return features [T*B,F] of vectors, and the leading dimensions to restore."""
        flat, lead = fold_vectors(observation, self._obs_ndim)
        return self.body(flat), lead


# --- Ways to run a torso with its head ------------------------------------------------------------


class OnObservations:
    """A Q-network of the present observation, with a torso as its second base."""

    head: Any
    features: Any

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the values of all actions.

        Args:
            observation: observations with leading dimensions [], [B] or [T,B].
            prev_action: not used.
            prev_reward: not used.

        Returns:
            Values [...,A], or for each action of a distribution [...,A,P].
        """
        features, lead = self.features(observation)
        outputs: torch.Tensor = lead.restore(self.head(features))
        return outputs


class OfProbabilities(OnObservations):
    """A Q-network whose head returns logits of the atoms of a distribution for each action."""

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the probabilities [...,A,P] of the atoms, for each action."""
        return precise_softmax(super().forward(observation, prev_action, prev_reward))


class AtFractions:
    """A Q-network of the present observation and of fractions, with a torso as its second base."""

    head: Any
    features: Any

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: Nested,
        prev_reward: Nested,
        tau: torch.Tensor,
    ) -> torch.Tensor:
        """Estimate quantiles of each action's return.

        Args:
            observation: observations with leading dimensions [], [B] or [T,B].
            prev_action: not used.
            prev_reward: not used.
            tau: fractions [...,N] in [0, 1], separate for each observation.

        Returns:
            Quantiles [...,A,N].
        """
        features, lead = self.features(observation)
        outputs: torch.Tensor = lead.restore(self.head(features, tau.reshape(len(features), -1)))
        return outputs


class WithMemory:
    """A recurrent Q-network: a torso as its second base, the module ``lstm``, and a head."""

    head: Any
    lstm: torch.nn.LSTM
    features: Any

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
            observation: observations with leading dimensions [], [B] or [T,B].
            prev_action: previous actions [...,A], one-hot.
            prev_reward: previous rewards [...].
            init_rnn_state: state (h, c) before the first step, [1,B,H] each; None for zeros.
            reset: mask [T,B], True where an episode begins: the state before that step is zero;
                None if there is no such step.

        Returns:
            Action values [...,A], and the state [1,B,H] after the last step.
        """
        features, lead = self.features(observation)
        lstm_out, rnn_state = run_lstm(
            self.lstm, features, prev_action, prev_reward, init_rnn_state, lead, reset
        )
        return lead.restore(self.head(lstm_out)), rnn_state

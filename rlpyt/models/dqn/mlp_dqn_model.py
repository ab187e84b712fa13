"""Q-networks for vector observations, as in classic control."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from rlpyt.models.dqn.heads import distributional_head, q_head
from rlpyt.models.mlp import MlpModel, Sizes, as_list
from rlpyt.models.utils import precise_softmax
from rlpyt.utils.tensor import fold_vectors
from rlpyt.utils.types import Nested


class MlpTrunk(torch.nn.Module):
    """Base class of Q-networks for vectors: all hidden layers but the last.

    The last layer (or ``n_in_head`` layers) belongs to the head: each dueling stream has a copy.
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


class MlpDqnModel(MlpTrunk):
    """Q-network for vectors: a perceptron with one output for each action.

    Args:
        observation_shape: shape of one observation, which is flattened.
        output_size: number of actions A.
        hidden_sizes: widths of the hidden layers.
        dueling: whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.

    Raises:
        ValueError: if observations are not one array.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        output_size: int,
        hidden_sizes: Sizes = (64, 64),
        dueling: bool = False,
        noisy: bool = False,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, layer_norm=layer_norm)
        self.dueling = dueling
        self.head = q_head(
            self.body.output_size, self.head_sizes, output_size, dueling, noisy, layer_norm
        )

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the value of each action.

        Args:
            observation: observations [...,*observation_shape] with zero to two leading dimensions.
            prev_action: not used.
            prev_reward: not used.

        Returns:
            Action values [...,A].
        """
        flat, lead = fold_vectors(observation, self._obs_ndim)
        features = self.body(flat)
        return lead.restore(self.head(features))


class MlpCatDqnModel(MlpTrunk):
    """Categorical Q-network for vectors: a distribution over returns for each action.

    Args:
        observation_shape: shape of one observation, which is flattened.
        output_size: number of actions A.
        hidden_sizes: widths of the hidden layers.
        dueling: whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DistributionalDuelingHeadModel`.
        n_atoms: number of atoms P.
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.

    Raises:
        ValueError: if observations are not one array.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        output_size: int,
        hidden_sizes: Sizes = (64, 64),
        dueling: bool = False,
        n_atoms: int = 51,
        noisy: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes)
        self.dueling = dueling
        self.head = distributional_head(
            self.body.output_size, self.head_sizes, output_size, n_atoms, dueling, noisy
        )

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the distribution of each action's return.

        Args:
            observation: observations [...,*observation_shape] with zero to two leading dimensions.
            prev_action: not used.
            prev_reward: not used.

        Returns:
            Probabilities of the atoms [...,A,P].
        """
        flat, lead = fold_vectors(observation, self._obs_ndim)
        features = self.body(flat)
        p = precise_softmax(self.head(features))
        return lead.restore(p)

"""Q-networks for vector observations, as in classic control."""

from __future__ import annotations

from collections.abc import Sequence

from rlpyt.models.dqn.heads import distributional_head, q_head
from rlpyt.models.dqn.torsos import MlpTrunk, OfProbabilities, OnObservations
from rlpyt.models.mlp import Sizes


class MlpDqnModel(OnObservations, MlpTrunk):
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


class MlpCatDqnModel(OfProbabilities, MlpTrunk):
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

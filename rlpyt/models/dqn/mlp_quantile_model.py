"""Quantile Q-networks for vector observations, as in classic control."""

from __future__ import annotations

from collections.abc import Sequence

from rlpyt.models.dqn.heads import ImplicitQuantileHeadModel, distributional_head
from rlpyt.models.dqn.torsos import AtFractions, MlpTrunk, OnObservations
from rlpyt.models.mlp import Sizes, as_list


class MlpQrDqnModel(OnObservations, MlpTrunk):
    """Quantile regression network for vectors: quantiles of each action's return.

    Args:
        observation_shape: shape of one observation, which is flattened.
        output_size: number of actions A.
        hidden_sizes: widths of the hidden layers.
        dueling: whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DistributionalDuelingHeadModel`.
        n_quantiles: number of quantiles N.
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
        n_quantiles: int = 200,
        noisy: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes)
        self.dueling = dueling
        self.head = distributional_head(
            self.body.output_size, self.head_sizes, output_size, n_quantiles, dueling, noisy
        )


class MlpIqnModel(AtFractions, MlpTrunk):
    """Implicit quantile network for vectors: any quantile of each action's return.

    Args:
        observation_shape: shape of one observation, which is flattened.
        output_size: number of actions A.
        hidden_sizes: widths of the hidden layers, at least one; embedded fractions enter before the
            last layer, or after the only one.
        dueling: whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        n_cosines: number of cosines in which fractions are embedded.
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.

    Raises:
        ValueError: if observations are not one array, or there is no hidden layer.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        output_size: int,
        hidden_sizes: Sizes = (64, 64),
        dueling: bool = False,
        n_cosines: int = 64,
        noisy: bool = False,
    ) -> None:
        sizes = as_list(hidden_sizes)
        if not sizes:
            raise ValueError(
                f"hidden_sizes is {hidden_sizes}: give at least one width, since fractions "
                "multiply the features of a hidden layer"
            )
        super().__init__(observation_shape, sizes, n_in_head=min(1, len(sizes) - 1))
        self.dueling = dueling
        self.head = ImplicitQuantileHeadModel(
            self.body.output_size, self.head_sizes, output_size, n_cosines, dueling, noisy
        )

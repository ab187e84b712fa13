"""Q-networks for vector observations, such as those of classic control."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models._sizes import Sizes
from rlpyt.models.dqn._heads import distributional_head, q_head
from rlpyt.models.dqn._trunk import MlpTrunk
from rlpyt.utils.types import Nested


class MlpDqnModel(MlpTrunk):
    """A perceptron gives the value of each action.

    Args:
        observation_shape: Shape of one observation, which is flattened.
        output_size: Number of actions A.
        hidden_sizes: Widths of the hidden layers.
        dueling: Whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        noisy: Whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.

    Raises:
        ValueError: If observations are not one array.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        output_size: int,
        hidden_sizes: Sizes = (64, 64),
        dueling: bool = False,
        noisy: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes)
        self.dueling = dueling
        self.head = q_head(self.body.output_size, self.head_sizes, output_size, dueling, noisy)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Estimate the value of each action.

        Args:
            observation: [...,*observation_shape] with zero to two leading dimensions.
            prev_action: Not used.
            prev_reward: Not used.

        Returns:
            [...,A] action values.
        """
        features, lead = self.features(observation)
        return lead.restore(self.head(features))


class MlpCatDqnModel(MlpTrunk):
    """A perceptron gives a distribution over returns for each action.

    Args:
        observation_shape: Shape of one observation, which is flattened.
        output_size: Number of actions A.
        hidden_sizes: Widths of the hidden layers.
        dueling: Whether the last hidden layer and the output are the two streams of a
            :class:`~rlpyt.models.dqn.dueling.DistributionalDuelingHeadModel`.
        n_atoms: Number of atoms P.
        noisy: Whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`, which
            explore: agents then need no random actions.

    Raises:
        ValueError: If observations are not one array.
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
        """Estimate the distribution of the return of each action.

        Args:
            observation: [...,*observation_shape] with zero to two leading dimensions.
            prev_action: Not used.
            prev_reward: Not used.

        Returns:
            [...,A,P] probabilities of the atoms.
        """
        features, lead = self.features(observation)
        p = torch.softmax(self.head(features), dim=-1)
        return lead.restore(p)

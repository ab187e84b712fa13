"""Perceptrons of the continuous Q-learning family: policies, action values and state values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.models._inputs import LeadingDims, fold_vectors
from rlpyt.models._sizes import Sizes
from rlpyt.models.mlp import MlpModel
from rlpyt.utils.types import Nested


class _ObservationMlp(torch.nn.Module):
    """Base: one perceptron on the flat observation, with ``extra_size`` more inputs."""

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        output_size: int,
        extra_size: int = 0,
    ) -> None:
        super().__init__()
        self._obs_ndim = len(observation_shape)
        input_size = math.prod(observation_shape) + extra_size
        self.mlp = MlpModel(input_size, hidden_sizes, output_size)

    def _fold(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        return fold_vectors(observation, self._obs_ndim)


class MuMlpModel(_ObservationMlp):
    """A deterministic policy: ``mu(s) = output_max * tanh(mlp(s))``.

    Args:
        observation_shape: Shape of one observation, which is flattened.
        hidden_sizes: Widths of the hidden layers.
        action_size: Number of dimensions A of an action.
        output_max: Bound of the action, a scalar or [A].

    Source: Lillicrap et al. 2016, arXiv:1509.02971.
    """

    _output_max: Any

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        output_max: Any = 1,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, action_size)
        if isinstance(output_max, (int, float)):
            self._output_max = output_max
        else:
            bound = torch.as_tensor(np.array(output_max), dtype=torch.float)
            self.register_buffer("_output_max", bound, persistent=False)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Actions [...,A] for observations [...,*observation_shape]; the rest is not used."""
        flat, lead = self._fold(observation)
        mu = self._output_max * torch.tanh(self.mlp(flat))
        return lead.restore(mu)


class PiMlpModel(_ObservationMlp):
    """A stochastic policy: the mean and log standard deviation of a Gaussian.

    Args:
        observation_shape: Shape of one observation, which is flattened.
        hidden_sizes: Widths of the hidden layers.
        action_size: Number of dimensions A of an action.

    Source: Haarnoja et al. 2018, arXiv:1812.05905.
    """

    def __init__(
        self, observation_shape: Sequence[int], hidden_sizes: Sizes, action_size: int
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, 2 * action_size)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Means [...,A] and log deviations [...,A] for observations; the rest is not used."""
        flat, lead = self._fold(observation)
        mu, log_std = self.mlp(flat).chunk(2, dim=-1)
        return lead.restore(mu), lead.restore(log_std)


class QofMuMlpModel(_ObservationMlp):
    """The value of an action in a state, Q(s, a).

    Args:
        observation_shape: Shape of one observation, which is flattened.
        hidden_sizes: Widths of the hidden layers.
        action_size: Number of dimensions A of an action.
    """

    def __init__(
        self, observation_shape: Sequence[int], hidden_sizes: Sizes, action_size: int
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, 1, extra_size=action_size)

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: Nested,
        prev_reward: Nested,
        action: torch.Tensor,
    ) -> torch.Tensor:
        """Values [...] of the actions [...,A]; previous action and reward are not used."""
        flat, lead = self._fold(observation)
        q_input = torch.cat([flat, action.reshape(lead.T * lead.B, -1)], dim=1)
        return lead.restore(self.mlp(q_input).squeeze(-1))


class VMlpModel(_ObservationMlp):
    """The value of a state, V(s).

    Args:
        observation_shape: Shape of one observation, which is flattened.
        hidden_sizes: Widths of the hidden layers.
        action_size: Not used; all models of the family are made with the same arguments.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int | None = None,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, 1)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Values [...] of observations [...,*observation_shape]; the rest is not used."""
        flat, lead = self._fold(observation)
        return lead.restore(self.mlp(flat).squeeze(-1))

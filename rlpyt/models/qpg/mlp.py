"""Perceptrons of the continuous Q-learning family: policies, action values and state values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.utils import precise_softmax
from rlpyt.utils.tensor import LeadingDims, as_float, fold_vectors
from rlpyt.utils.types import NDArray, Nested


class _ObservationMlp(torch.nn.Module):
    """Base class: one perceptron on the flat observation and ``extra_size`` more inputs."""

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        output_size: int,
        extra_size: int = 0,
        **mlp_kwargs: Any,
    ) -> None:
        super().__init__()
        self._obs_ndim = len(observation_shape)
        input_size = math.prod(observation_shape) + extra_size
        self.mlp = MlpModel(input_size, hidden_sizes, output_size, **mlp_kwargs)


class MuMlpModel(_ObservationMlp):
    """A deterministic policy: ``mu(s) = output_max * tanh(mlp(s))``.

    Args:
        observation_shape: shape of one observation, which is flattened.
        hidden_sizes: widths of the hidden layers.
        action_size: number of dimensions A of an action.
        output_max: bound of the action, a scalar or [A]; :meth:`set_output_bounds` replaces it.

    Source: Lillicrap et al. 2016, arXiv:1509.02971.
    """

    _output_mid: torch.Tensor | None
    _output_half_range: torch.Tensor | None

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        output_max: Any = 1,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, action_size)
        self._output_max = output_max  # For subclasses with their own forward().
        # Not persistent: the bounds follow from the environment.
        self.register_buffer("_output_mid", None, persistent=False)
        self.register_buffer("_output_half_range", None, persistent=False)
        if np.ndim(output_max) or output_max != 1:
            bound = np.broadcast_to(np.asarray(output_max, np.float32), (action_size,))
            self.set_output_bounds(-bound, bound)

    def set_output_bounds(self, low: NDArray, high: NDArray) -> None:
        """Let actions range from ``low`` to ``high``, [A] each, with the middle at tanh 0."""
        self._output_mid = torch.tensor((low + high) / 2, dtype=torch.float)
        self._output_half_range = torch.tensor((high - low) / 2, dtype=torch.float)

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Return actions [...,A]; previous actions and rewards are not used."""
        flat, lead = fold_vectors(observation, self._obs_ndim)
        mu = torch.tanh(self.mlp(flat))
        if self._output_mid is not None and self._output_half_range is not None:
            mu = torch.addcmul(self._output_mid, self._output_half_range, mu)
        return lead.restore(mu)


class PiMlpModel(_ObservationMlp):
    """A stochastic policy: the mean and log standard deviation of a Gaussian.

    Args:
        observation_shape: shape of one observation, which is flattened.
        hidden_sizes: widths of the hidden layers.
        action_size: number of dimensions A of an action.
        batch_renorm: whether to normalize the inputs of each linear layer over the batch.

    Source: Haarnoja et al. 2018, arXiv:1812.05905; batch renormalization as in Bhatt et al. 2024,
    arXiv:1902.05605.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        batch_renorm: bool = False,
    ) -> None:
        super().__init__(
            observation_shape, hidden_sizes, 2 * action_size, batch_renorm=batch_renorm
        )
        self._action_size = action_size  # For subclasses with their own forward().

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return means and log standard deviations [...,A]; previous steps are not used."""
        flat, lead = fold_vectors(observation, self._obs_ndim)
        mu, log_std = lead.restore(self.mlp(flat)).chunk(2, dim=-1)
        return mu, log_std


class _CriticMlp(_ObservationMlp):
    """Base class of critics: one perceptron on the flat observation and the action."""

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        output_size: int,
        **mlp_kwargs: Any,
    ) -> None:
        super().__init__(
            observation_shape, hidden_sizes, output_size, extra_size=action_size, **mlp_kwargs
        )

    def _outputs(
        self, observation: torch.Tensor, action: torch.Tensor
    ) -> tuple[torch.Tensor, LeadingDims]:
        flat, lead = fold_vectors(observation, self._obs_ndim)
        q_input = torch.cat([flat, as_float(action).reshape(lead.T * lead.B, -1)], dim=1)
        return self.mlp(q_input), lead


class QofMuMlpModel(_CriticMlp):
    """The value of an action in a state, Q(s, a), or quantiles of the return.

    Args:
        observation_shape: shape of one observation, which is flattened.
        hidden_sizes: widths of the hidden layers.
        action_size: number of dimensions A of an action.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.
        dropout: probability that a hidden unit is left out in training, before normalization.
        n_quantiles: number N of quantiles; None for one value.
        batch_renorm: whether to normalize the inputs of each linear layer over the batch.

    Source: layer normalization and dropout as in Hiraoka et al. 2022, arXiv:2110.02034; quantiles
    as in Kuznetsov et al. 2020, arXiv:2005.04269; batch renormalization as in Bhatt et al. 2024,
    arXiv:1902.05605.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        layer_norm: bool = False,
        dropout: float = 0.0,
        n_quantiles: int | None = None,
        batch_renorm: bool = False,
    ) -> None:
        super().__init__(
            observation_shape,
            hidden_sizes,
            action_size,
            n_quantiles or 1,
            layer_norm=layer_norm,
            dropout=dropout,
            batch_renorm=batch_renorm,
        )
        self._n_quantiles = n_quantiles

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: Nested,
        prev_reward: Nested,
        action: torch.Tensor,
    ) -> torch.Tensor:
        """Return values [...] or quantiles [...,N]; previous actions and rewards are not used."""
        q, lead = self._outputs(observation, action)
        return lead.restore(q.squeeze(-1) if self._n_quantiles is None else q)


class CatQofMuMlpModel(_CriticMlp):
    """The distribution over returns of an action in a state, Z(s, a).

    Args:
        observation_shape: shape of one observation, which is flattened.
        hidden_sizes: widths of the hidden layers.
        action_size: number of dimensions A of an action.
        n_atoms: number of atoms P.

    Source: Barth-Maron et al. 2018, arXiv:1804.08617.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        n_atoms: int = 51,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, action_size, n_atoms)

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: Nested,
        prev_reward: Nested,
        action: torch.Tensor,
    ) -> torch.Tensor:
        """Return probabilities [...,P] of the atoms; previous steps are not used."""
        logits, lead = self._outputs(observation, action)
        return lead.restore(precise_softmax(logits))


class VMlpModel(_ObservationMlp):
    """The value of a state, V(s).

    Args:
        observation_shape: shape of one observation, which is flattened.
        hidden_sizes: widths of the hidden layers.
        action_size: not used; all models of the family take the same arguments.
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
        """Return values [...]; previous actions and rewards are not used."""
        flat, lead = fold_vectors(observation, self._obs_ndim)
        return lead.restore(self.mlp(flat).squeeze(-1))

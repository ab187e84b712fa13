"""The feed-forward actor-critic for vector observations and continuous actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.running_mean_std import NormalizedObservationModel
from rlpyt.utils.types import Nested

Nonlinearity = Callable[[], torch.nn.Module]


class MujocoFfModel(NormalizedObservationModel):
    """Two separate perceptrons for the mean action and the value; the deviation is a parameter.

    Args:
        observation_shape: Shape of one observation, which is flattened.
        action_size: Number of dimensions A of an action.
        hidden_sizes: Widths of the hidden layers of each perceptron, by default [64, 64].
        hidden_nonlinearity: Class of the modules between the layers.
        mu_nonlinearity: Class of the module behind the mean; None for none.
        init_log_std: First value of the logarithm of the standard deviation, which depends on no
            observation.
        normalize_observation: Whether to normalise observations by their running statistics.
        norm_obs_clip: Bound of normalised observations.
        norm_obs_var_clip: Lower limit of their variance.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 6.1.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        action_size: int,
        hidden_sizes: Sizes = None,
        hidden_nonlinearity: Nonlinearity = torch.nn.Tanh,
        mu_nonlinearity: Nonlinearity | None = torch.nn.Tanh,
        init_log_std: float = 0.0,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
    ) -> None:
        super().__init__(observation_shape, normalize_observation, norm_obs_clip, norm_obs_var_clip)
        hidden_sizes = [64, 64] if hidden_sizes is None else hidden_sizes
        mu = MlpModel(self._obs_size, hidden_sizes, action_size, hidden_nonlinearity)
        self.mu = mu if mu_nonlinearity is None else torch.nn.Sequential(mu, mu_nonlinearity())
        self.v = MlpModel(self._obs_size, hidden_sizes, 1, hidden_nonlinearity)
        self.log_std = torch.nn.Parameter(torch.full((action_size,), float(init_log_std)))

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the policy and the value.

        Args:
            observation: [...,*observation_shape] with zero to two leading dimensions.
            prev_action: Not used.
            prev_reward: Not used.

        Returns:
            [...,A] means and [...,A] log standard deviations of the actions, and [...] values.
        """
        flat, lead = self.fold_observation(observation)
        mu = self.mu(flat)
        v = self.v(flat).squeeze(-1)
        log_std = self.log_std.expand(lead.T * lead.B, -1).clone()
        mu, log_std, v = lead.restore_each(mu, log_std, v)
        return mu, log_std, v

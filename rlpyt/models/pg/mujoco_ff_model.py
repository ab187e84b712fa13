"""The feed-forward actor-critic for vector observations and continuous actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rlpyt.models.mlp import FastSequential, MlpModel, Sizes
from rlpyt.models.running_mean_std import NormalizedObservationModel
from rlpyt.models.utils import initialize_orthogonally
from rlpyt.utils.types import Nested

Nonlinearity = Callable[[], torch.nn.Module]


class MujocoFfModel(NormalizedObservationModel):
    """Actor-critic with separate perceptrons for the mean action and the value.

    Args:
        observation_shape: shape of one observation, which is flattened.
        action_size: number of dimensions A of an action.
        hidden_sizes: widths of the hidden layers of each perceptron, by default [64, 64].
        hidden_nonlinearity: class of the modules between the layers.
        mu_nonlinearity: class of the module after the mean; None to leave it out.
        init_log_std: initial value of the log standard deviation, a parameter that does not depend
            on observations.
        normalize_observation: whether to normalize observations by their running statistics.
        norm_obs_clip: bound of normalized observations.
        norm_obs_var_clip: lower limit of the variance of observations.
        orthogonal_init: whether to initialize weights orthogonally, with gain sqrt 2 in hidden
            layers, 0.01 for the policy and 1 for the value, and biases with zero.

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
        orthogonal_init: bool = False,
    ) -> None:
        super().__init__(observation_shape, normalize_observation, norm_obs_clip, norm_obs_var_clip)
        hidden_sizes = [64, 64] if hidden_sizes is None else hidden_sizes
        mu = MlpModel(self._obs_size, hidden_sizes, action_size, hidden_nonlinearity)
        self.mu = mu if mu_nonlinearity is None else FastSequential(mu, mu_nonlinearity())
        self.v = MlpModel(self._obs_size, hidden_sizes, 1, hidden_nonlinearity)
        self.log_std = torch.nn.Parameter(torch.full((action_size,), float(init_log_std)))
        if orthogonal_init:
            initialize_orthogonally(self, {mu.model[-1]: 0.01, self.v.model[-1]: 1.0})

    def forward(
        self, observation: torch.Tensor, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the policy and the value.

        Args:
            observation: observations [...,*observation_shape] with zero to two leading dimensions.
            prev_action: not used.
            prev_reward: not used.

        Returns:
            Means [...,A] and log standard deviations [...,A] of the actions, and values [...].
        """
        flat, lead = self.fold_observation(observation)
        mu = self.mu(flat)
        v = self.v(flat).squeeze(-1)
        log_std = self.log_std.expand(lead.T * lead.B, -1).clone()
        mu, log_std, v = lead.restore_each(mu, log_std, v)
        return mu, log_std, v

"""The recurrent actor-critic for vector observations and continuous actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size, run_lstm
from rlpyt.models.running_mean_std import NormalizedObservationModel
from rlpyt.models.utils import initialize_orthogonally
from rlpyt.utils.types import Nested


class MujocoLstmModel(NormalizedObservationModel):
    """Recurrent actor-critic: a perceptron, then an LSTM that policy and value share.

    Args:
        observation_shape: shape of one observation, which is flattened.
        action_size: number of dimensions A of an action.
        hidden_sizes: widths of the hidden layers before the LSTM, by default [256, 256].
        lstm_size: hidden size H of the LSTM.
        nonlinearity: class of the modules after the hidden layers.
        normalize_observation: whether to normalize observations by their running statistics.
        norm_obs_clip: bound of normalized observations.
        norm_obs_var_clip: lower limit of the variance of observations.
        orthogonal_init: whether to initialize weights orthogonally, with gain sqrt 2 in hidden
            layers, 1 in the LSTM, 0.01 for the policy and 1 for the value, and biases with zero.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        action_size: int,
        hidden_sizes: Sizes = None,
        lstm_size: int = 256,
        nonlinearity: Callable[[], torch.nn.Module] = torch.nn.ReLU,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        orthogonal_init: bool = False,
    ) -> None:
        super().__init__(observation_shape, normalize_observation, norm_obs_clip, norm_obs_var_clip)
        self._action_size = action_size
        self._obs_n_dim = self._obs_ndim  # For subclasses with their own forward().
        hidden_sizes = [256, 256] if hidden_sizes is None else hidden_sizes
        self.mlp = MlpModel(self._obs_size, hidden_sizes, nonlinearity=nonlinearity)
        self.lstm = torch.nn.LSTM(lstm_input_size(self.mlp.output_size, action_size), lstm_size)
        self.head = torch.nn.Linear(lstm_size, action_size * 2 + 1)
        if orthogonal_init:
            gains = torch.tensor([0.01] * action_size * 2 + [1.0])
            initialize_orthogonally(self, {self.head: gains.unsqueeze(1)})

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: torch.Tensor,
        prev_reward: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, RnnState]:
        """Compute the policy and the value.

        Args:
            observation: observations [...,*observation_shape] with zero to two leading dimensions.
            prev_action: previous actions [...,A].
            prev_reward: previous rewards [...].
            init_rnn_state: state (h, c) before the first step, [1,B,H] each; None for zeros.
            reset: mask [T,B], True where an episode begins: the state before that step is zero;
                None if there is no such step.

        Returns:
            Means [...,A] and log standard deviations [...,A] of the actions, values [...], and
            the state [1,B,H] after the last step.
        """
        flat, lead = self.fold_observation(observation)
        lstm_out, rnn_state = run_lstm(
            self.lstm, self.mlp(flat), prev_action, prev_reward, init_rnn_state, lead, reset
        )
        mu, log_std, v = self.head(lstm_out).split([self._action_size, self._action_size, 1], -1)
        v = v.squeeze(-1)
        mu, log_std, v = lead.restore_each(mu, log_std, v)
        return mu, log_std, v, rnn_state

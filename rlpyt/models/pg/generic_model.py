"""Actor-critics built from the spaces of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlpyt.models.encoders import make_encoder
from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.policy_heads import join_encoded_action, make_policy_head, restore_all
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size, run_lstm
from rlpyt.models.utils import initialize_orthogonally
from rlpyt.utils.types import Nested

Nonlinearity = Callable[[], torch.nn.Module]


class _EncodingModel(torch.nn.Module):
    """Base class of models with an encoder of observations."""

    def __init__(self, observation_space: Any, **settings: Any) -> None:
        super().__init__()
        self.encoder = make_encoder(observation_space, **settings)

    def update_obs_rms(self, observation: Nested) -> None:
        """Update the running statistics with observations, if observations are normalized."""
        self.encoder.update_obs_rms(observation)


class GenericFfModel(_EncodingModel):
    """Actor-critic: an encoder, then separate perceptrons for the policy and the value.

    Vectors reach both perceptrons unchanged; the convolutions of images are shared.

    Args:
        observation_space: observation space: arrays, choices, or a record of such.
        action_space: action space: choices, real numbers, or a record of such.
        hidden_sizes: widths of the hidden layers of each perceptron.
        nonlinearity: class of the modules between these layers.
        init_log_std: initial value of the log standard deviation of continuous actions, in units of
            half their range.
        normalize_observation: whether arrays other than images are normalized by their running
            mean and variance, which are buffers and change only in :meth:`update_obs_rms`.
        norm_obs_clip: bound of normalized values.
        norm_obs_var_clip: lower limit of the variance.
        image_kwargs: arguments of :class:`~rlpyt.models.encoders.ImageEncoder`.
        orthogonal_init: whether to initialize weights orthogonally, with gain sqrt 2 in hidden
            layers, 0.01 for the policy and 1 for the value, and biases with zero.

    Raises:
        ValueError: if a space is of an unknown kind.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 6.1.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        hidden_sizes: Sizes = (64, 64),
        nonlinearity: Nonlinearity = torch.nn.Tanh,
        init_log_std: float = -0.5,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        image_kwargs: dict[str, Any] | None = None,
        orthogonal_init: bool = False,
    ) -> None:
        super().__init__(
            observation_space,
            normalize_observation=normalize_observation,
            norm_obs_clip=norm_obs_clip,
            norm_obs_var_clip=norm_obs_var_clip,
            image_kwargs=image_kwargs,
        )
        n_features = self.encoder.output_size
        self.pi = MlpModel(n_features, hidden_sizes, nonlinearity=nonlinearity)
        self.head = make_policy_head(action_space, self.pi.output_size, init_log_std)
        self.v = MlpModel(n_features, hidden_sizes, 1, nonlinearity)
        if orthogonal_init:
            policy = dict.fromkeys(self.head.modules(), 0.01)
            initialize_orthogonally(self, {**policy, self.v.model[-1]: 1.0})

    def forward(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Nested:
        """Compute the policy and the value.

        Args:
            observation: observations, [...] in every field, with zero to two leading dimensions.
            prev_action: not used.
            prev_reward: not used.

        Returns:
            The outputs of the policy head, then values [...]: ``(pi, v)`` for choices,
            ``(mu, log_std, v)`` for real numbers, and a tuple for each field, then v, for records.
        """
        features, lead = self.encoder(observation)
        policy = self.head(self.pi(features))
        return restore_all((*policy, self.v(features).squeeze(-1)), lead)


class GenericLstmModel(_EncodingModel):
    """Recurrent actor-critic: the policy and the value share encoder, perceptron and LSTM.

    Args:
        observation_space: observation space: arrays, choices, or a record of such.
        action_space: action space: choices, real numbers, or a record of such.
        hidden_sizes: widths of the hidden layers before the LSTM.
        lstm_size: hidden size H of the LSTM.
        nonlinearity: class of the modules after the hidden layers.
        init_log_std: initial value of the log standard deviation of continuous actions, in units of
            half their range.
        normalize_observation: whether arrays other than images are normalized.
        norm_obs_clip: bound of normalized values.
        norm_obs_var_clip: lower limit of the variance.
        image_kwargs: arguments of :class:`~rlpyt.models.encoders.ImageEncoder`.
        orthogonal_init: whether to initialize weights orthogonally, with gain sqrt 2 in hidden
            layers, 1 in the LSTM, 0.01 for the policy and 1 for the value, and biases with zero.

    Raises:
        ValueError: if a space is of an unknown kind.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        hidden_sizes: Sizes = 64,
        lstm_size: int = 128,
        nonlinearity: Nonlinearity = torch.nn.Tanh,
        init_log_std: float = -0.5,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        image_kwargs: dict[str, Any] | None = None,
        orthogonal_init: bool = False,
    ) -> None:
        super().__init__(
            observation_space,
            normalize_observation=normalize_observation,
            norm_obs_clip=norm_obs_clip,
            norm_obs_var_clip=norm_obs_var_clip,
            image_kwargs=image_kwargs,
        )
        self.mlp = MlpModel(self.encoder.output_size, hidden_sizes, nonlinearity=nonlinearity)
        self.head = make_policy_head(action_space, lstm_size, init_log_std)
        input_size = lstm_input_size(self.mlp.output_size, self.head.encoding_size)
        self.lstm = torch.nn.LSTM(input_size, lstm_size)
        self.v = torch.nn.Linear(lstm_size, 1)
        if orthogonal_init:
            policy = dict.fromkeys(self.head.modules(), 0.01)
            initialize_orthogonally(self, {**policy, self.v: 1.0})

    def forward(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None = None,
    ) -> Nested:
        """Compute the policy and the value.

        Args:
            observation: observations, [...] in every field, with zero to two leading dimensions.
            prev_action: previous actions, [...] in every field, one-hot or real numbers.
            prev_reward: previous rewards [...].
            init_rnn_state: state (h, c) before the first step, [1,B,H] each; None for zeros.
            reset: mask [T,B], True where an episode begins: the state before that step is zero;
                None if there is no such step.

        Returns:
            The outputs of :class:`GenericFfModel`, and the state [1,B,H] after the last step.
        """
        features, lead = self.encoder(observation)
        prev_action = join_encoded_action(prev_action, lead)
        lstm_out, rnn_state = run_lstm(
            self.lstm, self.mlp(features), prev_action, prev_reward, init_rnn_state, lead, reset
        )
        policy = self.head(lstm_out)
        v = self.v(lstm_out).squeeze(-1)
        return (*restore_all((*policy, v), lead), rnn_state)

"""Actor-critics which are made from the spaces of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlpyt.models.encoders import make_encoder
from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.policy_heads import join_encoded_action, make_policy_head, restore_all
from rlpyt.models.rnn import RnnState as RnnState, lstm_input_size, run_lstm
from rlpyt.utils.types import Nested

Nonlinearity = Callable[[], torch.nn.Module]


class _EncodingModel(torch.nn.Module):
    """Base: the encoder of observations."""

    def __init__(self, observation_space: Any, **settings: Any) -> None:
        super().__init__()
        self.encoder = make_encoder(observation_space, **settings)

    def update_obs_rms(self, observation: Nested) -> None:
        """Take observations into the running statistics, if observations are normalised."""
        self.encoder.update_obs_rms(observation)


class GenericFfModel(_EncodingModel):
    """An encoder, and two separate perceptrons on its features: for the policy and for the value.

    Vectors reach both perceptrons as they are; convolutions of images are shared.

    Args:
        observation_space: of the environment: arrays, choices, or a record of such.
        action_space: of the environment: choices, real numbers, or a record of such.
        hidden_sizes: widths of the hidden layers of each perceptron.
        nonlinearity: class of the modules between these layers.
        init_log_std: first value of the log standard deviation of continuous actions, in units of
            half their range.
        normalize_observation: whether arrays which are no images are normalised by their running
            mean and variance, which are buffers and change only in :meth:`update_obs_rms`.
        norm_obs_clip: bound of normalised values.
        norm_obs_var_clip: lower limit of the variance.
        image_kwargs: of :class:`~rlpyt.models.encoders.ImageEncoder`.

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

    def forward(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Nested:
        """Compute the policy and the value.

        Args:
            observation: [...] in every field, with zero to two leading dimensions.
            prev_action: not used.
            prev_reward: not used.

        Returns:
            The outputs of the policy head, then [...] values: ``(pi, v)`` for choices,
            ``(mu, log_std, v)`` for real numbers, and a tuple for each field, then v, for records.
        """
        features, lead = self.encoder(observation)
        policy = self.head(self.pi(features))
        return restore_all((*policy, self.v(features).squeeze(-1)), lead)


class GenericLstmModel(_EncodingModel):
    """An encoder, a perceptron and an LSTM, which the policy and the value share.

    Args:
        observation_space: of the environment: arrays, choices, or a record of such.
        action_space: of the environment: choices, real numbers, or a record of such.
        hidden_sizes: widths of the hidden layers before the LSTM.
        lstm_size: hidden size H of the LSTM.
        nonlinearity: class of the modules behind the hidden layers.
        init_log_std: as of :class:`GenericFfModel`, like all that follow.
        normalize_observation: whether arrays which are no images are normalised.
        norm_obs_clip: bound of normalised values.
        norm_obs_var_clip: lower limit of the variance.
        image_kwargs: of :class:`~rlpyt.models.encoders.ImageEncoder`.

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
            observation: [...] in every field, with zero to two leading dimensions.
            prev_action: [...] in every field, one-hot or real numbers.
            prev_reward: [...]
            init_rnn_state: (h, c), [1,B,H] each; None is zeros.
            reset: [T,B] True where an episode begins: the state before that step is zero; None is
                nowhere.

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

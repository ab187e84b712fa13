"""Perceptrons around an LSTM: the policy and the critics of recurrent SAC."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlpyt.models.dqn.torsos import MlpTrunk
from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.rnn import RnnState, lstm_input_size, run_lstm
from rlpyt.utils.tensor import LeadingDims, as_float
from rlpyt.utils.types import Nested


class _LstmModel(MlpTrunk):
    """Base class: all hidden layers but the last, an LSTM, and the last layer in the head."""

    def __init__(
        self,
        observation_shape: Sequence[int],
        hidden_sizes: Sizes,
        action_size: int,
        lstm_size: int,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, layer_norm=layer_norm)
        self.lstm = torch.nn.LSTM(lstm_input_size(self.body.output_size, action_size), lstm_size)

    def _remember(
        self,
        observation: torch.Tensor,
        prev_action: torch.Tensor,
        prev_reward: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None,
    ) -> tuple[torch.Tensor, RnnState, LeadingDims]:
        """Return the outputs [T*B,H] of the LSTM, its state, and the leading dimensions."""
        features, lead = self.features(observation)
        inputs = (features, prev_action, prev_reward, init_rnn_state, lead, reset)
        return *run_lstm(self.lstm, *inputs), lead


class PiLstmModel(_LstmModel):
    """A recurrent stochastic policy: the mean and log standard deviation of a Gaussian.

    Args:
        observation_shape: shape of one observation, which is flattened.
        action_size: number of dimensions A of an action.
        hidden_sizes: widths of the hidden layers, the last of them after the LSTM.
        lstm_size: hidden size H of the LSTM.

    Raises:
        ValueError: if observations are not one array.

    Source: Ni et al. 2022, arXiv:2110.05038, section 4.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        action_size: int,
        hidden_sizes: Sizes = (128, 128),
        lstm_size: int = 128,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, action_size, lstm_size)
        self.head = MlpModel(lstm_size, self.head_sizes, 2 * action_size)

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: torch.Tensor,
        prev_reward: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, RnnState]:
        """Compute the policy.

        Args:
            observation: observations [...,*observation_shape] with zero to two leading dimensions.
            prev_action: previous actions [...,A].
            prev_reward: previous rewards [...].
            init_rnn_state: state (h, c) before the first step, [1,B,H] each; None for zeros.
            reset: mask [T,B], True where an episode begins: the state before that step is zero;
                None if there is no such step.

        Returns:
            Means and log standard deviations [...,A], and the state [1,B,H] after the last step.
        """
        inputs = (observation, prev_action, prev_reward, init_rnn_state, reset)
        lstm_out, rnn_state, lead = self._remember(*inputs)
        mu, log_std = lead.restore(self.head(lstm_out)).chunk(2, dim=-1)
        return mu, log_std, rnn_state


class QofMuLstmModel(_LstmModel):
    """The value of an action after a history of observations, actions and rewards.

    The action enters behind the LSTM, so that the state does not depend on it.

    Args:
        observation_shape: shape of one observation, which is flattened.
        action_size: number of dimensions A of an action.
        hidden_sizes: widths of the hidden layers, the last of them after the LSTM.
        lstm_size: hidden size H of the LSTM.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.

    Raises:
        ValueError: if observations are not one array.

    Source: Ni et al. 2022, arXiv:2110.05038, section 4.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        action_size: int,
        hidden_sizes: Sizes = (128, 128),
        lstm_size: int = 128,
        layer_norm: bool = False,
    ) -> None:
        super().__init__(observation_shape, hidden_sizes, action_size, lstm_size, layer_norm)
        self.head = MlpModel(lstm_size + action_size, self.head_sizes, 1, layer_norm=layer_norm)

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: torch.Tensor,
        prev_reward: torch.Tensor,
        action: torch.Tensor,
        init_rnn_state: Nested,
        reset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, RnnState]:
        """Estimate the values of actions.

        Args:
            observation: observations [...,*observation_shape] with zero to two leading dimensions.
            prev_action: previous actions [...,A].
            prev_reward: previous rewards [...].
            action: actions, T*B*A elements.
            init_rnn_state: state (h, c) before the first step, [1,B,H] each; None for zeros.
            reset: mask [T,B], True where an episode begins: the state before that step is zero;
                None if there is no such step.

        Returns:
            Values [...], and the state [1,B,H] after the last step.
        """
        inputs = (observation, prev_action, prev_reward, init_rnn_state, reset)
        lstm_out, rnn_state, lead = self._remember(*inputs)
        q = self.head(torch.cat([lstm_out, as_float(action).reshape(lead.T * lead.B, -1)], dim=1))
        return lead.restore(q.squeeze(-1)), rnn_state

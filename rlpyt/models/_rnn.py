"""The recurrent state, and the LSTM step that all recurrent models share."""

from __future__ import annotations

from typing import NamedTuple

import torch

from rlpyt.models._inputs import LeadingDims
from rlpyt.models._rnn_resets import run_lstm_with_resets
from rlpyt.utils.collections import record
from rlpyt.utils.types import Nested


@record
class RnnState(NamedTuple):
    """State of an LSTM: N layers, batch B, hidden size H."""

    h: torch.Tensor  # [N,B,H] output
    c: torch.Tensor  # [N,B,H] cell


def lstm_input_size(feature_size: int, action_size: int) -> int:
    """Number of inputs of an LSTM that :func:`run_lstm` feeds."""
    return feature_size + action_size + 1


def run_lstm(
    lstm: torch.nn.LSTM,
    features: torch.Tensor,
    prev_action: torch.Tensor,
    prev_reward: torch.Tensor,
    init_rnn_state: Nested,
    lead: LeadingDims,
    reset: torch.Tensor | None = None,
) -> tuple[torch.Tensor, RnnState]:
    """Run the LSTM over T steps of the features, the previous action and the previous reward.

    Args:
        lstm: Time-major LSTM of :func:`lstm_input_size` inputs.
        features: [T*B,F] What the layers before made of the observation.
        prev_action: [T*B*A elements] One-hot, or continuous.
        prev_reward: [T*B elements]
        init_rnn_state: (h, c), [N,B,H] each; None is zeros.
        lead: T and B.
        reset: [T,B] True where the state before the step is zero; None is nowhere.

    Returns:
        [T*B,H] outputs, and the state [N,B,H] after the last step.

    Source: prev_action and prev_reward as inputs: Wang et al. 2016, arXiv:1611.05763.
    """
    inputs = (features, prev_action, prev_reward)
    lstm_input = torch.cat([x.reshape(lead.T, lead.B, -1) for x in inputs], dim=2)
    if reset is not None:
        output, (h, c) = run_lstm_with_resets(lstm, lstm_input, init_rnn_state, reset)
        return output.flatten(0, 1), RnnState(h=h, c=c)
    if init_rnn_state is not None:
        h, c = init_rnn_state
        init_rnn_state = (h.contiguous(), c.contiguous())  # As cudnn demands.
    output, (h, c) = lstm(lstm_input, init_rnn_state)
    return output.reshape(lead.T * lead.B, -1), RnnState(h=h, c=c)

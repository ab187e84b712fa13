"""Recurrent networks over sequences in which episodes end: state, unrolling, LSTM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import PackedSequence

from rlpyt.utils.buffer import buffer_func, buffer_to
from rlpyt.utils.collections import record
from rlpyt.utils.quick_args import accepts
from rlpyt.utils.tensor import LeadingDims, as_float
from rlpyt.utils.types import Nested


@record
class RnnState(NamedTuple):
    """State of an LSTM: N layers, batch B, hidden size H."""

    h: torch.Tensor  # [N,B,H] output
    c: torch.Tensor  # [N,B,H] cell


class Memory(NamedTuple):
    """Recurrent states of several networks before a sequence [T,B], and the resets within it."""

    rnn_states: Mapping[str, Nested]  # [N,B,H] by name of the network; zeros if it has none
    reset: torch.Tensor | None  # [T,B] on the CPU, True where states are zero before the step


# --- Any network ----------------------------------------------------------------------------------


def unroll(
    network: Callable[..., tuple[torch.Tensor, Nested]],
    inputs: tuple[Nested, ...],
    init_rnn_state: Nested,
    reset: torch.Tensor | None,
    instance: Any,
    method: str = "forward",
) -> tuple[torch.Tensor, Nested]:
    """Run a recurrent network whose state is zero before some of the steps.

    A network that does not take ``reset`` runs piece by piece; each piece starts where the state is
    zero.

    Args:
        network: function that takes ``inputs``, the state and, optionally, ``reset=``, and
            returns outputs [T,B,...] and the state [N,B,H] after the last step.
        inputs: arrays [T,B,...].
        init_rnn_state: state [N,B,H] before the first step, or None for zeros.
        reset: mask [T,B] of steps before which the state is zeroed, or None.
        instance: object that ``network`` calls.
        method: name of the method of ``instance`` that may take ``reset``.

    Returns:
        Outputs [T,B,...], and the state [N,B,H] after the last step.
    """
    if reset is None or not reset.any():
        return network(*inputs, init_rnn_state)
    if accepts(type(instance), method, "reset"):
        return network(*inputs, init_rnn_state, reset=reset)
    T = len(reset)
    mask = reset.pieces.reset if isinstance(reset, Resets) and reset.pieces else reset
    starts = sorted({0, *reset.any(1).nonzero().squeeze(1).tolist()})
    rnn_state, outputs = init_rnn_state, []
    for start, stop in zip(starts, [*starts[1:], T]):
        rnn_state = zeroed(rnn_state, mask[start])
        piece = (_rows(part, start, stop) for part in inputs)
        output, rnn_state = network(*piece, rnn_state)
        outputs.append(output)
    return torch.cat(outputs), rnn_state


def _rows(part: Any, start: int, stop: int) -> Any:
    return part[start:stop]


def masked_rows(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` [N,M,...] with zeros where ``mask`` [N,M] or [1,M] is true."""
    return tensor.masked_fill(mask[(...,) + (None,) * (tensor.dim() - mask.dim())], 0)


def zeroed(rnn_state: Nested, mask: torch.Tensor) -> Nested:
    """Return the state [N,B,H] with zeros where ``mask`` [B] is true."""
    return buffer_func(rnn_state, lambda part: masked_rows(part, mask.to(part.device)[None]))


# --- LSTM -----------------------------------------------------------------------------------------


def lstm_input_size(feature_size: int, action_size: int) -> int:
    """Return the number of inputs of an LSTM that :func:`run_lstm` feeds."""
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
        lstm: time-major LSTM with :func:`lstm_input_size` inputs.
        features: features [T*B,F] of the observations.
        prev_action: previous actions, T*B*A elements, one-hot or continuous.
        prev_reward: previous rewards, T*B elements.
        init_rnn_state: state (h, c) before the first step, [N,B,H] each; None for zeros.
        lead: leading dimensions T and B.
        reset: mask [T,B], True where the state before the step is zero; None if it never is.

    Returns:
        Outputs [T*B,H], and the state [N,B,H] after the last step.

    Source: prev_action and prev_reward as inputs: Wang et al. 2016, arXiv:1611.05763.
    """
    inputs = (features, as_float(prev_action), as_float(prev_reward))
    lstm_input = torch.cat([x.reshape(lead.T, lead.B, -1) for x in inputs], dim=2)
    if reset is not None:
        output, (h, c) = run_lstm_with_resets(lstm, lstm_input, init_rnn_state, reset)
        return output.flatten(0, 1), RnnState(h=h, c=c)
    if init_rnn_state is not None:
        h, c = init_rnn_state
        init_rnn_state = (h.contiguous(), c.contiguous())  # Required by cuDNN.
    output, (h, c) = lstm(lstm_input, init_rnn_state)
    return output.reshape(lead.T * lead.B, -1), RnnState(h=h, c=c)


class _Pieces(NamedTuple):
    """[T,B] sequences cut before every reset into K pieces, the longest first."""

    reset: torch.Tensor  # [T,B]
    rows: torch.Tensor  # [T*B] index t * B + b of every step, in the order of a PackedSequence
    batch_sizes: Any  # [length of the longest] number of pieces with this step, on the CPU
    b: torch.Tensor  # [K] the sequence of every piece
    is_first: torch.Tensor  # [K] whether a piece continues from the initial state
    last: torch.Tensor  # [B] the last piece of every sequence


class Resets(torch.Tensor):
    """Mask [T,B] on the CPU, True where the state before a step is zero; also holds device cuts."""

    pieces: _Pieces | None = None  # Their indexes are on the device.


def move_with_resets(
    batch: Nested, masks: Sequence[torch.Tensor | None], device: torch.device
) -> tuple[Nested, Sequence[Any]]:
    """Move ``batch`` to ``device`` together with the places where sequences are cut.

    Args:
        batch: tensors to move.
        masks: masks [T,B] on the CPU of steps before which the recurrent state is zero; None if
            there are none.
        device: device of the network.

    Returns:
        The batch on the device, and the masks, still on the CPU, for networks on ``device``.
    """
    if device.type == "cpu":
        return batch, masks
    cut = [None if mask is None or not mask.any() else _cut(mask) for mask in masks]
    batch, cut = _move(batch, cut, device)
    resets = [mask if mask is None else mask.as_subclass(Resets) for mask in masks]
    for reset, pieces in zip(resets, cut):
        if reset is not None:
            reset.pieces = pieces
    return batch, resets


def _move(
    batch: Nested, cut: Sequence[_Pieces | None], device: torch.device
) -> tuple[Nested, list[Any]]:
    """Move ``batch`` and the indexes of all pieces in one copy."""
    batch, moved = buffer_to(
        (batch, tuple(x and x._replace(batch_sizes=None) for x in cut)), device
    )
    return batch, [x and there._replace(batch_sizes=x.batch_sizes) for x, there in zip(cut, moved)]


def run_lstm_with_resets(
    lstm: torch.nn.LSTM, lstm_input: torch.Tensor, init_rnn_state: Nested, reset: torch.Tensor
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run a time-major LSTM whose state is zero before some of the steps.

    Sequences are cut into pieces without resets, which the LSTM processes side by side: nothing is
    padded, and the number of consecutive steps is the length of the longest piece.

    Args:
        lstm: time-major LSTM.
        lstm_input: inputs [T,B,F].
        init_rnn_state: state (h, c) before the first step, [N,B,H] each; None for zeros.
        reset: mask [T,B], True where the state before the step is zero; best on the CPU. If the
            LSTM is on another device, make it by :func:`move_with_resets`, so nothing is copied.

    Returns:
        Outputs [T,B,H], and the state (h, c), [N,B,H] each, after the last step.
    """
    T, B, _ = lstm_input.shape
    pieces: Any = reset.pieces if isinstance(reset, Resets) else None
    if pieces is None:
        _, (pieces,) = _move(None, [_cut(reset.cpu())], lstm_input.device)
    packed = PackedSequence(lstm_input.flatten(0, 1)[pieces.rows], pieces.batch_sizes)
    output, state = lstm(packed, _first_states(init_rnn_state, pieces))
    ordered = torch.empty_like(output.data).index_copy(0, pieces.rows, output.data)
    h, c = (part.index_select(1, pieces.last) for part in state)
    return ordered.reshape(T, B, -1), (h, c)


def _cut(reset: torch.Tensor) -> _Pieces:
    T, B = reset.shape
    starts_here = reset.T.clone()  # [B,T], so that the steps of one sequence are neighbours.
    starts_here[:, 0] = True
    starts = starts_here.reshape(-1).nonzero().squeeze(1)
    ends = torch.cat([starts[1:], starts.new_tensor([T * B])])
    lengths, order = (ends - starts).sort(descending=True, stable=True)
    starts = starts[order]
    steps = torch.arange(int(lengths[0]))[:, None]
    exists = steps < lengths  # [longest,K]
    places = (starts + steps)[exists]
    b = starts // T
    last = torch.empty(B, dtype=torch.long)
    is_last = starts + lengths == (b + 1) * T
    last[b[is_last]] = is_last.nonzero().squeeze(1)
    return _Pieces(
        reset=reset,
        rows=places % T * B + places // T,
        batch_sizes=exists.sum(1),
        b=b,
        is_first=(starts % T == 0) & ~reset[0, b],
        last=last,
    )


def _first_states(init_rnn_state: Nested, pieces: _Pieces) -> Any:
    if init_rnn_state is None:
        return None

    def pick(part: torch.Tensor) -> torch.Tensor:
        return part.index_select(1, pieces.b).masked_fill_(~pieces.is_first[:, None], 0)

    return tuple(pick(part) for part in init_rnn_state)

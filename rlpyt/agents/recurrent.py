"""Recurrent states of agents: stored by the sampler, as records, and in snapshots."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import fields_of, record_class
from rlpyt.utils.types import Nested


def finish_step(agent: Any, outputs: Nested, rnn_state: Nested) -> tuple[Any, Nested]:
    """Advance the recurrent state of ``agent``.

    Args:
        agent: agent that keeps a recurrent state, whose network has computed a step.
        outputs: outputs [B,...] of the network.
        rnn_state: state [N,B,H] after the step.

    Returns:
        ``outputs`` and the state before the step, as the sampler stores it: the layer dimension N
        goes second, so that the batch comes first as in all samples, [B,N,H].
    """
    before = agent.prev_rnn_state
    if before is None:
        before = buffer_func(rnn_state, torch.zeros_like)
    outputs, before = agent.for_sampler((outputs, buffer_func(before, torch.transpose, 0, 1)))
    agent.advance_rnn_state(rnn_state)
    return outputs, before


def reset_keyword(reset: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Return the keyword ``reset`` [T,B] of a network, or none if no step resets its state."""
    return {} if reset is None or not reset.any() else {"reset": reset}


def _tuple_class(n: int) -> Any:
    """Return the record class of plain tuples with ``n`` items."""
    return record_class("StateTuple", tuple(f"item_{i}" for i in range(n)))


def as_record(rnn_state: Nested) -> Nested:
    """Replace plain tuples by records, which index all their arrays at once."""
    if type(rnn_state) is not tuple:
        return rnn_state
    return _tuple_class(len(rnn_state))(*map(as_record, rnn_state))


def as_returned(inputs: Nested) -> Nested:
    """Undo :func:`as_record`."""
    if not isinstance(inputs, tuple) or type(inputs) is not _tuple_class(len(inputs)):
        return inputs
    return tuple(map(as_returned, inputs))


def set_zero(rnn_state: Nested, idx: int) -> None:
    """Set the state [N,B,H] of environment ``idx`` to zero, in place, unless it is None."""
    if rnn_state is not None:
        rnn_state[:, idx] = 0


def to_plain(states: Any) -> Any:
    """Replace records by dicts, so that a snapshot holds only arrays and plain values."""
    if states is None or isinstance(states, torch.Tensor):
        return states
    if fields_of(states):
        parts = dict(zip(states._fields, map(to_plain, states), strict=True))
        return {"record": type(states).__name__, "fields": parts}
    return [to_plain(part) for part in states]


def from_plain(plain: Any) -> Any:
    """Undo :func:`to_plain`."""
    if plain is None or isinstance(plain, torch.Tensor):
        return plain
    if isinstance(plain, dict):
        fields = plain["fields"]
        return record_class(plain["record"], tuple(fields))(*map(from_plain, fields.values()))
    return tuple(from_plain(part) for part in plain)

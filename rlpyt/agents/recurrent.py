"""The recurrent state that agents keep between sampled steps: one, or one for each half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import fields_of, record_class
from rlpyt.utils.types import Nested

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
else:
    BaseAgent = object  # ``base`` imports this module.


class RecurrentAgentMixin(BaseAgent):
    """Mixin that keeps the recurrent state of the last step; list it before the agent class.

    The agent's ``step`` passes ``prev_rnn_state`` to the model, and the model's new state to
    :meth:`advance_rnn_state`. None stands for zeros. While the agent trains or is evaluated, the
    state from sampling is set aside. A model may return its state as a plain tuple, as an LSTM of
    torch does: the agent keeps it as a record, and gives the model plain tuples.
    """

    recurrent = True
    _no_rnn_state: Any = None
    _prev_rnn_state: Any = None
    _sample_rnn_state: Any = None

    def _build_models(self) -> None:
        super()._build_models()
        self._prev_rnn_state = self._sample_rnn_state = self._no_rnn_state  # New networks.

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B,H] before the next step, or None."""
        return self._prev_rnn_state

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B,H] after a step."""
        self._prev_rnn_state = new_rnn_state

    def run_model(self, model: Any, *inputs: Nested, **kwargs: Any) -> Any:
        outputs = super().run_model(model, *map(_as_returned, inputs), **kwargs)
        if isinstance(outputs, tuple) and type(outputs[-1]) is tuple:
            *others, rnn_state = outputs
            outputs = (*others, _as_record(rnn_state))
        return outputs

    def _set_rnn_state(self, state: Nested) -> None:
        self._prev_rnn_state = state

    def reset(self) -> None:
        self._set_rnn_state(self._no_rnn_state)

    def reset_one(self, idx: int) -> None:
        _set_zero(self.prev_rnn_state, idx)

    def _leave_sampling(self) -> None:
        if self._mode == "sample":
            self._sample_rnn_state = self._prev_rnn_state
        self._set_rnn_state(self._no_rnn_state)

    def train_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().train_mode(itr)

    def sample_mode(self, itr: int) -> None:
        if self._mode != "sample":
            self._set_rnn_state(self._sample_rnn_state)
        super().sample_mode(itr)

    def eval_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().eval_mode(itr)

    def sample_state_dict(self) -> dict[str, Any]:
        state = self._prev_rnn_state if self._mode == "sample" else self._sample_rnn_state
        return {**super().sample_state_dict(), "rnn_states": _to_plain(state)}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        super().load_sample_state_dict(state)
        states = _from_plain(state["rnn_states"])
        self._sample_rnn_state = self._no_rnn_state if states is None else states
        if self._mode == "sample":
            self._set_rnn_state(self._sample_rnn_state)


class AlternatingRecurrentAgentMixin(RecurrentAgentMixin):
    """Mixin that keeps one recurrent state for each half of the environments, which take turns.

    ``prev_rnn_state`` and :meth:`reset_one` refer to the active half, which acts next;
    :meth:`advance_rnn_state` stores its new state and switches to the other half.
    """

    alternating = True
    _alt = 0
    _no_rnn_state = _prev_rnn_state = _sample_rnn_state = (None, None)

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B/2,H] of the active half before its next step, or None."""
        return self._prev_rnn_state[self._alt]

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B/2,H] of the active half after a step; switch to the other half."""
        first, second = self._prev_rnn_state
        self._prev_rnn_state = (first, new_rnn_state) if self._alt else (new_rnn_state, second)
        self.toggle_alt()

    def get_alt(self) -> int:
        """Return the index of the active half, 0 or 1."""
        return self._alt

    def toggle_alt(self) -> None:
        self._alt ^= 1

    def _set_rnn_state(self, state: Nested) -> None:
        super()._set_rnn_state(state)
        self._alt = 0


def finish_step(agent: Any, outputs: Nested, rnn_state: Nested) -> tuple[Any, Nested]:
    """Advance the recurrent state of ``agent``.

    Args:
        agent: agent with a mixin of this module, whose network has computed a step.
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


def _tuple_class(n: int) -> Any:
    """Return the record class of plain tuples with ``n`` items."""
    return record_class("StateTuple", tuple(f"item_{i}" for i in range(n)))


def _as_record(rnn_state: Nested) -> Nested:
    """Replace plain tuples by records, which index all their arrays at once."""
    if type(rnn_state) is not tuple:
        return rnn_state
    return _tuple_class(len(rnn_state))(*map(_as_record, rnn_state))


def _as_returned(inputs: Nested) -> Nested:
    """Undo :func:`_as_record`."""
    if not isinstance(inputs, tuple) or type(inputs) is not _tuple_class(len(inputs)):
        return inputs
    return tuple(map(_as_returned, inputs))


def _set_zero(rnn_state: Nested, idx: int) -> None:
    """Set the state [N,B,H] of environment ``idx`` to zero, in place, unless it is None."""
    if rnn_state is not None:
        rnn_state[:, idx] = 0


def _to_plain(states: Any) -> Any:
    """Replace records by dicts, so that a snapshot holds only arrays and plain values."""
    if states is None or isinstance(states, torch.Tensor):
        return states
    if fields_of(states):
        parts = dict(zip(states._fields, map(_to_plain, states), strict=True))
        return {"record": type(states).__name__, "fields": parts}
    return [_to_plain(part) for part in states]


def _from_plain(plain: Any) -> Any:
    """Undo :func:`_to_plain`."""
    if plain is None or isinstance(plain, torch.Tensor):
        return plain
    if isinstance(plain, dict):
        fields = plain["fields"]
        return record_class(plain["record"], tuple(fields))(*map(_from_plain, fields.values()))
    return tuple(_from_plain(part) for part in plain)

"""The recurrent state that agents keep between sampled steps: one, or one for each half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

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
    state from sampling is set aside.
    """

    recurrent = True
    _prev_rnn_state: Nested = None
    _sample_rnn_state: Nested = None

    def _build_models(self) -> None:
        super()._build_models()
        self._prev_rnn_state = self._sample_rnn_state = None  # Those of earlier networks.

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B,H] before the next step, or None."""
        return self._prev_rnn_state

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B,H] after a step."""
        self._prev_rnn_state = new_rnn_state

    def reset(self) -> None:
        self._prev_rnn_state = None

    def reset_one(self, idx: int) -> None:
        _set_zero(self._prev_rnn_state, idx)

    def _leave_sampling(self) -> None:
        if self._mode == "sample":
            self._sample_rnn_state = self._prev_rnn_state
        self._prev_rnn_state = None

    def train_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().train_mode(itr)

    def sample_mode(self, itr: int) -> None:
        if self._mode != "sample":
            self._prev_rnn_state = self._sample_rnn_state
        super().sample_mode(itr)

    def eval_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().eval_mode(itr)

    def sample_state_dict(self) -> dict[str, Any]:
        state = self._prev_rnn_state if self._mode == "sample" else self._sample_rnn_state
        return {**super().sample_state_dict(), "rnn_states": _to_plain(state)}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        super().load_sample_state_dict(state)
        self._sample_rnn_state = _from_plain(state["rnn_states"])
        if self._mode == "sample":
            self._prev_rnn_state = self._sample_rnn_state


class AlternatingRecurrentAgentMixin(BaseAgent):
    """Mixin that keeps one recurrent state for each half of the environments, which take turns.

    ``prev_rnn_state`` and :meth:`reset_one` refer to the active half, which acts next;
    :meth:`advance_rnn_state` stores its new state and switches to the other half. Otherwise this
    mixin works like :class:`RecurrentAgentMixin`.
    """

    recurrent = True
    alternating = True
    _alt = 0
    _prev_rnn_state_pair: tuple[Nested, Nested] = (None, None)
    _sample_rnn_state_pair: tuple[Nested, Nested] = (None, None)

    def _build_models(self) -> None:
        super()._build_models()
        # Those of earlier networks.
        self._prev_rnn_state_pair = self._sample_rnn_state_pair = (None, None)

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B/2,H] of the active half before its next step, or None."""
        return self._prev_rnn_state_pair[self._alt]

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B/2,H] of the active half after a step; switch to the other half."""
        first, second = self._prev_rnn_state_pair
        pair = (first, new_rnn_state) if self._alt else (new_rnn_state, second)
        self._prev_rnn_state_pair = pair
        self.toggle_alt()

    def get_alt(self) -> int:
        """Return the index of the active half, 0 or 1."""
        return self._alt

    def toggle_alt(self) -> None:
        self._alt ^= 1

    def reset(self) -> None:
        self._prev_rnn_state_pair = (None, None)
        self._alt = 0

    def reset_one(self, idx: int) -> None:
        _set_zero(self.prev_rnn_state, idx)

    def _leave_sampling(self) -> None:
        if self._mode == "sample":
            self._sample_rnn_state_pair = self._prev_rnn_state_pair
        self._prev_rnn_state_pair = (None, None)
        self._alt = 0

    def train_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().train_mode(itr)

    def sample_mode(self, itr: int) -> None:
        if self._mode != "sample":
            self._prev_rnn_state_pair = self._sample_rnn_state_pair
            self._alt = 0
        super().sample_mode(itr)

    def eval_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().eval_mode(itr)

    def sample_state_dict(self) -> dict[str, Any]:
        pair = self._prev_rnn_state_pair if self._mode == "sample" else self._sample_rnn_state_pair
        return {**super().sample_state_dict(), "rnn_states": _to_plain(pair)}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        super().load_sample_state_dict(state)
        pair = _from_plain(state["rnn_states"])
        self._sample_rnn_state_pair = (None, None) if pair is None else pair
        if self._mode == "sample":
            self._prev_rnn_state_pair = self._sample_rnn_state_pair
            self._alt = 0


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

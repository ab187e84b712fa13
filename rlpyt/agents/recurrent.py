"""The recurrent state that agents keep between steps: one, or one for each half of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from rlpyt.utils.collections import record_class
from rlpyt.utils.types import Nested

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
else:
    BaseAgent = object  # The module of the base imports this one.


class _StatefulAgentMixin(BaseAgent):
    """Puts the state of sampling aside while the agent trains or is evaluated."""

    recurrent = True

    def _get_states(self) -> Any:
        """All that is remembered."""
        raise NotImplementedError

    def _set_states(self, states: Any) -> None:
        """Remember ``states`` in place of the current; None to remember nothing."""
        raise NotImplementedError

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sample_rnn_state: Any = None

    def reset(self) -> None:
        self._set_states(None)

    def train_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().train_mode(itr)

    def sample_mode(self, itr: int) -> None:
        if self._mode != "sample":
            self._set_states(self._sample_rnn_state)
        super().sample_mode(itr)

    def eval_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().eval_mode(itr)

    def _leave_sampling(self) -> None:
        if self._mode == "sample":
            self._sample_rnn_state = self._get_states()
        self._set_states(None)

    def sample_state_dict(self) -> dict[str, Any]:
        states = self._get_states() if self._mode == "sample" else self._sample_rnn_state
        return {**super().sample_state_dict(), "rnn_states": _to_plain(states)}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        super().load_sample_state_dict(state)
        states = _from_plain(state["rnn_states"])
        if self._mode == "sample":
            self._set_states(states)
        else:
            self._sample_rnn_state = states


class RecurrentAgentMixin(_StatefulAgentMixin):
    """Keeps the recurrent state of the last step; stands before the agent class among the bases.

    Whoever acts passes ``prev_rnn_state`` to the model and hands the new one to
    :meth:`advance_rnn_state`. None stands for zeros.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prev_rnn_state: Nested = None

    def _get_states(self) -> Any:
        return self._prev_rnn_state

    def _set_states(self, states: Any) -> None:
        self._prev_rnn_state = states

    def reset_one(self, idx: int) -> None:
        _zero(self._prev_rnn_state, idx)

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Remember the state [N,B,H] after a step."""
        self._prev_rnn_state = new_rnn_state

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B,H] before the next step, or None."""
        return self._prev_rnn_state


class AlternatingRecurrentAgentMixin(_StatefulAgentMixin):
    """Keeps one recurrent state for each half of the environments, which are stepped in turn.

    All methods act on the half which is exposed: :meth:`advance_rnn_state` stores its new state and
    exposes the other half.
    """

    alternating = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._alt = 0
        self._prev_rnn_state_pair: list[Nested] = [None, None]

    def _get_states(self) -> Any:
        return tuple(self._prev_rnn_state_pair)

    def _set_states(self, states: Any) -> None:
        self._prev_rnn_state_pair = [None, None] if states is None else list(states)
        self._alt = 0

    def reset_one(self, idx: int) -> None:
        _zero(self.prev_rnn_state, idx)

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Remember the state [N,B/2,H] of the exposed half after a step; expose the other half."""
        self._prev_rnn_state_pair[self._alt] = new_rnn_state
        self.toggle_alt()

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B/2,H] of the exposed half before its next step, or None."""
        return self._prev_rnn_state_pair[self._alt]

    def get_alt(self) -> int:
        """Which half is exposed, 0 or 1."""
        return self._alt

    def toggle_alt(self) -> None:
        self._alt ^= 1


def _zero(rnn_state: Nested, idx: int) -> None:
    """Set the state [N,B,H] of environment ``idx`` to zero, in place; None is zero already."""
    if rnn_state is not None:
        rnn_state[:, idx] = 0


def _to_plain(states: Any) -> Any:
    """Replace records by dicts, so that a snapshot holds only arrays and plain values."""
    if states is None or isinstance(states, torch.Tensor):
        return states
    if hasattr(states, "_fields"):
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

"""Storage of recurrent states for some of the rows only."""

from __future__ import annotations

from typing import Any

from rlpyt.replays._memory import Allocate
from rlpyt.replays._ring import as_numpy, leaves_of, named_leaves, write_rows
from rlpyt.replays._window import Window
from rlpyt.utils.types import NDArray, Nested


def first_multiple(t: int, interval: int) -> int:
    """Rows from row ``t`` to the next one which is a multiple of ``interval``."""
    return -t % interval


class RnnStates:
    """The recurrent state before every ``interval``-th row of every environment.

    Args:
        example: one state, [N,H] or a record of such.
        window: owner of T, a multiple of ``interval``, B and the cursor.
        interval: rows.
        allocate: makes the arrays.

    Attributes:
        states: [T / interval,B,N,H], or a record of such.
        arrays: name to array.
    """

    def __init__(self, example: Nested, window: Window, interval: int, allocate: Allocate) -> None:
        self.window = window
        self.interval = interval
        self.n_slots = window.T // interval
        self.states = allocate(example, (self.n_slots, window.B))
        self.arrays: dict[str, NDArray] = dict(named_leaves(self.states, "prev_rnn_state"))

    def check(self, states: Nested, n_rows: int) -> None:
        """Raise ``ValueError`` unless ``states`` are of ``n_rows`` rows, like the example."""
        shapes = {name: x.shape for name, x in named_leaves(states, "prev_rnn_state")}
        given = {name: tuple(shape) for name, shape in shapes.items()}
        stored = {name: (n_rows, *array.shape[1:]) for name, array in self.arrays.items()}
        if given != stored:
            raise ValueError(
                f"samples have recurrent states of the shapes {given}, this buffer stores {stored} "
                "([T',B,N,H]): append records with the fields of the example it was made with"
            )

    def write(self, t: int, states: Nested) -> None:
        """Of ``states`` [T',B,N,H] from row t on, keep those which are stored."""
        first = first_multiple(t, self.interval)
        for array, source in zip(self.arrays.values(), leaves_of(states)):
            kept: Any = as_numpy(source)[first :: self.interval]
            write_rows(array, (t + first) // self.interval, kept, self.n_slots)

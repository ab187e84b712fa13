"""Storage of rows with n-step returns, the base of all replay buffers."""

from __future__ import annotations

import math
from typing import Any, Union

import numpy as np

from rlpyt.core.records import SamplesToBuffer, extended
from rlpyt.replays._ring import Ring, check_rows, filled_rows
from rlpyt.replays._window import Window
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.returns.n_step import discount_return_n_step
from rlpyt.utils._subclassing import overrides
from rlpyt.utils.seed import generator_state, set_generator_state
from rlpyt.utils.types import IntArray, Nested

Rows = Union[slice, IntArray]


class BaseNStepReturnBuffer(BaseReplayBuffer):
    """Circular storage which computes n-step returns while rows arrive.

        return_t = sum_{k<n} discount^k * r_{t+k}, stopped after the first done
        done_n_t = any of d_t, ..., d_{t+n-1}

    Args:
        example: one step of what is stored, a record with ``reward``, ``done`` and any others.
        size: transitions, rounded up to a multiple of B; may be a float.
        B: environments in every batch that is appended.
        discount: per step.
        n_step_return: n.

    Raises:
        ValueError: if the buffer is too small to ever hold a complete transition.

    Attributes:
        samples_return_: [T,B]; with n = 1 this is ``samples.reward`` itself.
        samples_done_n: [T,B]; with n = 1 this is ``samples.done`` itself.
    """

    batch_record: Any
    stored_fields: tuple[str, ...] = SamplesToBuffer._fields
    batch_fields: tuple[str, ...] = ()

    def __init__(
        self,
        example: Nested,
        size: float,
        B: int,
        discount: float = 1,
        n_step_return: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        n_step_return, B = int(n_step_return), int(B)
        if n_step_return < 1:
            raise ValueError(f"n_step_return is {n_step_return}: choose 1 or more steps")
        if B < 1 or not size > 0:
            raise ValueError(f"size is {size} and B is {B}: both must be positive")
        self.T = math.ceil(size / B)
        self.B = B
        self.size = self.T * B
        self.discount = discount
        self.n_step_return = n_step_return
        self.window = Window(self.T, B, off_backward=n_step_return, off_forward=1)
        self.ring = Ring(example, self.window, self.allocate)
        self.samples = self.ring.samples
        self.stored_rows.update(self.ring.arrays)
        self.samples_return_ = self.samples.reward
        self.samples_done_n = self.samples.done
        if n_step_return > 1:
            is_float = self.samples.reward.dtype.kind == "f"
            self.samples_return_ = self.allocate_like(
                self.samples.reward, "return_", dtype=None if is_float else np.float32
            )
            self.samples_done_n = self.allocate_like(self.samples.done, "done_n")

    def current_window(self) -> Window:
        return self.window

    @property
    def t(self) -> int:
        """The row that is written next."""
        return self.window.t

    @t.setter
    def t(self, row: int) -> None:
        if not hasattr(self, "window"):
            raise AttributeError(
                f"{type(self).__name__} sets t before it has storage: call super().__init__() first"
            )
        self.window.t = row

    @property
    def _buffer_full(self) -> bool:
        return self.window.full

    @_buffer_full.setter
    def _buffer_full(self, full: bool) -> None:
        self.window.full = full

    @property
    def off_backward(self) -> int:
        """Rows behind the cursor which are not complete yet."""
        return self.window.off_backward

    @off_backward.setter
    def off_backward(self, n_rows: int) -> None:
        self.window.off_backward = n_rows

    @property
    def off_forward(self) -> int:
        """Rows from the cursor on whose past is overwritten."""
        return self.window.off_forward

    @off_forward.setter
    def off_forward(self, n_rows: int) -> None:
        self.window.off_forward = n_rows

    @property
    def row_fields(self) -> dict[str, Any]:
        """Name to storage [T,B,...] of what batches hold as it was at t.

        First ``batch_fields``, which the class adds to those all batches have, then the user's own:
        all fields of the example but ``stored_fields``. A subclass with its own ``extract_batch``
        adds these there, as it had to in rlpyt 0.1.2.
        """
        if overrides(self, "extract_batch"):
            return {}
        own = self.stored_fields
        return {name: rows for name, rows in self.samples.items() if name not in own}

    @property
    def batch_class(self) -> Any:
        """Record class of the batches: ``batch_record`` with the user's own fields."""
        more = tuple(name for name in self.row_fields if name not in self.batch_fields)
        return extended(self.batch_record, more)

    def flat_idxs(self, T_idxs: IntArray, B_idxs: IntArray) -> IntArray:
        """Places [...] in [T * B] of rows ``T_idxs``, modulo T, and environments ``B_idxs``.

        Raises:
            IndexError: if there is no such environment; negative ones count from the end.
        """
        rows = T_idxs % self.T
        try:
            flat: IntArray = np.ravel_multi_index((rows, B_idxs), (self.T, self.B))
        except ValueError:
            if B_idxs.min() < -self.B or B_idxs.max() >= self.B:
                raise IndexError(
                    f"B_idxs are from {B_idxs.min()} to {B_idxs.max()}, of B={self.B} environments"
                ) from None
            flat = rows * self.B + B_idxs % self.B
        return flat

    def allocate_like(self, rows: Any, name: str, dtype: Any = None) -> Any:
        """Allocate, and register for saving, an array like ``rows`` [T,B,...]."""
        array = self.allocate(np.zeros(rows.shape[2:], dtype or rows.dtype), (self.T, self.B))
        self.stored_rows[name] = array
        return array

    def append_samples(self, samples: Nested) -> tuple[int, Rows]:
        """Store ``samples`` [T',B,...], update the returns they complete, and move the cursor.

        Args:
            samples: record with the fields of the example, numpy or torch; T' at most T.

        Returns:
            T' and the rows written, as a slice or (where they wrap) as indexes [T'].

        Raises:
            ValueError: if fields or shapes do not fit.
        """
        n_rows, rows = self.ring.write(samples)
        self.compute_returns(n_rows)
        self.window.advance(n_rows)
        return n_rows, rows

    def compute_returns(self, T: int) -> None:
        """Compute returns of the rows which the last T written rows complete.

        Called by :meth:`append_samples` after writing rows t to t + T - 1 and before moving t.
        """
        if self.n_step_return == 1:
            return
        completed, needed = self.rows_completed(T)
        if completed is not None:
            return_, done_n = discount_return_n_step(
                self.samples.reward[needed],
                self.samples.done[needed],
                self.n_step_return,
                self.discount,
            )
            self.samples_return_[completed] = return_
            self.samples_done_n[completed] = done_n

    def rows_completed(self, T: int) -> tuple[Rows | None, Rows]:
        """The rows whose n-step window ends among the T rows just written from t on.

        Returns:
            These rows (None if there are none), and the rows of their windows: n - 1 more.
        """
        n = self.n_step_return
        end = self.t + T
        start = max(self.t - (n - 1), self.window.oldest_after(T))
        stop = end - (n - 1)
        if stop <= start:
            return None, slice(0, 0)
        if start >= 0 and end <= self.T:
            return slice(start, stop), slice(start, end)
        needed = np.arange(start, end) % self.T
        return needed[: stop - start], needed

    def state_dict(self) -> dict[str, Any]:
        """All written rows, the cursor and the generator.

        The arrays are views of the live storage, not copies, because a buffer may fill the memory:
        save them (or copy them) before anything is appended.
        """
        return {
            "window": self.window.state_dict(),
            "rows": filled_rows(self.stored_rows, self.window),
            "rng": generator_state(self.rng),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``; a subclass takes out first what it added to the state.

        Raises:
            ValueError: if it is of a buffer of another shape, class or of other fields.
        """
        unknown = sorted(set(state) - {"window", "rows", "rng"})
        if unknown:
            raise ValueError(
                f"the state has {unknown}, which {type(self).__name__} does not: load it into a "
                "buffer of the class it is from"
            )
        self.window.check_state(state["window"])
        check_rows(self.stored_rows, state["rows"])
        self.window.load_state_dict(state["window"])
        for name, rows in state["rows"].items():
            self.stored_rows[name][: len(rows)] = rows
        set_generator_state(self.rng, state["rng"])

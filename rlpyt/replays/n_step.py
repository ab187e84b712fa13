"""Storage of rows with n-step returns, the base of all replay buffers in this library."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rlpyt.checkpoints.arrays import Rows
from rlpyt.core.records import SamplesFromReplay, SamplesToBuffer, extended
from rlpyt.replays._memory import allocate
from rlpyt.replays._store import numpy_dtype, other_fields
from rlpyt.replays._window import TruncatedRows, Window
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.returns.n_step import discount_return_n_step, timeout_n_step
from rlpyt.utils.buffer import as_numpy, named_leaves
from rlpyt.utils.collections import record_class
from rlpyt.utils.seed import generator_state, set_generator_state
from rlpyt.utils.types import IntArray, Nested


def without(example: Nested, *names: str) -> Any:
    """Return the record ``example`` without the fields ``names``, and those that are None."""
    kept = {k: x for k, x in zip(example._fields, example) if x is not None and k not in names}
    if len(kept) == len(example):
        return example
    return record_class("BufferSamples", tuple(kept))(*kept.values())


class BaseNStepReturnBuffer(BaseReplayBuffer):
    """Circular storage that computes n-step returns while rows arrive.

        return_t    = sum_{k<n} discount^k * r_{t+k}, stopped after the first done
        done_n_t    = any of d_t, ..., d_{t+n-1}
        timeout_n_t = timeout at the first done among t, ..., t+n-1, or False if there is none

    Args:
        example: one step of the stored record, with ``reward``, ``done`` and any other fields.
        size: number of transitions, rounded up to a multiple of B; may be a float.
        B: number of environments in every appended batch.
        discount: discount factor of one step.
        n_step_return: number n of rewards in a return.
        device: device of the storage, its name or its index; None for arrays in host memory.

    Raises:
        ValueError: if the buffer is too small to ever hold a complete transition, too large for its
            device, or its batches have time limits but the example has no field ``timeout``.

    Attributes:
        batch_record: record class of the batches; one with the fields ``timeout`` and
            ``timeout_n`` makes a buffer with time limits.
        samples: stored records [T,B,...], to be read and changed, but not replaced.
        samples_return_: [T,B]; with n = 1 this is ``samples.reward`` itself.
        samples_done_n: [T,B]; with n = 1 this is ``samples.done`` itself.
        samples_timeout_n: [T,B], if batches have it; with n = 1 this is ``samples.timeout`` itself.
        null_action: previous action of the first step of an episode; None for zeros.
        user_fields: names of stored fields that a user added, for ``read_batch``.
        truncated: rows that :meth:`truncate` keeps from being drawn.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3, for time limits.
    """

    batch_record: Any = SamplesFromReplay
    user_fields: tuple[str, ...] = ()
    null_action: Nested = None

    def __init__(
        self,
        example: Nested,
        size: float,
        B: int,
        discount: float = 1,
        n_step_return: int = 1,
        *,
        device: Any = None,
    ) -> None:
        super().__init__(device=device)
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
        self.truncated = TruncatedRows(self.T, B, partial(allocate, share_memory=self.async_))
        allocate_all = partial(self.allocate_rows, example)
        self.store.require(allocate_all, self.stored_rows, self.size)
        allocate_all()
        self._example_fields = example._fields

    def allocate_rows(self, example: Nested) -> None:
        """Allocate all arrays of rows, and register them in ``stored_rows``.

        Called by the constructor, once T, B and ``n_step_return`` are set. If the buffer has a
        device it is called twice, because a first call on the device "meta" counts the bytes. A
        subclass that stores a field in its own way passes on the example without it.

        Args:
            example: one step of the stored record.
        """
        example = without(example, "last_observation")
        has_time_limits = "timeout_n" in self.batch_record._fields
        if has_time_limits and "timeout" not in example._fields:
            raise ValueError(
                f"the example has the fields {example._fields} but not timeout: add it in the "
                "algorithm's examples_to_buffer and samples_to_buffer (env_info.timeout, which "
                "the gymnasium wrapper gives), or use a buffer without time limits"
            )
        self.samples: Any = self.store.allocate(example, (self.T, self.B))
        self.stored_rows.update(named_leaves(self.samples))
        samples = self.samples
        self.samples_return_, self.samples_done_n = samples.reward, samples.done
        self.samples_timeout_n: Any = samples.timeout if has_time_limits else None
        if self.n_step_return > 1:
            is_float = numpy_dtype(samples.reward).kind == "f"
            dtype = None if is_float else np.float32
            self.samples_return_ = self.allocate_like(samples.reward, "return_", dtype)
            self.samples_done_n = self.allocate_like(samples.done, "done_n")
            if has_time_limits:
                self.samples_timeout_n = self.allocate_like(samples.timeout, "timeout_n")
        # What a batch reads of each row but the observation, in this order.
        self._read: tuple[Any, ...] = (samples.action, samples.reward, samples.done)
        self._read += (self.samples_return_, self.samples_done_n)
        if has_time_limits:
            self._read += (samples.timeout, self.samples_timeout_n)

    def set_user_fields(self, *usual: str) -> None:
        """Collect the names of the user's own fields, which batches hold as well.

        Args:
            usual: other stored fields than ``SamplesToBuffer`` has that are not the user's own.

        Raises:
            ValueError: if a batch has a field of that name already.
        """
        usual += SamplesToBuffer._fields + ("timeout",) * (self.samples_timeout_n is not None)
        self.user_fields = tuple(name for name in self.samples._fields if name not in usual)
        extended(self.batch_record, self.user_fields)  # Refuses names that are taken.

    def with_user_fields(self, batch: Any, places: Any) -> Any:
        """Return ``batch`` with the user's own fields, read at ``places`` [...], at its end."""
        fields = [getattr(self.samples, name) for name in self.user_fields]
        more = self.store.tensors(tuple(self.store.read(fields, places)))
        return extended(type(batch), self.user_fields)(*batch, *more)

    @property
    def t(self) -> int:
        """The row that is written next."""
        return self.window.t

    @t.setter
    def t(self, row: int) -> None:
        self.window.t = row

    @property
    def _buffer_full(self) -> bool:
        return self.window.full

    @_buffer_full.setter
    def _buffer_full(self, full: bool) -> None:
        self.window.full = full

    @property
    def off_backward(self) -> int:
        """Number of rows behind the cursor that are not complete yet."""
        return self.window.off_backward

    @off_backward.setter
    def off_backward(self, n_rows: int) -> None:
        self.window.set_margins(n_rows, self.window.off_forward)

    @property
    def off_forward(self) -> int:
        """Number of rows from the cursor on whose preceding rows are overwritten."""
        return self.window.off_forward

    @off_forward.setter
    def off_forward(self, n_rows: int) -> None:
        self.window.set_margins(self.window.off_backward, n_rows)

    def allocate_like(self, rows: Any, name: str, dtype: Any = None) -> Any:
        """Allocate, and register for saving, an array like ``rows`` [T,B,...]."""
        entry = np.zeros(tuple(rows.shape[2:]), dtype or numpy_dtype(rows))
        array = self.store.allocate(entry, (self.T, self.B))
        self.stored_rows[name] = array
        return array

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples`` [T',B,...], update the returns they complete, and move the cursor.

        Args:
            samples: record with the fields of the example, numpy or torch; T' at most T.

        Returns:
            T' and the rows written, as a slice or (where they wrap) as indexes [T'].

        Raises:
            ValueError: if fields or shapes do not fit; nothing is written then.
        """
        if samples._fields == self._example_fields:  # As usual, and fast.
            own = self.samples._make([getattr(samples, name) for name in self.samples._fields])
        else:
            own = self._own_fields(samples)
        n_rows = self.store.write(self.samples, self.window.t, own)
        self.compute_returns(n_rows)
        rows = self.window.advance(n_rows)
        if self.truncated.is_any:
            self.truncated.overwrite(rows)
        return n_rows, rows

    def _own_fields(self, samples: Any) -> Any:
        """Return the fields of ``samples`` that are stored in ``self.samples``."""
        # Others of the example's are stored in another way, or not at all.
        others = set(self._example_fields) - set(self.samples._fields)
        given = without(samples, *others)
        if given._fields != self.samples._fields:
            raise other_fields("", self.samples, given)
        return given

    def truncate(self, B_idxs: Any) -> None:
        """Mark a cut: rows appended next do not follow the last rows of these environments.

        Their last row gets ``done``, so no return crosses the cut. Rows whose n-step return
        ends there are not drawn, because the observation to bootstrap from does not exist.

        Args:
            B_idxs: environments that were restarted, as indexes or a mask [B].
        """
        if self.window.n_filled == 0:
            return
        row = (self.window.t - 1) % self.T
        envs = np.arange(self.B)[B_idxs].reshape(-1)
        marked = self.truncated.add(as_numpy(self.samples.done), row, envs, self.n_step_return)
        self.store.put(self.samples_done_n, *marked, np.ones(len(marked[0]), bool))
        self.store.put(self.samples.done, np.full(len(envs), row), envs, np.ones(len(envs), bool))

    def compute_returns(self, T: int) -> None:
        """Compute returns of the rows that the last T written rows complete.

        Called by :meth:`append_samples` after writing rows t to t + T - 1 and before moving t.
        """
        n, t = self.n_step_return, self.window.t
        if n == 1:
            return
        end = t + T
        start = max(t - (n - 1), self.window.oldest_after(T))
        if end - start < n:
            return
        needed = slice(start, end)
        if start < 0 or end > self.T:
            needed = self.store.arange(start, end) % self.T
        reward, done = self.samples.reward[needed], self.samples.done[needed]
        return_, done_n = discount_return_n_step(reward, done, n, self.discount)
        rows = (self.samples_return_, self.samples_done_n)
        self.store.write(rows, start % self.T, (return_, done_n))
        if self.samples_timeout_n is not None:
            timeout_n = timeout_n_step(done, self.samples.timeout[needed], n)
            self.store.write(self.samples_timeout_n, start % self.T, timeout_n)

    def state_dict(self) -> dict[str, Any]:
        """Return all written rows, the cursor and the generator.

        The arrays are views of the live storage, not copies, because a buffer may fill the memory:
        save them (or copy them) before anything is appended. Only arrays on another device are
        copied to host memory.
        """

        def written(array: Any) -> Rows:
            # An array may have some more rows than T, which count as written, or one for several.
            rows_per_entry = max(1, self.T // len(array))
            n_rows = -(-self.window.n_filled // rows_per_entry) + max(0, len(array) - self.T)
            rows = Rows.of(as_numpy(array[:n_rows]), n_rows)
            rows.capacity = len(array)
            return rows

        return {
            "window": self.window.state_dict(),
            "rows": {name: written(array) for name, array in self.stored_rows.items()},
            "truncated": self.truncated.state_dict(),
            "rng": generator_state(self.rng),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``; a subclass first removes the entries that it added.

        Raises:
            ValueError: if it belongs to a buffer of another shape or class, or with other fields.
        """
        unknown = sorted(set(state) - {"window", "rows", "truncated", "rng"})
        if unknown:
            raise ValueError(
                f"the state has {unknown}, which {type(self).__name__} does not: load it into a "
                "buffer of the class it is from"
            )
        self.window.check_state(state["window"])
        self._check_rows(state["rows"])
        self.window.load_state_dict(state["window"])
        for name, rows in state["rows"].items():
            self.store.load(self.stored_rows[name], rows)
        self.truncated.load_state_dict(state["truncated"])
        set_generator_state(self.rng, state["rng"])

    def _check_rows(self, given: dict[str, Any]) -> None:
        """Raise ``ValueError`` unless names, dtypes and row shapes of ``given`` fit this buffer."""
        if set(self.stored_rows) != set(given):
            raise ValueError(
                f"the state has the arrays {sorted(given)}, this buffer "
                f"{sorted(self.stored_rows)}: construct it with the same class, example and "
                "n_step_return"
            )
        for name, array in self.stored_rows.items():
            other, dtype, shape = given[name], numpy_dtype(array), tuple(array.shape[1:])
            if other.shape[1:] != shape or other.dtype != dtype:
                raise ValueError(
                    f"{name} of the state is {other.dtype} of rows {other.shape[1:]}, this buffer "
                    f"has {dtype} of rows {shape}: construct it with the same "
                    "example and B"
                )

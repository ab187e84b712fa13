"""Storage of rows with n-step returns, the base of all replay buffers in this library."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Union

import numpy as np
import torch

from rlpyt.checkpoints.arrays import Rows, SavedRows
from rlpyt.core.records import SamplesFromReplay, extended
from rlpyt.replays import _memory
from rlpyt.replays._memory import gather
from rlpyt.replays._window import TruncatedRows, Window, write_rows
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.returns.n_step import discount_return_n_step, timeout_n_step
from rlpyt.utils.buffer import as_numpy, named_leaves, torchify_buffer
from rlpyt.utils.collections import record_class
from rlpyt.utils.seed import generator_state, set_generator_state
from rlpyt.utils.types import Array, IntArray, NDArray, Nested

Written = Union[slice, IntArray]


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
        stored_elsewhere: fields of the example that a subclass stores in its own way, or not at
            all.
        samples: stored records [T,B,...]; a program may assign others of the same shapes.
        samples_return_: [T,B]; with n = 1 this is ``samples.reward`` itself.
        samples_done_n: [T,B]; with n = 1 this is ``samples.done`` itself.
        samples_timeout_n: [T,B], if batches have it; with n = 1 this is ``samples.timeout`` itself.
        null_action: previous action of the first step of an episode; None for zeros.
        user_fields: names of stored fields that a user added, for :meth:`read_batch`.
        truncated: rows that :meth:`truncate` keeps from being drawn.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3, for time limits.
    """

    batch_record: Any = SamplesFromReplay
    user_fields: tuple[str, ...] = ()
    stored_elsewhere: tuple[str, ...] = ("last_observation",)
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
        self.truncated = TruncatedRows(
            self.T, B, partial(_memory.allocate, share_memory=self.async_)
        )
        if self.storage_device is not None:
            self._require_memory(example, self.storage_device)
        self.allocate_rows(example)

    def _require_memory(self, example: Nested, device: torch.device) -> None:
        """Log the bytes of all rows, and raise ``ValueError`` if ``device`` has fewer free."""
        self.storage_device = torch.device("meta")  # Tensors without memory.
        self.allocate_rows(example)
        n_bytes = sum(rows.nbytes for rows in self.stored_rows.values())
        self.stored_rows.clear()
        self.storage_device = device
        _memory.require(device, n_bytes, self.size)

    def allocate_rows(self, example: Nested) -> None:
        """Allocate all arrays of rows, and register them in ``stored_rows``.

        Called by the constructor, once T, B and ``n_step_return`` are set. If the buffer has a
        device it is called twice, because a first call on the device "meta" counts the bytes.

        Args:
            example: one step of the stored record.
        """
        fields = example._fields
        stored = tuple(name for name in fields if self._stores(name, getattr(example, name)))
        if stored != fields:
            rows = record_class("BufferSamples", stored)
            example = rows(*(getattr(example, name) for name in stored))
        has_time_limits = "timeout_n" in self.batch_record._fields
        if has_time_limits and "timeout" not in stored:
            raise ValueError(
                f"the example has the fields {stored} but not timeout: add it in the "
                "algorithm's examples_to_buffer and samples_to_buffer (env_info.timeout, which "
                "the gymnasium wrapper gives), or use a buffer without time limits"
            )
        self.samples_timeout_n: Any = None
        self.samples = self.allocate(example, (self.T, self.B))
        if self.n_step_return > 1:
            self._allocate_returns(has_time_limits)

    @property
    def samples(self) -> Any:
        return self._samples

    @samples.setter
    def samples(self, samples: Any) -> None:
        self._samples = samples
        self._arrays: dict[str, Any] = dict(named_leaves(samples))
        self.stored_rows.update(self._arrays)
        if self.n_step_return == 1:
            self.samples_return_, self.samples_done_n = samples.reward, samples.done
            if "timeout_n" in self.batch_record._fields:
                self.samples_timeout_n = samples.timeout

    def _stores(self, name: str, part: Nested) -> bool:
        """Return whether the field ``name`` has an array of rows; one that is None has none."""
        return part is not None and name not in self.stored_elsewhere

    def _allocate_returns(self, has_time_limits: bool) -> None:
        samples = self.samples
        is_float = _memory.numpy_dtype(samples.reward).kind == "f"
        self.samples_return_ = self.allocate_like(
            samples.reward, "return_", dtype=None if is_float else np.float32
        )
        self.samples_done_n = self.allocate_like(samples.done, "done_n")
        if has_time_limits:
            self.samples_timeout_n = self.allocate_like(samples.timeout, "timeout_n")

    def init_batch_fields(self, usual: tuple[str, ...]) -> None:
        """Collect the names of the user's own fields, which batches hold as well.

        Args:
            usual: stored fields that are not the user's own.

        Raises:
            ValueError: if a batch has a field of that name already.
        """
        if self.samples_timeout_n is not None:
            usual += ("timeout", "timeout_n")
        self.user_fields = tuple(name for name in self.samples._fields if name not in usual)
        extended(self.batch_record, self.user_fields)  # Refuses names that are taken.

    @property
    def timeouts(self) -> tuple[Any, ...]:
        """``timeout`` and ``timeout_n`` [T,B], or nothing if batches have no time limits."""
        if self.samples_timeout_n is None:
            return ()
        return self.samples.timeout, self.samples_timeout_n

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of :meth:`extract_batch`, with the user's own fields at its end."""
        batch = self.extract_batch(T_idxs, B_idxs, *T)
        if not self.user_fields:
            return batch
        T_idxs, B_idxs = self.indexes(T_idxs, B_idxs)
        rows = T_idxs + self.arange(*T)[:, None] if T else T_idxs
        fields = [getattr(self.samples, name) for name in self.user_fields]
        more = gather(fields, self.flat_idxs(rows, B_idxs))
        record = extended(type(batch), self.user_fields)
        return record(*batch, *torchify_buffer(tuple(more)))

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

    def indexes(self, T_idxs: Any, B_idxs: Any) -> tuple[Any, Any]:
        """Return indexes as arrays, or on a device as tensors there.

        Args:
            T_idxs: rows [n]; tensors come from a draw, and are returned unchanged.
            B_idxs: environments [n].

        Raises:
            IndexError: if the buffer is on a device and has no such environment.
        """
        if self.storage_device is None:
            return np.asarray(T_idxs), np.asarray(B_idxs)
        if isinstance(T_idxs, torch.Tensor):
            return T_idxs, B_idxs
        flat = self.flat_idxs(np.asarray(T_idxs), np.asarray(B_idxs))
        T_idxs, B_idxs = self.move(*np.divmod(flat, self.B))
        return T_idxs, B_idxs

    def flat_idxs(self, T_idxs: Any, B_idxs: Any) -> Any:
        """Return flat indexes [...] into [T * B] of rows ``T_idxs`` (modulo T) and ``B_idxs``.

        Raises:
            IndexError: if there is no such environment; negative ones count from the end.
        """
        if isinstance(T_idxs, torch.Tensor):
            return torch.add(B_idxs, T_idxs % self.T, alpha=self.B)
        try:
            flat = np.ravel_multi_index((T_idxs, B_idxs), (self.T, self.B), mode=("wrap", "raise"))
        except ValueError:
            if B_idxs.min() < -self.B or B_idxs.max() >= self.B:
                raise IndexError(
                    f"B_idxs are from {B_idxs.min()} to {B_idxs.max()}: choose from {-self.B} to "
                    f"{self.B - 1}"
                ) from None
            flat = T_idxs % self.T * self.B + B_idxs % self.B
        return flat

    def allocate_like(self, rows: Any, name: str, dtype: Any = None) -> Any:
        """Allocate, and register for saving, an array like ``rows`` [T,B,...]."""
        entry = np.zeros(tuple(rows.shape[2:]), dtype or _memory.numpy_dtype(rows))
        array = self.allocate(entry, (self.T, self.B))
        self.stored_rows[name] = array
        return array

    def append_samples(self, samples: Nested) -> tuple[int, Written]:
        """Store ``samples`` [T',B,...], update the returns they complete, and move the cursor.

        Args:
            samples: record with the fields of the example, numpy or torch; T' at most T.

        Returns:
            T' and the rows written, as a slice or (where they wrap) as indexes [T'].

        Raises:
            ValueError: if fields or shapes do not fit; nothing is written then.
        """
        n_rows, given = self._check(samples)
        sources = self.move(*given)
        t = self.window.t
        for array, source in zip(self._arrays.values(), sources):
            write_rows(array, t, source, self.T)
        wraps = t + n_rows > self.T
        rows: Written = np.arange(t, t + n_rows) % self.T if wraps else slice(t, t + n_rows)
        self.compute_returns(n_rows)
        self.window.advance(n_rows)
        self.truncated.overwrite(rows)
        return n_rows, rows

    def truncate(self, B_idxs: Any) -> None:
        """Mark a cut: rows appended next do not follow the last rows of these environments.

        Their last row gets ``done``, so no return crosses the cut. Rows whose n-step return
        ends there are not drawn, because the observation to bootstrap from does not exist.

        Args:
            B_idxs: environments that were restarted, as indexes or a mask [B].
        """
        if self.window.n_filled:
            row = (self.window.t - 1) % self.T
            done, done_n = as_numpy(self.samples.done), as_numpy(self.samples_done_n)
            marked = self.truncated.add(done, row, B_idxs, self.n_step_return)
            done_n[marked] = True
            if self.storage_device is not None:  # Then these are copies.
                self.samples.done[:], self.samples_done_n[:] = self.move(done, done_n)

    def _check(self, samples: Any) -> tuple[int, list[Any]]:
        """Return T' and the arrays [T',B,...] of ``samples``, one for each stored array."""
        pairs = [pair for pair in zip(samples._fields, samples) if self._stores(*pair)]
        names, parts = zip(*pairs)
        sources = self.sources(parts)
        given = [leaf for name, part in zip(names, parts) for leaf, _ in named_leaves(part, name)]
        if names != self.samples._fields or given != list(self._arrays):
            raise self._other_fields(samples)
        n_rows = next((len(source) for source in sources if source.ndim), 0)
        for i, (name, array) in enumerate(self._arrays.items()):
            if sources[i].shape != (n_rows, *array.shape[1:]):
                sources[i] = self._broadcast(name, sources[i], n_rows, array.shape[2:])
        self.window.check_fits(n_rows)
        return n_rows, sources

    def _broadcast(self, name: str, source: Array, n_rows: int, entry: tuple[int, ...]) -> NDArray:
        """Return ``source`` [T',B,...], or a scalar, as an array [T',B,*entry]."""
        lead, source = (n_rows, self.B), as_numpy(source)
        inner = source.shape[2:]
        while len(inner) > len(entry) and inner[-1] == 1:
            inner = inner[:-1]
        inner = (1,) * (len(entry) - len(inner)) + inner
        try:
            if source.ndim and source.shape[:2] != lead:
                raise ValueError
            entries = source.reshape(lead + inner) if source.ndim else source
            return np.broadcast_to(entries, lead + entry)
        except ValueError:
            raise ValueError(
                f"samples.{name} has shape {source.shape}, this buffer stores [T', B={self.B}, "
                f"...] = [{n_rows}, {str((self.B, *entry))[1:-1]}]: append batches of the B and "
                "the example it was made with"
            ) from None

    def _other_fields(self, samples: Any) -> ValueError:
        own, given = self.samples._fields, samples._fields
        names = [name for name, _ in named_leaves(samples) if name not in self.stored_elsewhere]
        order = " in another order" if sorted(given) == sorted(own) else ""
        missing = sorted(set(self._arrays) - set(names))
        unknown = sorted(set(names) - set(self._arrays))
        return ValueError(
            f"samples have the fields {given} and this buffer {own}{order} (missing: {missing}, "
            f"unknown: {unknown}): append records with the fields of the example it was made with"
        )

    def compute_returns(self, T: int) -> None:
        """Compute returns of the rows that the last T written rows complete.

        Called by :meth:`append_samples` after writing rows t to t + T - 1 and before moving t.
        """
        n = self.n_step_return
        if n == 1:
            return
        completed, needed = self.rows_completed(T)
        if completed is None:
            return
        reward, done = self.samples.reward[needed], self.samples.done[needed]
        return_, done_n = discount_return_n_step(reward, done, n, self.discount)
        if self.storage_device is not None:  # An assignment to tensors by index does not convert.
            return_ = return_.to(self.samples_return_.dtype)
        self.samples_return_[completed] = return_
        self.samples_done_n[completed] = done_n
        if self.samples_timeout_n is not None:
            timeout = self.samples.timeout[needed]
            self.samples_timeout_n[completed] = timeout_n_step(done, timeout, n)

    def rows_completed(self, T: int) -> tuple[Written | None, Written]:
        """Return the rows with an n-step window that ends among the T rows written from t on.

        Returns:
            These rows (None if there are none), and the rows of their windows: n - 1 more.
        """
        n = self.n_step_return
        t = self.window.t
        end = t + T
        start = max(t - (n - 1), self.window.oldest_after(T))
        stop = end - (n - 1)
        if stop <= start:
            return None, slice(0, 0)
        if start >= 0 and end <= self.T:
            return slice(start, stop), slice(start, end)
        needed = self.arange(start, end) % self.T
        return needed[: stop - start], needed

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
            if self.storage_device is not None:
                (moved,) = self.move(np.asarray(rows))
                self.stored_rows[name][: len(rows)] = moved
            elif isinstance(rows, SavedRows):
                rows.read_into(self.stored_rows[name])
            else:
                self.stored_rows[name][: len(rows)] = rows
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
            other, dtype, shape = given[name], _memory.numpy_dtype(array), tuple(array.shape[1:])
            if other.shape[1:] != shape or other.dtype != dtype:
                raise ValueError(
                    f"{name} of the state is {other.dtype} of rows {other.shape[1:]}, this buffer "
                    f"has {dtype} of rows {shape}: construct it with the same "
                    "example and B"
                )

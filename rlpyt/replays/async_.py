"""Replay buffers, and queues of batches, that processes fill and read at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import RawValue
from typing import Any

import numpy as np

from rlpyt.checkpoints.arrays import Rows
from rlpyt.processes.rwlock import ReadWriteLock
from rlpyt.replays._window import SharedCursor
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.utils.buffer import (
    buffer_from_example,
    map_buffer,
    named_leaves,
    np_mp_array_spawn,
    torchify_buffer,
)
from rlpyt.utils.seed import make_generator
from rlpyt.utils.types import Nested


class AsyncReplayBufferMixin(BaseReplayBuffer):
    """Mixin that lets processes share any replay buffer; list it first among the bases.

    The storage is in shared memory, and a lock lets either one process write or many read. Each
    process has its own last drawn positions (to set their priorities), exponent of the weights, and
    random stream. Appended rows can be in the next batch of any process.

    If processes do not start by fork, set the start method of ``multiprocessing`` before you make
    the buffer, and pass the buffer to them as an argument.

    If a process ends while it writes, every later call raises ``RuntimeError``, since the rows that
    it was writing may mix old and new steps.

    Attributes:
        rw_lock: ``with rw_lock:`` to read the storage, ``with rw_lock.write_lock:`` to write to it;
            call ``_async_pull()`` first, and ``_async_push()`` after writing.
        async_t: row that is written next, for all processes.
    """

    async_ = True
    _is_frozen = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.rw_lock = ReadWriteLock()
        self._cursor = SharedCursor()
        self.async_t = self._cursor.t
        self._async_buffer_full = self._cursor.full
        self._rng_pid = os.getpid()
        super().__init__(*args, **kwargs)

    def append_samples(self, *args: Any, **kwargs: Any) -> Any:
        with self.rw_lock.write_lock:
            self._async_pull()
            result = super().append_samples(*args, **kwargs)
            self._async_push()
            return result

    def truncate(self, *args: Any, **kwargs: Any) -> None:
        with self.rw_lock.write_lock:
            self._async_pull()
            storage: Any = super()
            storage.truncate(*args, **kwargs)

    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        with self.rw_lock:
            self._async_pull()
            return super().sample_batch(*args, **kwargs)

    def update_batch_priorities(self, *args: Any, **kwargs: Any) -> None:
        with self.rw_lock.write_lock:
            self._async_pull()
            super().update_batch_priorities(*args, **kwargs)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep other processes from writing; :meth:`state_dict` copies nothing then."""
        with self.rw_lock:
            self._async_pull()
            self._is_frozen = True
            try:
                yield
            finally:
                self._is_frozen = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the buffer as copies, since others continue to write."""
        if self._is_frozen:
            return super().state_dict()
        with self.frozen():
            state: dict[str, Any] = _copied(super().state_dict())
            return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with self.rw_lock.write_lock:
            self._async_pull()
            super().load_state_dict(state)
            self._async_push()

    def _async_pull(self) -> None:
        self.t, self._buffer_full = self._cursor.t.value, self._cursor.full.value
        if self._rng_pid != os.getpid():
            self._rng_pid = os.getpid()
            # Forked processes would otherwise draw the same batches.
            seed = make_generator().integers(2**32, size=4)
            self.use_generator(np.random.default_rng([*seed, self.rw_lock.process_index]))

    def _async_push(self) -> None:
        self._cursor.t.value, self._cursor.full.value = self.t, self._buffer_full

    def __getstate__(self) -> dict[str, Any]:
        if not all(isinstance(rows, np_mp_array_spawn) for rows in self.stored_rows.values()):
            raise RuntimeError(
                f"this {type(self).__name__} is in memory that processes inherit by fork only: "
                "fork them, or call multiprocessing.set_start_method before it is made"
            )
        return self.__dict__.copy()


class BatchQueue:
    """Queue of whole sampler batches in shared memory: any process appends, one reads each once.

    The last ``capacity`` batches are kept: an unread batch that is older is lost. Under the lock
    no batch is overwritten while it is read.

    Args:
        example: batch [T,B,...] of numpy arrays.
        capacity: number of batches.

    Attributes:
        n_read: number of batches read or lost so far; only in the process that reads.
    """

    def __init__(self, example: Nested, capacity: int) -> None:
        self.capacity = capacity
        self.rw_lock = ReadWriteLock()
        self.n_read = 0
        self._n_written = RawValue("l", 0)
        self._batches: Any = buffer_from_example(example, capacity, share_memory=True)

    def append_samples(self, batch: Nested) -> None:
        """Store a batch [T,B,...], over the oldest one if there are ``capacity`` already."""
        with self.rw_lock.write_lock:
            self._batches[self._n_written.value % self.capacity] = batch
            self._n_written.value += 1

    def next_batch(self) -> Nested:
        """Return a copy of the oldest unread batch, as tensors; None if there is none."""
        with self.rw_lock:
            n_written = self._n_written.value
            self.n_read = max(self.n_read, n_written - self.capacity)
            if self.n_read == n_written:
                return None
            batch = map_buffer(np.array, self._batches[self.n_read % self.capacity])
        self.n_read += 1
        return torchify_buffer(batch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the queue as copies, since others continue to append."""
        with self.rw_lock:
            batches = {name: np.array(leaf) for name, leaf in named_leaves(self._batches)}
            return {"n_read": self.n_read, "n_written": self._n_written.value, "batches": batches}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the batches of ``state``."""
        with self.rw_lock.write_lock:
            for name, leaf in named_leaves(self._batches):
                leaf[:] = state["batches"][name]
            self.n_read, self._n_written.value = state["n_read"], state["n_written"]


def _copied(state: Any) -> Any:
    """Return ``state`` with its arrays copied."""
    if isinstance(state, dict):
        return {name: _copied(value) for name, value in state.items()}
    if isinstance(state, Rows):
        return state.copy()
    return np.array(state) if isinstance(state, np.ndarray) else state

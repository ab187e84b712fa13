"""Base class of all replay buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays._memory import allocate
from rlpyt.replays._store import DeviceStore, HostStore
from rlpyt.replays._window import TruncatedRows, Window
from rlpyt.utils.buffer import existing_device
from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.seed import make_generator
from rlpyt.utils.types import IntArray, Nested


class BaseReplayBuffer:
    """Storage of sampler batches, from which the algorithm draws random batches.

    A buffer is composed of parts, in one class statement: how to choose (uniformly, by priority),
    how to store (whole observations, frames once), what to compute (n-step returns, time limits).
    Every part is a class that passes on all keyword arguments but its own, so your own class can
    stand anywhere among them.

    **On a device.** With ``device`` the stored rows are tensors there, and so are the batches. The
    host still draws the indexes and keeps the priorities, so batches are equal to those of a buffer
    in host memory. Indexes and weights are copied to the device together, and the host never waits
    for it. A subclass that overrides ``extract_batch`` gets the drawn indexes as tensors.

    Args:
        device: device of the storage, its name or its index; None for arrays in host memory.

    Raises:
        ValueError: if there is no such device, or processes share the buffer.

    Attributes:
        store: memory of the rows, in host memory or on the device.
        T: rows of storage.
        B: environments in every appended batch.
        size: T * B.
        stride: number of rows between the starts of successive entries that a batch may hold.
        batch_T: number of steps in an entry that is a sequence; None if a batch has single
            transitions, or sequences of any length.
        samples: stored records [T,B,...].
        rng: source of all random choices.
        stored_rows: arrays [T,...] to save, by name; a subclass that allocates arrays registers
            them here.
    """

    __signature__ = ConstructorSignature()

    async_ = False
    store: HostStore
    T: int
    B: int
    size: int
    stride = 1
    batch_T: int | None = None
    discount: float
    n_step_return: int
    samples: Any
    window: Window
    truncated = TruncatedRows(1, 1, allocate)  # No marks; storage makes its own.
    t: int
    off_backward: int
    off_forward: int
    _buffer_full: bool

    def __init__(self, device: Any = None) -> None:
        if device is None:
            self.store = HostStore(share_memory=self.async_)
        elif self.async_:
            raise ValueError(
                f"device is {device!r}, but processes share a {type(self).__name__} in host "
                "memory: leave it out"
            )
        else:
            remedy = "leave it out to store in host memory"
            self.store = DeviceStore(existing_device("device", device, remedy))
        self.rng = make_generator()
        self.stored_rows: dict[str, Any] = {}

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        """Store ``samples`` [T',B,...] after what was appended before, over the oldest rows.

        Returns:
            T' and the rows written.
        """
        raise NotImplementedError

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw a batch of ``batch_B`` entries, of ``batch_T`` steps if they are sequences."""
        raise NotImplementedError

    def update_batch_priorities(self, priorities: Any) -> None:
        """Set the priorities [batch_B] of the batch that this process drew last."""
        raise NotImplementedError(f"{type(self).__name__} has no priorities")

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, *args: Any) -> Any:
        """Return the batch at rows ``T_idxs`` [n] of environments ``B_idxs`` [n], as tensors."""
        raise NotImplementedError

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of these rows for ``sample_batch``; a storage may add fields.

        Args:
            T_idxs: rows [n].
            B_idxs: environments [n].
            T: number of steps, if the batch consists of sequences.
        """
        return self.extract_batch(T_idxs, B_idxs, *T)

    def first_entry(self) -> int:
        """Return the number of rows from the cursor to the next start of an entry."""
        return 0

    def entry_margins(self) -> tuple[int, int]:
        """Return how many entries before the cursor, and how many from it on, are incomplete."""
        return self.off_backward, self.off_forward

    def use_generator(self, rng: np.random.Generator) -> None:
        """Make all random choices from now on with ``rng``."""
        self.rng = rng

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed run needs."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        raise NotImplementedError

    def _async_pull(self) -> None:
        """Fetch the cursor that other processes moved; there are none unless ``async_``."""

    def _async_push(self) -> None:
        """Publish the cursor to other processes."""

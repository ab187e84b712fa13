"""Base class of all replay buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays import _memory
from rlpyt.replays._window import TruncatedRows, Window
from rlpyt.utils.seed import make_generator
from rlpyt.utils.types import IntArray, NDArray, Nested


class BaseReplayBuffer:
    """Storage for what the sampler gives, and random batches of it for the algorithm.

    A buffer is composed of parts, in one class statement: how to choose (uniformly, by priority),
    how to store (whole observations, frames once), what to compute (n-step returns, time limits).
    Every part is a class that passes on the keyword arguments that are not its own, so a user's
    class can be put anywhere among them.

    Attributes:
        T: rows of storage.
        B: environments in every appended batch.
        size: T * B.
        stride: rows from the begin of one possible entry of a batch to that of the next.
        batch_T: steps of an entry that is a sequence; None if a batch has single transitions, or
            sequences of any length.
        samples: stored records [T,B,...].
        rng: source of all random choices.
        stored_rows: name to array [T,...] of everything that is saved; a subclass that allocates
            arrays registers them here.
    """

    async_ = False
    T: int
    B: int
    size: int
    stride = 1
    batch_T: int | None = None
    discount: float
    n_step_return: int
    samples: Any
    window: Window
    truncated = TruncatedRows(1, 1, _memory.allocate)  # No marks; storage makes its own.
    t: int
    off_backward: int
    off_forward: int
    _buffer_full: bool

    def __init__(self, **kwargs: Any) -> None:
        if kwargs:
            raise TypeError(f"{type(self).__name__} takes no arguments {sorted(kwargs)}")
        self.rng = make_generator()
        self.stored_rows: dict[str, NDArray] = {}

    def allocate(self, example: Nested, leading_dims: tuple[int, ...]) -> Any:
        """Make zeroed arrays [*leading_dims, ...] for ``example``; shared ones if ``async_``."""
        return _memory.allocate(example, leading_dims, share_memory=self.async_)

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
        """Return what ``sample_batch`` gives of these rows: a storage may add to the batch.

        Args:
            T_idxs: rows [n].
            B_idxs: environments [n].
            T: number of steps, if the batch is one of sequences.
        """
        return self.extract_batch(T_idxs, B_idxs, *T)

    def first_entry(self) -> int:
        """Return the number of rows from the cursor to the next one where an entry begins."""
        return 0

    def entry_margins(self) -> tuple[int, int]:
        """Return the numbers of entries behind the cursor, and from it on, that are incomplete."""
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

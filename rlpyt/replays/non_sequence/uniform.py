"""Single transitions, drawn uniformly."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.utils.types import IntArray


class UniformReplay(BaseReplayBuffer):
    """Every valid row of every environment is drawn with equal probability."""

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` transitions.

        Raises:
            ValueError: if no row is complete yet.
        """
        T_idxs, B_idxs = self.sample_idxs(batch_B)
        return self.extract_batch(T_idxs, B_idxs)

    def sample_idxs(self, batch_B: int) -> tuple[IntArray, IntArray]:
        """Draw rows [batch_B] and environments [batch_B]."""
        window = self.current_window()
        n_entries = window.n_valid * self.B
        if n_entries == 0:
            raise ValueError(
                f"cannot sample {batch_B} transitions: {window.n_filled} of T={self.T} rows "
                f"are written, of which {self.off_backward} await their return and next "
                f"observation and {self.off_forward} have no past; append more samples first "
                "(min_steps_learn)"
            )
        k, B_idxs = np.divmod(self.rng.integers(n_entries, size=batch_B), self.B)
        return window.row(k), B_idxs


class UniformReplayBuffer(UniformReplay, NStepReturnBuffer):
    """Single transitions, drawn uniformly from storage of whole observations."""


class AsyncUniformReplayBuffer(AsyncReplayBufferMixin, UniformReplayBuffer):
    """A :class:`UniformReplayBuffer` which processes share."""

"""Single transitions, drawn uniformly."""

from __future__ import annotations

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.utils.types import IntArray


class UniformReplay(BaseReplayBuffer):
    """Mixin that draws valid rows uniformly from all environments."""

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` transitions.

        Raises:
            ValueError: if no row is complete yet.
        """
        T_idxs, B_idxs = self.store.local(*self.sample_idxs(batch_B))
        return self.read_batch(T_idxs, B_idxs)

    def sample_idxs(self, batch_B: int) -> tuple[IntArray, IntArray]:
        """Draw rows [batch_B] and environments [batch_B]."""
        first, n_valid = self.window.newest_valid(self.T)
        if n_valid == 0:
            raise ValueError(
                f"cannot sample {batch_B} transitions: {self.window.n_filled} of T={self.T} rows "
                f"are written, of which {self.off_backward} await their return and next "
                f"observation and {self.off_forward} have no past; append more samples first "
                "(min_steps_learn)"
            )
        return self.truncated.draw(self.rng, batch_B, first + n_valid - 1, n_valid, step=-1)


class UniformReplayBuffer(UniformReplay, NStepReturnBuffer):
    """Single transitions, drawn uniformly from storage of whole observations."""


class AsyncUniformReplayBuffer(AsyncReplayBufferMixin, UniformReplayBuffer):
    """A :class:`UniformReplayBuffer` that processes share."""

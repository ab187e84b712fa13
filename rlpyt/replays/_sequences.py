"""Where sequences may begin, and how long they may be."""

from __future__ import annotations

from rlpyt.replays.base import BaseReplayBuffer


class Sequences(BaseReplayBuffer):
    """What storage of sequences and the ways to draw them have in common.

    A sequence of ``batch_T`` steps which begins at row i takes the rows i - 1 (previous action and
    reward) to i + batch_T + n - 1 (the observation after the last n-step return).

    Attributes:
        rnn_state_interval: rows from one stored recurrent state to the next; 0 if there are none.
        batch_T: steps of a sequence, or None if every batch is asked for its own.
    """

    rnn_state_interval: int
    batch_T: int | None

    @property
    def stride(self) -> int:
        """Rows from one possible begin of a sequence to the next."""
        return max(1, self.rnn_state_interval)

    def n_steps_of(self, batch_T: int | None) -> int:
        """``batch_T``, or that of the buffer if None.

        Raises:
            ValueError: if it is nowhere given, or the buffer can never hold so long a sequence.
        """
        batch_T = self.batch_T if batch_T is None else batch_T
        if batch_T is None:
            raise ValueError(
                "batch_T is None, so the length of the sequences is not known: give it to the "
                "constructor, to set_batch_T or to sample_batch"
            )
        if batch_T < 1:
            raise ValueError(f"batch_T is {batch_T}: choose 1 or more steps")
        needed = self.rows_needed(int(batch_T))
        if needed > self.T:
            raise ValueError(
                f"sequences of batch_T={batch_T} steps do not fit: with n_step_return="
                f"{self.n_step_return}, {self.off_forward} rows of history and a begin every "
                f"{self.stride} rows they need {needed} rows, but size holds T={self.T} of "
                f"B={self.B} environments: make size at least {needed * self.B} (and much larger)"
            )
        return int(batch_T)

    def rows_needed(self, batch_T: int) -> int:
        """Rows with which there always is a valid sequence, once all are written."""
        return self.n_step_return + batch_T + self.off_forward + self.stride

    def valid_starts(self, batch_T: int) -> tuple[int, int]:
        """The valid first rows of sequences: ``stride`` times k for first <= k < stop, modulo T."""
        oldest = self.t - self.current_window().n_filled + self.off_forward
        newest = self.t - 1 - self.n_step_return - batch_T
        return -(-oldest // self.stride), newest // self.stride + 1

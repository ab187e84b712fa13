"""Sequences of time steps, with the recurrent state they begin from."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from rlpyt.core.records import SamplesToBuffer as SamplesToBuffer, extended
from rlpyt.replays.last_observation import LastObservationMixin, first_of
from rlpyt.replays.n_step import BaseNStepReturnBuffer, without
from rlpyt.utils.buffer import leaves, named_leaves
from rlpyt.utils.collections import record
from rlpyt.utils.types import Array, IntArray, Nested


@record
class SamplesFromReplay(NamedTuple):
    """Sequences of T steps, and the n that follow; B is the replay batch, i the first row.

    Row i - 1 gives only the previous action and reward of the first step, zero if an episode ended
    there. Later rows are never zeroed: each gives the action and reward of its own step, which are
    also the previous ones of the next step.
    """

    all_observation: Nested  # [T+n,B,...] of rows i, ..., i+T+n-1
    all_action: Nested  # [T+n,B,...] of rows i-1, ..., i+T+n-2: before each observation
    all_reward: Array  # [T+n,B] of the same rows
    return_: (
        Array  # [T,B] of rows i, ..., i+T-1: sum of n rewards, discounted, up to the first done
    )
    done: Array  # [T,B]
    done_n: Array  # [T,B] any done within n steps
    init_rnn_state: Nested  # [B,N,H] before row i, or None


SamplesFromReplayTL = extended(SamplesFromReplay, ("timeout", "timeout_n"), "TL")
LAST_FIELDS = ("bootstrap_steps", "at_limit", "last_observation")


class SequenceNStepReturnBuffer(BaseNStepReturnBuffer):
    """Storage of sequences that begin where a recurrent state is stored.

    A sequence of ``batch_T`` steps that begins at row i takes the rows i - 1 (previous action and
    reward) to i + batch_T + n - 1 (the observation after the last n-step return). Every batch of
    ``sample_batch`` has the fields of the example that ``SamplesToBuffer`` lacks, under their
    names, for rows i to i + batch_T - 1; a subclass that overrides ``extract_batch`` adds them
    itself.

    Args:
        example: record for ``BaseNStepReturnBuffer``, with a field ``prev_rnn_state`` ([N,H], or a
            record of such) if the interval is not 0.
        size: number of transitions, rounded up to a multiple of B times the interval; may be a
            float.
        B: number of environments in every appended batch.
        rnn_state_interval: number of rows from one stored ``prev_rnn_state`` to the next; sequences
            begin where one is stored. With 0 none is stored, even if samples have one, and
            sequences begin anywhere.
        batch_T: number of steps in a sequence, burn-in included; None if each call of
            ``sample_batch`` gives it.
        discount: discount factor of one step.
        n_step_return: number n of rewards in a return.
        device: device of the storage, its name or its index; None for arrays in host memory.

    Raises:
        ValueError: if the interval is negative or not a whole number, or the example has no
            ``prev_rnn_state`` to store.

    Attributes:
        stride: number of rows from one possible start of a sequence to the next.
        samples_prev_rnn_state: [T / rnn_state_interval,B,N,H], or None; with an interval of 1 this
            is ``samples.prev_rnn_state`` itself.

    Source: Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement
    Learning" (R2D2), section 3.
    """

    batch_record: Any = SamplesFromReplay

    def __init__(
        self,
        example: Nested,
        size: float,
        B: int,
        rnn_state_interval: int,
        batch_T: int | None = None,
        *,
        discount: float = 1,
        n_step_return: int = 1,
        device: Any = None,
    ) -> None:
        if rnn_state_interval != int(rnn_state_interval) or rnn_state_interval < 0:
            raise ValueError(
                f"rnn_state_interval is {rnn_state_interval}: give a number of rows, 1 to store "
                "the recurrent state of every row, 0 to store none"
            )
        self.rnn_state_interval = interval = int(rnn_state_interval)
        if interval > 0 and "prev_rnn_state" not in example._fields:
            raise ValueError(
                f"the example has the fields {example._fields} but not prev_rnn_state: add it in "
                "examples_to_buffer and samples_to_buffer of the algorithm (from the agent_info of "
                "a recurrent agent), or use rnn_state_interval=0, which stores none"
            )
        self.stride = max(1, interval)
        self.batch_T = None if batch_T is None else int(batch_T)
        rows = max(1, int(B)) * self.stride
        size = math.ceil(size / rows) * rows
        self.samples_prev_rnn_state: Any = None
        self._offsets: dict[tuple[int, int], Any] = {}  # Columns of integers, by first and stop.
        super().__init__(
            example=example,
            size=size,
            B=B,
            discount=discount,
            n_step_return=n_step_return,
            device=device,
        )

    def allocate_rows(self, example: Nested) -> None:
        interval = self.rnn_state_interval
        super().allocate_rows(example if interval == 1 else without(example, "prev_rnn_state"))
        if interval == 1:
            self.samples_prev_rnn_state = self.samples.prev_rnn_state
        elif interval > 1:
            lead = (self.T // interval, self.B)
            self.samples_prev_rnn_state = self.store.allocate(example.prev_rnn_state, lead)
            self.stored_rows.update(named_leaves(self.samples_prev_rnn_state, "prev_rnn_state"))
            self._state_rows = tuple(leaves(self.samples_prev_rnn_state))
        if type(self).extract_batch is SequenceNStepReturnBuffer.extract_batch:
            self.set_user_fields("prev_rnn_state")

    def n_steps_of(self, batch_T: int | None) -> int:
        """Return ``batch_T``, or the buffer's own if it is None.

        Raises:
            ValueError: if neither is given, or the buffer can never hold so long a sequence.
        """
        batch_T = self._given_steps(batch_T)
        self._require_rows(
            self.n_step_return + batch_T + self.window.off_forward + self.stride, batch_T
        )
        return batch_T

    def _given_steps(self, batch_T: int | None) -> int:
        batch_T = self.batch_T if batch_T is None else batch_T
        if batch_T is None:
            raise ValueError(
                "batch_T is None, so sequences have no length: give it to the "
                "constructor, to set_batch_T or to sample_batch"
            )
        if batch_T < 1:
            raise ValueError(f"batch_T is {batch_T}: choose 1 or more steps")
        return int(batch_T)

    def _require_rows(self, needed: int, batch_T: int) -> None:
        if needed > self.T:
            raise ValueError(
                f"sequences of batch_T={batch_T} steps do not fit: with n_step_return="
                f"{self.n_step_return}, {self.off_forward} rows of history, and beginnings "
                f"{self.stride} rows apart, they need {needed} rows, but size holds T={self.T} for "
                f"B={self.B} environments: make size at least {needed * self.B} (and much larger)"
            )

    def first_entry(self) -> int:
        return -self.window.t % self.stride

    def entry_margins(self) -> tuple[int, int]:
        batch_T = self._given_steps(None)
        off_backward = math.ceil((1 + self.n_step_return + batch_T) / self.stride)
        off_forward = math.ceil(self.off_forward / self.stride)
        self._require_rows((off_backward + off_forward + 1) * self.stride, batch_T)
        return off_backward, off_forward

    def valid_starts(self, batch_T: int) -> tuple[int, int]:
        """Return ``(first, stop)``: sequences begin at rows ``stride`` * k, first <= k < stop."""
        t, window = self.window.t, self.window
        oldest = t - window.n_filled + window.off_forward
        newest = t - 1 - self.n_step_return - batch_T
        return -(-oldest // self.stride), newest // self.stride + 1

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        if self.rnn_state_interval <= 1:
            return super().append_samples(samples)
        states, own, t = self._checked_states(samples), self._state_rows, self.window.t
        n_rows, rows = super().append_samples(samples)
        first = -t % self.stride
        stored = tuple(source[first :: self.stride] for source in states)
        if first < n_rows:
            self.store.write(own, (t + first) // self.stride % len(own[0]), stored)
        return n_rows, rows

    def _checked_states(self, samples: Any) -> list[Any]:
        """Return the arrays [T',B,...] of recurrent states in ``samples``."""
        has_states = "prev_rnn_state" in samples._fields
        states = leaves(samples.prev_rnn_state) if has_states else []
        given = [tuple(source.shape) for source in states]
        expected = [(len(samples.reward), *array.shape[1:]) for array in self._state_rows]
        if given != expected:
            raise ValueError(
                f"samples have recurrent states of the shapes {given}, this buffer stores "
                f"{expected} ([T',B,N,H]) in prev_rnn_state: append records with the fields "
                "of the example it was made with"
            )
        return states

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of :meth:`extract_batch`, with the user's own fields at its end."""
        batch = self.extract_batch(T_idxs, B_idxs, *T)
        if not self.user_fields:
            return batch
        return self.with_user_fields(batch, self._places(T_idxs, B_idxs, 0, len(batch.done)))

    def _places(self, T_idxs: Any, B_idxs: Any, first: int, stop: int, stride: int = 1) -> Any:
        """Return the places [stop-first,m] of rows T_idxs + first, ..., T_idxs + stop - 1."""
        offsets = self._offsets.get((first, stop))
        if offsets is None:
            offsets = self._offsets[first, stop] = self.store.arange(first, stop)[:, None]
        return self.store.places((self.T, self.B), T_idxs, B_idxs, offsets, stride)

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, T: int | None = None) -> Any:
        """Return the sequences that begin at rows ``T_idxs`` [m] of environments ``B_idxs`` [m].

        Args:
            T_idxs: rows, multiples of the interval; negative ones count from the end.
            B_idxs: environments.
            T: steps; by default ``batch_T``.

        Returns:
            ``SamplesFromReplay`` of tensors [T,m,...]. The memory of a large batch is reused once
            none of its tensors exists any more.

        Raises:
            ValueError: if no recurrent state is stored for a row, or sequences are too long.
        """
        T = self.n_steps_of(T)
        n, store = self.n_step_return, self.store
        places = self._places(T_idxs, B_idxs, -1, T + n - 1, self.stride)
        actions, rewards, *flags = store.read(self._read, places)
        store.fill(flags[0][0], (actions[0], rewards[0]), (self.null_action, None))
        done, return_, done_n, *timeouts = (x[1 : T + 1] for x in flags)
        T_idxs, B_idxs = places[1] // self.B, places[1] % self.B
        slots = T_idxs // self.stride * self.B + B_idxs
        (rnn_state,) = store.read((self.samples_prev_rnn_state,), slots)
        batch = self.batch_record(
            self.extract_observation(T_idxs, B_idxs, T + n),
            actions,
            rewards,
            return_,
            done,
            done_n,
            rnn_state,
            *timeouts,
        )
        return store.tensors(batch)

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray, T: int) -> Nested:
        """Return observations [T,m,...] of ``T`` rows from ``T_idxs`` [m] on, 0 <= T_idxs.

        Called once per batch.
        """
        places = self._places(T_idxs, B_idxs, 0, T)
        (observation,) = self.store.read((self.samples.observation,), places)
        return observation

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "rnn_state_interval": self.rnn_state_interval}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        interval = state.pop("rnn_state_interval", None)
        if interval != self.rnn_state_interval:
            raise ValueError(
                f"the state is of a buffer with rnn_state_interval={interval} (None: of single "
                f"transitions), this buffer has {self.rnn_state_interval}: construct it with the "
                "same"
            )
        super().load_state_dict(state)


class SequenceTimeLimitBuffer(LastObservationMixin, SequenceNStepReturnBuffer):
    """Storage of sequences with time limits, and the observations at them.

    If last observations are stored, ``done_n`` and ``timeout_n`` are False where a return is
    truncated after k rewards, because it can be bootstrapped, and batches have further fields:
    ``bootstrap_steps`` [T,B], k for such steps and n for the others; ``at_limit`` [T+n-1,B],
    whether a time limit truncated an episode after rows i, ..., i+T+n-2; and ``last_observation``
    [K,...] of the K true entries of this mask, in the order of its memory.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 4.
    """

    batch_record: Any = SamplesFromReplayTL

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch of :meth:`extract_batch`, bootstrapped at time limits where it can be.

        The user's own fields are added as well.
        """
        batch = super().read_batch(T_idxs, B_idxs, *T)
        if self.samples_last_observation is None:
            return batch
        n_steps, n = len(batch.done), self.n_step_return
        places = self._places(T_idxs, B_idxs, 0, n_steps + n - 1)
        done, timeout = self.store.read((self.samples.done, self.samples.timeout), places)
        at_limit = (done != 0) & (timeout != 0)
        (last,) = self.store.read((self.samples_last_observation,), places[at_limit])
        windows = self.store.arange(n)[:, None] + self.store.arange(n_steps)
        ends = first_of(done[windows])
        ends, at_limit, last = self.store.tensors((ends, at_limit, last))
        is_hit = batch.timeout_n.bool()
        steps = torch.where(is_hit, ends + 1, n)
        for flags in (batch.done_n, batch.timeout_n):
            flags.masked_fill_(is_hit, 0)
        return extended(type(batch), LAST_FIELDS, "Last")(*batch, steps, at_limit, last)

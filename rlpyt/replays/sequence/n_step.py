"""Sequences of time steps, with the recurrent state they begin from."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rlpyt.core.records import SamplesToBuffer as SamplesToBuffer
from rlpyt.replays._extract import blank, gather, without
from rlpyt.replays._memory import BatchMemory
from rlpyt.replays._rnn_states import RnnStates
from rlpyt.replays._sequences import Sequences
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import map_buffer, torchify_buffer
from rlpyt.utils.collections import record
from rlpyt.utils.types import Array, IntArray, Nested


@record
class SamplesFromReplay(NamedTuple):
    """Sequences of T steps, and the n which follow; B is the replay batch, i the first row.

    Row i - 1 comes only as what preceded the first step, and is zero where it ended an episode. The
    others are not blanked: they are what an agent gets as previous action and reward, and what it
    did next.
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


class SequenceNStepReturnBuffer(Sequences, BaseNStepReturnBuffer):
    """Storage from which sequences are read that begin where a recurrent state is stored.

    Fields of the example beyond those of ``SamplesToBuffer`` come with every batch, under their
    names, for rows i to i + T - 1; a subclass which overrides ``extract_batch`` adds them itself.

    Args:
        example: as for ``BaseNStepReturnBuffer``, with a field ``prev_rnn_state`` ([N,H], or a
            record of such) if the interval is not 0.
        size: transitions, rounded up to a multiple of B times the interval; may be a float.
        B: environments in every batch that is appended.
        rnn_state_interval: rows from one stored ``prev_rnn_state`` to the next, to which sequences
            begin; 0 to store none (a ``prev_rnn_state`` that comes is left out) and begin anywhere.
        batch_T: steps of a sequence, warm-up included, if always the same.

    Raises:
        ValueError: if the interval is negative or no whole number, or the example has no
            ``prev_rnn_state`` to store.

    Attributes:
        samples_prev_rnn_state: [T / rnn_state_interval,B,N,H], or None; with an interval of 1 this
            is ``samples.prev_rnn_state`` itself.

    Source: Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement
    Learning" (R2D2), section 3.
    """

    batch_record: Any = SamplesFromReplay
    stored_fields = (*SamplesToBuffer._fields, "prev_rnn_state")

    def __init__(
        self,
        example: Nested,
        size: float,
        B: int,
        rnn_state_interval: int,
        batch_T: int | None = None,
        **kwargs: Any,
    ) -> None:
        if rnn_state_interval != int(rnn_state_interval) or rnn_state_interval < 0:
            raise ValueError(
                f"rnn_state_interval is {rnn_state_interval}: give a number of rows, 1 to store "
                "the recurrent state of every row, 0 to store none"
            )
        self.rnn_state_interval = int(rnn_state_interval)
        if self.rnn_state_interval > 0 and "prev_rnn_state" not in example._fields:
            raise ValueError(
                f"the example has the fields {example._fields} but not prev_rnn_state: add it in "
                "examples_to_buffer and samples_to_buffer of the algorithm (from the agent_info of "
                "a recurrent agent), or use rnn_state_interval=0, which stores none"
            )
        self.batch_T = None if batch_T is None else int(batch_T)
        rows = max(1, int(B)) * self.stride
        size = math.ceil(size / rows) * rows
        super().__init__(example=self._to_rows(example), size=size, B=B, **kwargs)
        self.rnn_states: RnnStates | None = None
        self.samples_prev_rnn_state: Any = getattr(self.samples, "prev_rnn_state", None)
        if self.rnn_state_interval > 1:
            self.rnn_states = RnnStates(
                example.prev_rnn_state, self.window, self.rnn_state_interval, self.allocate
            )
            self.samples_prev_rnn_state = self.rnn_states.states
            self.stored_rows.update(self.rnn_states.arrays)
        self.batch_memory = BatchMemory()

    def _to_rows(self, samples: Any) -> Any:
        """``samples`` with the recurrent state only if there is one in every row."""
        if self.rnn_state_interval == 1:
            return samples
        return without(samples, "prev_rnn_state", "SamplesToBuffer")

    def append_samples(self, samples: Nested) -> tuple[int, slice | IntArray]:
        if self.rnn_states is None:
            return super().append_samples(self._to_rows(samples))
        states = getattr(samples, "prev_rnn_state", None)
        self.rnn_states.check(states, len(samples.reward))
        t = self.t
        n_rows, rows = super().append_samples(self._to_rows(samples))
        self.rnn_states.write(t, states)
        return n_rows, rows

    def extract_batch(self, T_idxs: IntArray, B_idxs: IntArray, T: int | None = None) -> Any:
        """The sequences that begin at rows ``T_idxs`` [m] of environments ``B_idxs`` [m].

        Args:
            T_idxs: rows, multiples of the interval; negative ones count from the end.
            B_idxs: environments.
            T: steps; by default ``batch_T``.

        Returns:
            ``SamplesFromReplay`` of tensors [T,m,...]. The memory of a large one is used again for
            a later batch, once no tensor of this batch exists any more.

        Raises:
            ValueError: if no recurrent state is stored for a row, or sequences are too long.
        """
        T = self.n_steps_of(T)
        T_idxs, B_idxs = np.asarray(T_idxs) % self.T, np.asarray(B_idxs)
        slots, past = np.divmod(T_idxs, self.stride)
        if past.any():
            raise ValueError(
                f"sequences cannot begin at rows {T_idxs[past > 0]}: recurrent states are stored "
                f"for multiples of rnn_state_interval={self.rnn_state_interval}"
            )
        n = self.n_step_return
        flat = self.flat_idxs(T_idxs + np.arange(-1, T + n - 1)[:, None], B_idxs)
        own = flat[1 : T + 1]
        all_action, all_reward = gather((self.samples.action, self.samples.reward), flat)
        done: Any = gather(self.samples.done, flat[: T + 1])
        before = map_buffer(lambda part: part[0], (all_action, all_reward))
        blank(before, done[0].astype(bool, copy=False))
        batch = self.batch_class(
            self.extract_observation(T_idxs, B_idxs, T + n),
            all_action,
            all_reward,
            gather(self.samples_return_, own),
            done[1:],
            gather(self.samples_done_n, own),
            gather(self.samples_prev_rnn_state, slots * self.B + B_idxs % self.B),
            *(gather(field, own) for field in self.row_fields.values()),
        )
        return torchify_buffer(batch)

    def extract_observation(self, T_idxs: IntArray, B_idxs: IntArray, T: int) -> Nested:
        """Observations [T,m,...] of ``T`` rows from ``T_idxs`` [m] on; 0 <= T_idxs < T of the ring.

        Called once per batch.
        """
        flat = self.flat_idxs(T_idxs + np.arange(T)[:, None], B_idxs)
        return gather(self.samples.observation, flat, self.batch_memory.empty)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "rnn_state_interval": self.rnn_state_interval}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = dict(state)
        interval = state.pop("rnn_state_interval", None)
        if interval != self.rnn_state_interval:
            raise ValueError(
                f"the state is of a buffer with rnn_state_interval={interval} (None: of single "
                f"transitions), this buffer has {self.rnn_state_interval}: construct it alike"
            )
        super().load_state_dict(state)

"""Every cell of the matrix of replay buffers equals a twin that remembers everything."""

import itertools
import math
import multiprocessing as mp

import numpy as np
import pytest

from rlpyt.utils.buffer import torchify_buffer
from tests.reference.naive_tree import NaiveTree
from tests.replays.cells import (
    ALPHA,
    DEFAULT,
    Cell,
    WithPriorities,
    cells,
    rnn_state_of,
    take_apart,
    thinned_cells,
)
from tests.selection import FULL

N_APPENDS = 12
N_STEPS, INTERVALS = (1, 2, 3, 5), (0, 1, 3, 4)
fork = mp.get_context("fork")


def random_settings(cell, rng, n_step, interval):
    """Keyword arguments of :meth:`Cell.make` for a small buffer of any size."""
    B, n_frames, batch_T = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 7))
    settings = {
        "B": B,
        "n_frames": n_frames,
        "seed": int(rng.integers(1 << 30)),
        "n_step": n_step,
        "interval": interval,
        "batch_T": batch_T,
        "done_prob": rng.choice([0.0, 0.1, 0.4, 0.8]),
        "missing": int(rng.integers(B)),  # The size is not always a multiple of B.
    }
    stride = max(1, interval)
    if cell.is_prioritized:
        settings["input_priorities"] = bool(rng.integers(2))
    if not cell.is_sequence:
        return {**settings, "T": n_step + n_frames + int(rng.integers(2, 9))}
    if cell.is_prioritized and settings["input_priorities"]:
        # More would come too late: these rows are on already.
        latest = math.ceil((1 + n_step + batch_T) / stride)
        settings["input_priority_shift"] = int(rng.integers(1 + latest))
    T = 1 + n_step + batch_T + max(1, n_frames - 1) + 3 * stride + int(rng.integers(0, 9))
    return {**settings, "T": T}


class NaivePriorities:
    """Leaves of single transitions, or of sequences by the number of their stored state."""

    def __init__(self, cell, buffer):
        self.buffer = buffer
        self.n_rows = 0
        self.stride, n_needed, shift = 1, buffer.n_step_return, 0
        if cell.is_sequence:
            self.stride, shift = max(1, buffer.rnn_state_interval), buffer.input_priority_shift
            n_needed += 1 + buffer.batch_T
        margins = (math.ceil(n / self.stride) for n in (n_needed, buffer.off_forward))
        T = buffer.T // self.stride
        self.tree = NaiveTree(T, buffer.B, *margins, DEFAULT**ALPHA, shift)

    def append(self, n_rows, priorities):
        """Priorities [n_rows,B] or None, before the power of alpha."""
        has_state = np.arange(self.n_rows, self.n_rows + n_rows) % self.stride == 0
        given = None if priorities is None else priorities[has_state] ** ALPHA
        self.tree.advance(int(has_state.sum()), given)
        self.n_rows += n_rows

    def update(self, tree_idxs, priorities):
        leaves = tree_idxs - self.buffer.priority_tree.low_idx
        self.tree.update(*np.divmod(leaves, self.buffer.B), priorities**ALPHA)


def call(is_elsewhere, method, *args):
    """Call a method of a buffer, here or in a process that is then gone."""
    if not is_elsewhere:
        method(*args)
        return
    process = fork.Process(target=method, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def random_priorities(rng, n_rows, B):
    """What is given, and the same [n_rows,B]."""
    shape = [(), (B,), (n_rows, B)][rng.integers(3)]
    given = np.asarray(rng.random(shape) + 0.1)
    return given, np.broadcast_to(given, (n_rows, B))


class Pair:
    """A buffer of one cell and its twin."""

    def __init__(self, cell, rng, **settings):
        self.cell, self.rng = cell, rng
        self.buffer, self.stream, self.twin = cell.make(**settings)
        self.priorities = NaivePriorities(cell, self.buffer) if cell.is_prioritized else None

    def append(self, n_rows, is_elsewhere=False):
        steps, given, priorities = self.stream.steps(n_rows), None, None
        samples = self.cell.samples(steps)
        if self.priorities and self.buffer.input_priorities and self.rng.random() < 0.8:
            given, priorities = random_priorities(self.rng, n_rows, self.buffer.B)
            samples = WithPriorities(given, samples)
        samples = torchify_buffer(samples) if self.rng.integers(2) else samples
        call(is_elsewhere, self.buffer.append_samples, samples)
        self.buffer._async_pull()
        self.twin.append(steps)
        if self.priorities:
            self.priorities.append(n_rows, priorities)
            self.check_priorities()

    def check_priorities(self):
        leaves = self.buffer.priority_tree.priorities
        np.testing.assert_allclose(leaves, self.priorities.tree.array())

    def rows(self, batch_T=None):
        """Where transitions, or sequences of ``batch_T`` steps, can begin."""
        if not self.cell.is_sequence:
            rows = self.twin.valid_rows()
            assert self.buffer.window.newest_valid(self.buffer.T)[1] == len(rows)
            return rows
        batch_T = batch_T or self.buffer.batch_T
        rows = self.twin.valid_starts(batch_T, self.buffer.rnn_state_interval)
        first, stop = self.buffer.valid_starts(batch_T)
        assert max(0, stop - first) == len(rows)
        return rows

    def assert_equals_twin(self, batch, rows, envs, batch_T=None):
        batch, is_sequence = take_apart(self.cell, batch), self.cell.is_sequence
        if is_sequence:
            batch_T = batch_T or self.buffer.batch_T
            expected = [self.twin.sequence(g, b, batch_T) for g, b in zip(rows, envs, strict=True)]
        else:
            expected = [self.twin.transition(g, b) for g, b in zip(rows, envs, strict=True)]
        for name, actual in flat_fields(batch).items():
            if name == "is_weights":
                continue
            desired = [e[name] for e in expected]
            if name == "init_rnn_state":
                assert_states(actual, desired, self.buffer.rnn_state_interval)
                continue
            actual, desired = actual.numpy(), np.array(desired)
            desired = desired.swapaxes(0, 1) if is_sequence else desired
            assert actual.shape == desired.shape
            # Not assert_allclose, which takes most of the time; rewards are small whole numbers.
            is_float = actual.dtype.kind == "f"
            is_same = np.abs(actual - desired) < 1e-4 if is_float else actual == desired
            assert is_same.all(), (name, actual, desired)

    def check_all(self, batch_T=None):
        """Every entry that can be drawn is right, drawn or not."""
        entries = list(itertools.product(self.rows(batch_T), range(self.buffer.B)))
        if entries:
            rows, envs = map(np.array, zip(*entries, strict=True))
            args = (batch_T or self.buffer.batch_T,) if self.cell.is_sequence else ()
            batch = self.buffer.extract_batch(rows % self.buffer.T, envs, *args)
            self.assert_equals_twin(batch, rows, envs, batch_T)

    def check_drawn(self):
        """Only what is complete is drawn; the field ``note`` tells which it is."""
        can_draw = self.priorities.tree.array().any() if self.priorities else self.rows()
        if not can_draw:
            with pytest.raises(ValueError, match="min_steps_learn"):
                self.buffer.sample_batch(1)
            return
        batch = self.buffer.sample_batch(8)
        notes = batch.note[0] if self.cell.is_sequence else batch.note
        logs, envs = self.twin.logs, range(self.buffer.B)
        place = {logs[b][g].note: (g, b) for g in self.rows() for b in envs}
        rows, envs = zip(*(place[int(note)] for note in notes), strict=True)
        self.assert_equals_twin(batch, rows, envs)
        if self.priorities:
            tree = self.buffer.priority_tree
            priorities = tree.priorities.ravel()[tree.prev_tree_idxs - tree.low_idx]
            weights = (
                1 / (priorities + (0 if self.cell.is_sequence else 1e-6))
            ) ** self.buffer.beta
            np.testing.assert_allclose(batch.is_weights, weights / weights.max(), rtol=1e-5)

    def update_priorities(self, is_elsewhere):
        if not self.priorities or not self.priorities.tree.array().any():
            return
        drawn, values = self.buffer.priority_tree.prev_tree_idxs, self.rng.random(8) + 0.1
        call(is_elsewhere, self.buffer.update_batch_priorities, values)
        self.priorities.update(drawn, values)
        self.check_priorities()

    def notes(self):
        """Numbers of all steps at which an entry can begin."""
        return {log[g].note for g in self.rows() for log in self.twin.logs}


def flat_fields(batch):
    fields = dict(batch.items())
    if "agent_inputs" in fields:
        inputs, target = fields.pop("agent_inputs"), fields.pop("target_inputs")
        fields.update(inputs.items())
        fields.update(("target_" + name, x) for name, x in target.items())
    return fields


def assert_states(actual, notes, interval):
    if interval == 0:
        assert actual is None
        return
    desired = rnn_state_of(notes)
    np.testing.assert_array_equal(actual.h, desired.h)
    np.testing.assert_array_equal(actual.c, desired.c)


@pytest.mark.parametrize("cell", thinned_cells(), ids=str)
def test_equals_twin(cell):
    """With n-step returns and intervals of stored states, over random sizes and appends."""
    number = cells().index(cell)
    rng = np.random.default_rng(number)
    kinds = list(itertools.product(N_STEPS, INTERVALS if cell.is_sequence else (1,) * 4))
    # Buffers of other observations, or in shared memory, run the same code on the rest.
    for k, (n_step, interval) in enumerate(kinds if FULL else kinds[number % 3 :: 3]):
        settings = random_settings(cell, rng, n_step, interval)
        if k == 0 and cell.storage == "frames":
            settings["image"] = (17, 19)
        pair = Pair(cell, rng, **settings)
        for i in range(N_APPENDS):
            longest = min(pair.buffer.T, rng.choice([2, 5, 100]))
            # Where memory is shared, other processes write as well: with stored states, if any.
            is_elsewhere = cell.is_shared and (k == 1 or FULL and k == 0)
            pair.append(int(rng.integers(1, 1 + longest)), is_elsewhere and i % 3 == 1)
            pair.check_all()
            pair.check_drawn()
            pair.update_priorities(is_elsewhere and i % 4 == 2)
        if cell.is_sequence:
            pair.check_all(max(1, pair.buffer.batch_T - 2))


def test_the_matrix_is_complete():
    assert len({str(cell) for cell in cells()}) == 48
    assert Cell(False, False, "whole", False, False).class_name == "UniformReplayBuffer"
    last = Cell(True, True, "frames", True, True).class_name
    assert last == "AsyncTlPrioritizedSequenceReplayFrameBuffer"


@pytest.mark.parametrize(
    "cell", [c for c in cells(is_shared=False) if not (c.is_sequence and c.is_prioritized)], ids=str
)
def test_all_valid_entries_are_drawn(cell):
    rng = np.random.default_rng(3)
    for interval in (0, 1, 4) if cell.is_sequence else (1,):
        pair = Pair(cell, rng, **random_settings(cell, rng, 2, interval))
        for n_rows in (pair.buffer.T - 1, 4, 3, 1):
            pair.append(n_rows)
            note = pair.buffer.sample_batch(3000).note
            drawn = note[0] if cell.is_sequence else note
            assert set(drawn.tolist()) == pair.notes()


@pytest.mark.parametrize(
    "cell", cells(is_shared=False, is_sequence=True, is_prioritized=False), ids=str
)
def test_lengths_may_change_from_batch_to_batch(cell):
    rng = np.random.default_rng(4)
    pair = Pair(cell, rng, **random_settings(cell, rng, 2, 3))
    pair.append(pair.buffer.T)
    for T in (1, 3, 2):
        assert pair.buffer.sample_batch(4, batch_T=T).return_.shape == (T, 4)
        pair.check_all(T)
    pair.buffer.set_batch_T(2)
    assert pair.buffer.sample_batch(4).all_reward.shape == (4, 4)

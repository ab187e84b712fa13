"""Every cell of the matrix of replay buffers equals a twin that remembers everything."""

import itertools
import multiprocessing as mp

import numpy as np
import pytest

from tests.reference.naive_tree import NaiveTree
from tests.replays import (
    test_against_naive as transitions,
    test_sequences_against_naive as sequences,
)
from tests.replays.cells import BATCH_T, INTERVAL, Cell, WithPriorities, cells, take_apart
from tests.replays.test_sequences_against_naive import ALPHA, DEFAULT, NaivePriorities

APPENDS = (1, 6, 7, 2, 21, 5, 3, 12)
fork = mp.get_context("fork")


class NaiveTransitionPriorities:
    """Leaves of single transitions, with the interface of those of sequences."""

    def __init__(self, buffer):
        self.buffer = buffer
        off = buffer.n_step_return, buffer.off_forward
        self.tree = NaiveTree(buffer.T, buffer.B, *off, DEFAULT**ALPHA)

    def append(self, n_rows, priorities):
        self.tree.advance(n_rows, None if priorities is None else priorities**ALPHA)

    def expected(self):
        return self.tree.array()

    def update(self, tree_idxs, priorities):
        leaves = tree_idxs - self.buffer.priority_tree.low_idx
        self.tree.update(*np.divmod(leaves, self.buffer.B), priorities**ALPHA)


def call(is_elsewhere, method, *args):
    """Call a method of a buffer, here or in a process which is then gone."""
    if not is_elsewhere:
        method(*args)
        return
    process = fork.Process(target=method, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


class Pair:
    """A buffer of one cell and its twin."""

    def __init__(self, cell):
        self.cell = cell
        self.rng = np.random.default_rng(7)
        self.buffer, self.stream, self.twin = cell.make()
        naive = NaivePriorities if cell.is_sequence else NaiveTransitionPriorities
        self.priorities = naive(self.buffer) if cell.is_prioritized else None

    def append(self, n_rows, is_elsewhere):
        steps = self.stream.steps(n_rows)
        samples, priorities = self.cell.samples(steps), None
        if self.priorities and n_rows % 2:
            priorities = self.rng.random((n_rows, self.buffer.B)) + 0.1
            samples = WithPriorities(priorities, samples)
        call(is_elsewhere, self.buffer.append_samples, samples)
        self.buffer._async_pull()
        self.twin.append(steps)
        if self.priorities:
            self.priorities.append(n_rows, priorities)
            self.check_priorities()

    def check_priorities(self):
        leaves = self.buffer.priority_tree.priorities
        np.testing.assert_allclose(leaves, self.priorities.expected())

    def rows(self):
        """Where transitions, or sequences, can begin."""
        if self.cell.is_sequence:
            return self.twin.valid_starts(BATCH_T, INTERVAL)
        return self.twin.valid_rows()

    def assert_equals_twin(self, batch, rows, envs):
        batch = take_apart(self.cell, batch)
        if self.cell.is_sequence:
            sequences.assert_equals_twin(batch, self.twin, rows, envs, BATCH_T, INTERVAL)
        else:
            transitions.assert_equals_twin(batch, self.twin, rows, envs)

    def check_all(self):
        """Every entry that can be drawn is right, drawn or not."""
        entries = list(itertools.product(self.rows(), range(self.buffer.B)))
        if entries:
            rows, envs = map(np.array, zip(*entries, strict=True))
            args = (BATCH_T,) if self.cell.is_sequence else ()
            batch = self.buffer.extract_batch(rows % self.buffer.T, envs, *args)
            self.assert_equals_twin(batch, rows, envs)

    def check_drawn(self):
        """Only what is complete is drawn; the field ``note`` tells which it is."""
        can_draw = self.priorities.expected().any() if self.priorities else self.rows()
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
            parts = sequences if self.cell.is_sequence else transitions
            parts.check_weights(self.buffer, batch)

    def update_priorities(self, is_elsewhere):
        if not self.priorities or not self.priorities.expected().any():
            return
        drawn, values = self.buffer.priority_tree.prev_tree_idxs, self.rng.random(8) + 0.1
        call(is_elsewhere, self.buffer.update_batch_priorities, values)
        self.priorities.update(drawn, values)
        self.check_priorities()


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_equals_twin(cell):
    pair = Pair(cell)
    for i, n_rows in enumerate(APPENDS):
        # Where memory is shared, other processes write as well.
        pair.append(n_rows, is_elsewhere=cell.is_shared and i % 3 == 1)
        pair.check_all()
        pair.check_drawn()
        pair.update_priorities(is_elsewhere=cell.is_shared and i % 4 == 2)


def test_the_matrix_is_complete():
    assert len({str(cell) for cell in cells()}) == 96
    assert {cell.n_step for cell in cells()} == {1, 3}
    assert Cell(False, False, "whole", False, 1, False).class_name == "UniformReplayBuffer"
    last = Cell(True, True, "frames", True, 1, True).class_name
    assert last == "AsyncTlPrioritizedSequenceReplayFrameBuffer"

"""After a restart nothing flows from one episode into the other, and no return lacks its end."""

import itertools

import numpy as np
import pytest

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.utils.logging import logger
from tests.replays.cells import Cell, assert_same, cells, go_on, thinned_cells
from tests.replays.test_against_naive import Pair, call, random_settings
from tests.selection import FULL

UNIFORM = Cell(False, False, "whole", False, False)
SEQUENCES = Cell(False, True, "whole", False, False)


class TruncatedPair(Pair):
    """A buffer and its twin, whose environments are restarted now and then."""

    def truncate(self, envs, is_elsewhere=False):
        for b in envs:
            self.twin.truncate(b)
            self.stream.restart(b)
        call(is_elsewhere, self.buffer.truncate, envs)

    def n_steps(self):
        return self.buffer.batch_T if self.cell.is_sequence else 1

    def entries(self, batch_T=None):
        """Places (row, environment) that may be drawn."""
        n_steps = batch_T or self.n_steps()
        places = itertools.product(self.rows(batch_T), range(self.buffer.B))
        return [(g, b) for g, b in places if self.twin.has_bootstrap(g, b, n_steps)]

    def check_priorities(self):
        """Those that run into a truncation have none, and those that do not keep theirs."""
        leaves, stride = self.buffer.priority_tree.priorities, self.priorities.stride
        expected = self.priorities.tree.array()
        for g in self.priorities.tree.valid_rows():
            for b in range(self.buffer.B):
                if not self.twin.has_bootstrap(g * stride, b, self.n_steps()):
                    expected[g % len(expected), b] = 0
                    self.priorities.tree.priorities[g, b] = 0
        np.testing.assert_allclose(leaves, expected)

    def check_drawn(self):
        entries = self.entries()
        if not (self.priorities.tree.array().any() if self.priorities else entries):
            with pytest.raises(ValueError, match="sample"):
                self.buffer.sample_batch(1)
            return
        batch = self.buffer.sample_batch(8)
        notes = batch.note[0] if self.cell.is_sequence else batch.note
        place = {self.twin.logs[b][g].note: (g, b) for g, b in entries}
        rows, envs = zip(*(place[int(note)] for note in notes), strict=True)
        self.assert_equals_twin(batch, rows, envs)


@pytest.mark.parametrize("cell", thinned_cells(), ids=str)
def test_equals_twin(cell):
    rng = np.random.default_rng(cells().index(cell))
    kinds = [(1, 1), (3, 0), (3, 4)] if cell.is_sequence else [(1, 1), (3, 1)]
    for n_step, interval in kinds if FULL else [kinds[rng.integers(len(kinds))]]:
        settings = random_settings(cell, rng, n_step, interval)
        settings["done_prob"] = rng.choice([0.0, 0.2])
        pair = TruncatedPair(cell, rng, **settings)
        B = pair.buffer.B
        for i in range(9):
            is_elsewhere = cell.is_shared and i % 4 == 1
            pair.append(int(rng.integers(1, rng.choice([3, pair.buffer.T]))), is_elsewhere)
            pair.check_all()
            pair.check_drawn()
            pair.update_priorities(False)
            if rng.random() < 0.5:
                pair.truncate(rng.permutation(B)[: rng.integers(B + 1)], is_elsewhere)
                pair.check_drawn()


@pytest.mark.parametrize(
    "cell", [c for c in cells(is_shared=False) if not (c.is_sequence and c.is_prioritized)], ids=str
)
def test_all_others_are_drawn(cell):
    rng = np.random.default_rng(3)
    for interval in (0, 1, 4) if cell.is_sequence else (1,):
        settings = random_settings(cell, rng, 2, interval)
        pair = TruncatedPair(cell, rng, **{**settings, "T": 4 * settings["T"], "done_prob": 0.1})
        for n_rows in (pair.buffer.T - 9, 5, 4, 3):
            pair.append(n_rows)
            if entries := pair.entries():
                note = pair.buffer.sample_batch(3000).note
                drawn = note[0] if cell.is_sequence else note
                assert set(drawn.tolist()) == {pair.twin.logs[b][g].note for g, b in entries}
            pair.truncate(range(0, pair.buffer.B, 2))


def test_of_an_environment_that_ended_by_itself_nothing_is_left_out():
    buffer, stream, _ = UNIFORM.make(T=12, done_prob=1.0)
    buffer.truncate([0, 1])  # Nothing was written yet.
    buffer.append_samples(UNIFORM.samples(stream.steps(5)))
    buffer.truncate(np.array([True, True]))
    assert not buffer.truncated.is_any


@pytest.mark.parametrize("cell", [UNIFORM, SEQUENCES], ids=str)
def test_without_a_truncation_draws_are_as_ever(cell):
    one, stream, _ = cell.make(T=60)
    other, _, _ = cell.make(T=60)
    go_on(cell, [one, other], stream, 30)
    draws = other.rng.bit_generator.state
    assert_same(one.sample_batch(5), other.sample_batch(5))
    other.rng.bit_generator.state = draws
    other.rng.integers(10, size=5)
    assert one.rng.bit_generator.state == other.rng.bit_generator.state


def test_the_only_entry_left_is_drawn():
    buffer, stream, _ = UNIFORM.make(T=9, B=100, n_step=1, done_prob=0)
    samples = UNIFORM.samples(stream.steps(3))
    buffer.append_samples(samples[:2])
    buffer.truncate(range(99))
    buffer.append_samples(samples[2:])
    assert (buffer.sample_batch(8).note == int(samples.note[1, 99])).all()


def test_all_left_out_is_an_error_and_no_endless_loop():
    buffer, stream, _ = UNIFORM.make(T=30, n_step=8, done_prob=0)
    buffer.append_samples(UNIFORM.samples(stream.steps(2)))
    buffer.truncate([0, 1])
    for _ in range(4):
        buffer.append_samples(UNIFORM.samples(stream.steps(2)))
        buffer.truncate([0, 1])
    with pytest.raises(ValueError, match="run into a truncation"):
        buffer.sample_batch(4)


@pytest.mark.parametrize("cell", cells(storage="frames", knows_time_limits=False), ids=str)
def test_truncations_are_part_of_the_state(cell):
    buffer, stream, _ = cell.make(T=40, done_prob=0)
    other, _, _ = cell.make(T=40, seed=1)
    go_on(cell, [other], stream, 9)
    other.truncate([1])
    go_on(cell, [buffer], stream, 20)
    buffer.truncate([0])
    stream.restart(0)
    other.load_state_dict(buffer.state_dict())
    np.testing.assert_array_equal(other.truncated.marks, buffer.truncated.marks)
    for n_rows in (7, 7, 18, 20):
        assert_same(*go_on(cell, [buffer, other], stream, n_rows))
    assert not other.truncated.is_any


# --- Through the algorithm ----------------------------------------------------------------------


def test_the_algorithm_informs_its_buffer():
    algo = DQN()
    algo.replay_buffer, stream, _ = UNIFORM.make(T=12, done_prob=0)
    algo.replay_buffer.append_samples(UNIFORM.samples(stream.steps(5)))
    algo.truncate_trajectories([1])
    assert algo.replay_buffer.samples.done[4].tolist() == [False, True]


def test_a_buffer_that_cannot_is_warned_of_once(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "log", lines.append)
    algo = DQN()
    algo.replay_buffer = object()
    algo.truncate_trajectories([1])
    algo.truncate_trajectories([0])
    assert len(lines) == 1
    assert "object has no truncate(B_idxs)" in lines[0]


def test_without_a_buffer_there_is_nothing_to_do():
    assert A2C().truncate_trajectories([0]) is None

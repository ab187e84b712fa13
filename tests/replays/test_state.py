"""A buffer continues from its state as if nothing had happened, and carries fields of the user."""

import pickle

import numpy as np
import pytest

from rlpyt.checkpoints import arrays as checkpoint_arrays
from rlpyt.checkpoints.store import Checkpoints
from rlpyt.utils.collections import namedarraytuple
from tests.refused import assert_refused
from tests.replays.cells import Cell, Pixels, assert_same, cells, go_on

CELLS = [cell for cell in cells(is_shared=False) if cell.storage != "dict"]
UNIFORM, PRIORITIZED, FRAMES = CELLS[0], cells(is_prioritized=True)[0], cells(storage="frames")[0]
SEQUENCES = cells(is_sequence=True, is_prioritized=True)[0]
STATES = cells(is_sequence=True, is_prioritized=False)[0]


def made(cell, n_appends, **settings):
    buffer, stream, _ = cell.make(**settings)
    for _ in range(n_appends):
        go_on(cell, [buffer], stream)
    return buffer, stream


@pytest.mark.parametrize("cell", [c for c in CELLS if not c.knows_time_limits], ids=str)
def test_checkpoints_hold_it_however_often_it_changed_in_between(cell, tmp_path, monkeypatch):
    """Although only segments that changed are written; also by a run that was resumed."""
    monkeypatch.setattr(checkpoint_arrays, "SMALLEST_SEGMENT", 100)
    interval = 4 if cell.is_sequence else 1
    buffer, stream = made(cell, 1, T=40, interval=interval)
    checkpoints = Checkpoints(tmp_path)
    for n_rows in (20, 3, 19):
        buffer.truncate([n_rows % 2])
        stream.restart(n_rows % 2)
        checkpoints.save(buffer.state_dict(), n_rows)
        go_on(cell, [buffer], stream, n_rows)
        checkpoints.save(buffer.state_dict(), n_rows)
        assert checkpoints.wait()
        other, _ = made(cell, n_rows, T=40, interval=interval, seed=1)
        other.load_state_dict(checkpoints.load())
        np.testing.assert_equal(other.state_dict(), buffer.state_dict())
        assert_same(*go_on(cell, [buffer, other], stream, 4))
        buffer, checkpoints = other, Checkpoints(tmp_path)


def test_rows_that_a_subclass_changes_by_hand_are_saved(tmp_path):
    class Relabelled(UNIFORM.cls):
        def relabel(self):
            self.samples.reward[:30:5] += 1

    np.random.seed(0)
    stream = UNIFORM.make()[1]
    samples = UNIFORM.samples(stream.steps(30))
    buffer, other = (Relabelled(example=samples[0, 0], size=80, B=2) for _ in range(2))
    buffer.append_samples(samples)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(buffer.state_dict(), 1)
    buffer.relabel()
    checkpoints.save(buffer.state_dict(), 2)
    assert checkpoints.wait()
    other.load_state_dict(checkpoints.load())
    np.testing.assert_array_equal(other.samples.reward, buffer.samples.reward)


def intervals(cell):
    return (4, 1, 0) if cell.is_sequence else (1, 1)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_round_trip_in_the_middle(cell):
    for n_appends, interval in zip((2, 9, 0), intervals(cell)):
        buffer, stream = made(cell, n_appends, T=40, interval=interval)
        other, _ = made(cell, 7, T=40, interval=interval, seed=1)
        other.load_state_dict(pickle.loads(pickle.dumps(buffer.state_dict())))
        for _ in range(4):
            assert_same(*go_on(cell, [buffer, other], stream))


@pytest.mark.parametrize("is_sequence", [False, True])
def test_the_state_is_not_a_copy_and_has_only_what_was_written(is_sequence):
    buffer, _ = made(Cell(False, is_sequence, "frames", True, False), 1, interval=4)
    rows = buffer.state_dict()["rows"]
    names = ("action", "reward", "done", "timeout", "note", "return_", "done_n", "timeout_n")
    expected = {**dict.fromkeys(names, 7), "frames": 7 + 2}
    if is_sequence:
        expected.update({"prev_rnn_state.h": 2, "prev_rnn_state.c": 2})
    assert {name: len(x) for name, x in rows.items()} == expected
    assert all(np.shares_memory(x, buffer.stored_rows[name]) for name, x in rows.items())


CHANGED = [
    *(
        (cell, change, cell, words)
        for cell in (UNIFORM, PRIORITIZED, SEQUENCES)
        for change, words in (
            ({"T": 48}, "T="),
            ({"B": 4}, "B=2"),
            ({"n_step": 1}, "n_step_return"),
        )
    ),
    *((SEQUENCES, {"interval": n}, SEQUENCES, "T=10") for n in (5, 0)),
    *((STATES, {"interval": n}, STATES, "rnn_state_interval=4") for n in (5, 0)),
    (SEQUENCES, {"batch_T": 6}, SEQUENCES, "sequences of batch_T=4"),
    (SEQUENCES, {}, PRIORITIZED, "sequences of batch_T=None"),
    (UNIFORM, {"n_frames": 2}, UNIFORM, "observation of the state is uint8"),
    # The priorities used to be dropped in silence.
    *(
        (
            Cell(p, is_sequence, "whole", False, False),
            {},
            Cell(not p, is_sequence, "whole", False, False),
            words,
        )
        for is_sequence in (False, True)
        for p, words in ((True, "no priorities"), (False, "'beta' 'priority_tree' Uniform"))
    ),
]


@pytest.mark.parametrize(("cell", "change", "of", "words"), CHANGED)
def test_a_state_of_another_buffer_is_refused(cell, change, of, words):
    state = made(of, 5, T=40, interval=4)[0].state_dict()
    other, stream, _ = cell.make(**{"T": 40, "interval": 4, **change})
    other.append_samples(cell.samples(stream.steps(14)))
    assert_refused(lambda: other.load_state_dict(state), words)
    assert other.t == 14


def test_exponent_of_the_weights_is_part_of_the_state():
    buffer, other = (made(PRIORITIZED, 3)[0] for _ in range(2))
    buffer.set_beta(0.77)
    other.load_state_dict(buffer.state_dict())
    assert other.beta == 0.77


def test_environments_made_anew_need_not_continue_loaded_frames():
    (buffer, _), (other, fresh) = made(FRAMES, 3), made(FRAMES, 0, seed=1)
    other.load_state_dict(buffer.state_dict())
    other.append_samples(FRAMES.samples(fresh.steps(7)))
    assert other.t == (buffer.t + 7) % buffer.T


def test_nothing_is_changed_by_a_tree_that_does_not_fit():
    example, before = (made(PRIORITIZED, 0, input_priorities=False)[0] for _ in range(2))
    buffer, stream, _ = PRIORITIZED.make(input_priorities=False)
    buffer.append_samples(PRIORITIZED.samples(stream.steps(14)))
    state = buffer.state_dict()
    state["priority_tree"]["input_priorities"] = np.zeros((21, 2))
    with pytest.raises(ValueError, match="input_priorities"):
        example.load_state_dict(state)
    assert example.t == 0
    np.testing.assert_array_equal(example.samples.reward, before.samples.reward)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_fields_of_the_user_travel(cell):
    """With those of the library's own names that this class has no use for."""
    rng = np.random.default_rng(1)
    with_timeout = cell._replace(knows_time_limits=True)
    for interval in intervals(cell):
        _, stream, _ = cell.make()
        steps = with_timeout.samples(stream.steps(30))
        goal = Pixels(rng.random((30, 2, 4)), np.arange(60).reshape(30, 2))
        given = namedarraytuple("More", [*steps._fields, "cost", "goal"])(
            *steps, rng.random((30, 2)), goal
        )
        kwargs = {"rnn_state_interval": interval, "batch_T": 5} if cell.is_sequence else {}
        buffer = cell.cls(example=given[0, 0], size=80, B=2, n_step_return=2, **kwargs)
        buffer.append_samples(given)
        n_steps = (5,) if cell.is_sequence else ()
        batch = buffer.read_batch(np.array([8, 4]), np.array([1, 0]), *n_steps)
        for i, (t, b) in enumerate([(8, 1), (4, 0)]):
            at = (slice(t, t + 5), b) if cell.is_sequence else (t, b)
            for name in ("note", "cost", "timeout", "goal"):
                drawn = getattr(batch, name)[(slice(None), i) if cell.is_sequence else i]
                assert_same(drawn, getattr(given, name)[at])
        drawn = buffer.sample_batch(3)
        assert drawn.cost.shape == ((5, 3) if cell.is_sequence else (3,))
        assert type(drawn) is type(buffer.sample_batch(3))
        assert hasattr(drawn, "is_weights") == cell.is_prioritized
        assert hasattr(drawn, "timeout_n") == cell.knows_time_limits

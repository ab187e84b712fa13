"""A buffer goes on from its state as if nothing had happened."""

import pickle

import numpy as np
import pytest

from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.buffer import buffer_func
from tests.reference.naive_replay import Stream
from tests.replays.test_against_naive import CLASSES, as_samples


def assert_same(one, other):
    if isinstance(one, tuple):
        for x, y in zip(one, other, strict=True):
            assert_same(x, y)
    else:
        np.testing.assert_array_equal(one, other)


def make(cls, n_appends, n_frames=3, size=40, B=2, n_step_return=2, seed=0):
    stream = Stream(np.random.default_rng(seed), B, n_frames, done_prob=0.2)
    example = as_samples(stream.steps(1))[0, 0]
    buffer = cls(example=example, size=size, B=B, discount=0.9, n_step_return=n_step_return)
    for _ in range(n_appends):
        go_on(buffer, stream)
    return buffer, stream


def go_on(buffer, stream):
    buffer.append_samples(as_samples(stream.steps(7)))
    batch = buffer.sample_batch(5)
    if hasattr(buffer, "priority_tree"):
        buffer.update_batch_priorities(np.abs(batch.return_.numpy()) + 1)
    return batch


@pytest.mark.parametrize("n_appends", [1, 2, 5])
@pytest.mark.parametrize("parts", CLASSES)
def test_round_trip_in_the_middle(parts, n_appends):
    buffer, stream = make(CLASSES[parts], n_appends)
    state = pickle.loads(pickle.dumps(buffer.state_dict()))
    other, _ = make(CLASSES[parts], 4, seed=1)
    other.load_state_dict(state)
    for _ in range(4):
        samples = as_samples(stream.steps(7))
        buffer.append_samples(samples)
        other.append_samples(buffer_func(samples, np.copy))
        one, two = buffer.sample_batch(6), other.sample_batch(6)
        assert_same(one, two)
        if parts[0]:
            for each in (buffer, other):
                each.update_batch_priorities(np.abs(one.return_.numpy()) + 1)


def test_the_state_is_not_a_copy_and_has_only_what_was_written():
    buffer, _ = make(CLASSES[False, True, False], 1)
    rows = buffer.state_dict()["rows"]
    assert {name: len(x) for name, x in rows.items()} == {
        "action": 7,
        "reward": 7,
        "done": 7,
        "timeout": 7,
        "note": 7,
        "return_": 7,
        "done_n": 7,
        "frames": 7 + 2,
    }
    assert all(np.shares_memory(x, buffer.stored_rows[name]) for name, x in rows.items())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"size": 42}, "T=20 rows and B=2"),
        ({"B": 4}, "T=20 rows and B=2"),
        ({"n_step_return": 1}, "n_step_return"),
    ],
)
@pytest.mark.parametrize("parts", CLASSES)
def test_another_shape_is_refused(parts, change, match):
    buffer, _ = make(CLASSES[parts], 2)
    other, _ = make(CLASSES[parts], 2, **change)
    before = other.t
    with pytest.raises(ValueError, match=match):
        other.load_state_dict(buffer.state_dict())
    assert other.t == before


def test_another_image_is_refused():
    cls = CLASSES[False, False, False]
    buffer, _ = make(cls, 2)
    other, _ = make(cls, 2, n_frames=2)
    with pytest.raises(ValueError, match="observation of the state is uint8"):
        other.load_state_dict(buffer.state_dict())


def test_state_without_priorities_is_refused():
    buffer, _ = make(CLASSES[False, False, False], 2)
    other, _ = make(CLASSES[True, False, False], 2)
    with pytest.raises(ValueError, match="without priorities"):
        other.load_state_dict(buffer.state_dict())


def test_state_with_priorities_is_refused_by_a_buffer_without():
    # The priorities used to be dropped in silence.
    state = make(PrioritizedReplayBuffer, 3)[0].state_dict()
    with pytest.raises(ValueError, match=r"\['beta', 'priority_tree'\], which UniformReplayBuffer"):
        make(UniformReplayBuffer, 0)[0].load_state_dict(state)


def test_exponent_of_the_weights_is_part_of_the_state():
    buffer, other = (make(PrioritizedReplayBuffer, 3)[0] for _ in range(2))
    buffer.set_beta(0.77)
    other.load_state_dict(buffer.state_dict())
    assert other.beta == 0.77


def test_environments_made_anew_need_not_continue_loaded_frames():
    buffer, _ = make(CLASSES[False, True, False], 3)
    other, fresh = make(CLASSES[False, True, False], 0, seed=1)
    other.load_state_dict(buffer.state_dict())
    other.append_samples(as_samples(fresh.steps(7)))
    assert other.t == (buffer.t + 7) % buffer.T


def test_nothing_is_changed_by_a_tree_that_does_not_fit():
    example = make(PrioritizedReplayBuffer, 0)[0]
    state = make(PrioritizedReplayBuffer, 3)[0].state_dict()
    state["priority_tree"]["input_priorities"] = np.zeros((20, 2))
    with pytest.raises(ValueError, match="input_priorities"):
        example.load_state_dict(state)
    assert example.t == 0
    assert (example.samples.reward == 0).all()

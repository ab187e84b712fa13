"""Sequence buffers: values by hand, priorities, extra fields, and what they refuse."""

import numpy as np
import pytest
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays.sequence.frame import (
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.n_step import SamplesFromReplay
from rlpyt.replays.sequence.prioritized import (
    PrioritizedSequenceReplayBuffer,
)
from rlpyt.replays.sequence.time_limit import TlUniformSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.misc import extract_sequences
from tests.replays.cells import RnnState, WithPriorities, rnn_state_of

SamplesToBufferRnn = namedarraytuple(
    "SamplesToBufferRnn", [*SamplesToBuffer._fields, "prev_rnn_state"]
)


def samples(T, first=0, B=1, done=()):
    """Steps first, first + 1, ...: everything is the number of the step."""
    number = np.arange(first, first + T)[:, None].repeat(B, 1)
    return SamplesToBufferRnn(
        np.stack([number] * 3, -1).astype(np.float32),
        number,
        number.astype(np.float32),
        np.isin(number, done),
        rnn_state_of(number),
    )


def make(cls=UniformSequenceReplayBuffer, n_filled=0, B=1, T=40, interval=4, **kwargs):
    kwargs = {"batch_T": 6, "n_step_return": 2, "discount": 0.5, **kwargs}
    example = samples(1, B=B)[0, 0]
    buffer = cls(example=example, size=T * B, B=B, rnn_state_interval=interval, **kwargs)
    for first in range(0, n_filled, 4):
        buffer.append_samples(samples(min(4, n_filled - first), first, B))
    return buffer


# --- What a batch holds ---------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 1, 4])
def test_sequence_by_hand(interval):
    buffer = make(interval=interval, batch_T=3, n_step_return=2)
    buffer.append_samples(samples(20, done=(9,)))
    batch = buffer.extract_batch([8, 12], [0, 0], 3)
    assert type(batch) is SamplesFromReplay
    assert batch.all_observation[:, 0, 0].tolist() == [8, 9, 10, 11, 12]
    # Not blanked at the end of an episode: these are also the actions that follow.
    assert batch.all_action[:, 0].tolist() == [7, 8, 9, 10, 11]
    assert batch.all_reward[:, 0].tolist() == [7, 8, 9, 10, 11]
    assert batch.return_.T.tolist() == [[8 + 4.5, 9, 10 + 5.5], [12 + 6.5, 13 + 7, 14 + 7.5]]
    assert batch.done.T.tolist() == [[False, True, False], [False] * 3]
    assert batch.done_n.T.tolist() == [[True, True, False], [False] * 3]
    if interval == 0:
        assert batch.init_rnn_state is None
        return
    assert type(batch.init_rnn_state).__name__ == "RnnState"
    assert batch.init_rnn_state.h.shape == (2, 2, 3)  # [B,N,H]
    assert batch.init_rnn_state.h[:, 0, 0].tolist() == [8, 12]
    assert batch.init_rnn_state.c[:, 1, 2].tolist() == [-48, -72]


def test_a_sequence_from_row_zero_begins_with_the_action_of_the_last_row():
    # It used to come at the end of the sequence, after which all others were moved by one.
    buffer = make(n_filled=56, batch_T=3)
    batch = buffer.extract_batch([0], [0], 3)
    assert batch.all_action[:, 0].tolist() == [39, 40, 41, 42, 43]
    assert batch.all_reward[:, 0].tolist() == [39, 40, 41, 42, 43]
    assert batch.all_observation[:, 0, 0].tolist() == [40, 41, 42, 43, 44]
    rows = extract_sequences(buffer.samples.reward, np.array([-1]), np.array([0]), 5)
    assert rows[:, 0].tolist() == batch.all_reward[:, 0].tolist()


@pytest.mark.parametrize("interval", [0, 1, 4])
def test_where_recurrent_states_are(interval):
    buffer = make(interval=interval, T=38)
    stored = buffer.samples_prev_rnn_state
    assert (40 if interval == 4 else 38) == buffer.T
    if interval == 0:
        assert stored is None
        assert "prev_rnn_state" not in buffer.samples._fields
    elif interval == 1:
        assert stored.h is buffer.samples.prev_rnn_state.h
    else:
        assert stored.h.shape == (10, 1, 2, 3)
        assert "prev_rnn_state" not in buffer.samples._fields


def test_a_state_may_be_one_array():
    example = samples(1)[0, 0]._replace(prev_rnn_state=np.zeros((1, 5), np.float32))
    buffer = UniformSequenceReplayBuffer(example, 40, 1, 4, batch_T=3)
    states = np.arange(20, dtype=np.float32)[:, None, None, None].repeat(5, 3)
    buffer.append_samples(torchify_buffer(samples(20)._replace(prev_rnn_state=states)))
    batch = buffer.sample_batch(7)
    assert batch.init_rnn_state.shape == (7, 1, 5)
    assert torch.equal(batch.init_rnn_state[:, 0, 0], batch.all_observation[0, :, 0])


@pytest.mark.parametrize(
    "cls", [PrioritizedSequenceReplayBuffer, PrioritizedSequenceReplayFrameBuffer]
)
def test_a_large_batch_is_not_overwritten_while_it_is_held(cls):
    """Memory of 23 MB is used again, once nobody has the batch any more."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (63, 1, 104, 80), dtype=np.uint8)
    stacks = np.stack([frames[t : t + 4].swapaxes(0, 1) for t in range(60)])
    steps = samples(60)._replace(observation=stacks)
    buffer = cls(example=steps[0, 0], size=60, B=1, rnn_state_interval=4, batch_T=20)
    buffer.append_samples(steps)
    held = [buffer.sample_batch(32) for _ in range(4)]
    places = set()
    for batch in held:
        first = batch.init_rnn_state.h[:, 0, 0].long().numpy()
        for t, observation in enumerate(batch.all_observation):
            np.testing.assert_array_equal(observation, stacks[first + t, 0])
        places.add(batch.all_observation.data_ptr())
    assert len(places) == 4
    batch = held = None
    assert buffer.sample_batch(32).all_observation.data_ptr() in places


def test_steps_of_a_sequence_can_be_set():
    buffer = make(n_filled=30, batch_T=None)
    with pytest.raises(ValueError, match="batch_T is None"):
        buffer.sample_batch(2)
    assert buffer.sample_batch(2, 5).return_.shape == (5, 2)
    buffer.set_batch_T(7)
    assert buffer.sample_batch(2).return_.shape == (7, 2)
    assert buffer.batch_T == 7


# --- Priorities -----------------------------------------------------------------------------------


def prioritized(n_filled=0, **kwargs):
    return make(PrioritizedSequenceReplayBuffer, n_filled, **kwargs)


def test_priorities_of_zero_have_finite_weights():
    # Weights used to be infinite.
    buffer = prioritized(40, input_priorities=True)
    for _ in range(3):
        buffer.sample_batch(12)
        buffer.update_batch_priorities(torch.zeros(12))
    assert torch.isfinite(buffer.sample_batch(12).is_weights).all()


def test_unique():
    buffer = prioritized(40, unique=True)
    batch = buffer.sample_batch(6)
    assert sorted(batch.all_observation[0, :, 0].tolist()) == [4, 8, 12, 16, 20, 24]
    with pytest.raises(ValueError, match="only 6"):
        buffer.sample_batch(7)


def test_sequences_of_single_environments_are_drawn_equally():
    buffer = make(n_filled=40, B=3)
    T_idxs, B_idxs = buffer.sample_idxs(6000, 6)
    counts = np.unique(T_idxs * 3 + B_idxs, return_counts=True)[1]
    assert len(counts) == 7 * 3
    assert counts.min() > 0.7 * 6000 / 21


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_the_size_asked_for_is_enough(cls, interval):
    with pytest.raises(ValueError, match="size at least (\\d+)") as error:
        make(cls, T=7, interval=interval, B=2)
    T = int(str(error.value).split("size at least ")[1].split()[0]) // 2
    buffer = make(cls, T=T, interval=interval, B=2)
    for first in range(0, 5 * T, 3):
        buffer.append_samples(samples(3, first, 2))
        if first > 2 * T:
            assert (buffer.sample_batch(20).all_reward.diff(dim=0) == 1).all()


def test_floats_are_accepted():
    buffer = UniformSequenceReplayBuffer(samples(1)[0, 0], 1e2, 2.0, 4.0, batch_T=6.0)
    assert (buffer.T, buffer.size, buffer.rnn_state_interval, buffer.batch_T) == (52, 104, 4, 6)


def test_an_example_without_recurrent_state():
    example = SamplesToBuffer(*tuple(samples(1)[0, 0])[:4])
    for interval in (1, 4):
        with pytest.raises(ValueError, match="not prev_rnn_state"):
            UniformSequenceReplayBuffer(example, 40, 1, interval)
    buffer = UniformSequenceReplayBuffer(example, 40, 1, 0, batch_T=4)
    buffer.append_samples(SamplesToBuffer(*tuple(samples(20))[:4]))
    assert buffer.sample_batch(2).init_rnn_state is None


@pytest.mark.parametrize("bad", [np.ones((3, 2)), np.ones(3), np.full(2, -1.0), np.full(2, np.nan)])
def test_bad_priorities_that_come_with_samples_change_nothing(bad):
    buffer = prioritized(B=2, input_priorities=True)
    with pytest.raises(ValueError, match="priorities"):
        buffer.append_samples(WithPriorities(bad, samples(4, B=2)))
    assert (buffer.t, buffer.priority_tree.t) == (0, 0)
    assert not buffer.samples.reward.any()


@pytest.mark.parametrize("interval", [1, 4])
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        RnnState(np.zeros((4, 1, 2, 3), np.float32), None),
        rnn_state_of(np.zeros((3, 1))),
        rnn_state_of(np.zeros((4, 2))),
        np.zeros((4, 1, 2, 3)),
    ],
)
def test_wrong_recurrent_states_change_nothing(interval, wrong):
    buffer = make(interval=interval)
    with pytest.raises(ValueError, match="prev_rnn_state"):
        buffer.append_samples(samples(4, 1)._replace(prev_rnn_state=wrong))
    assert buffer.t == 0
    assert not buffer.samples.reward.any()


@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_settings_that_cannot_work(cls):
    for settings in ({"interval": -1}, {"interval": 2.5}, {"batch_T": 0}, {"T": 0}):
        ((name, value),) = settings.items()
        name = {"interval": "rnn_state_interval", "T": "size"}.get(name, name)
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            make(cls, **settings)
    with pytest.raises(TypeError, match="surprise"):
        make(cls, surprise=1)
    with pytest.raises(ValueError, match="batch_T=36"):
        make(cls, batch_T=36)
    with pytest.raises(ValueError, match="B is 0"):
        cls(example=samples(1)[0, 0], size=100, B=0, rnn_state_interval=4, batch_T=6)


def test_settings_of_one_class_that_cannot_work():
    for cls in (UniformSequenceReplayFrameBuffer, PrioritizedSequenceReplayFrameBuffer):
        with pytest.raises(ValueError, match="observation"):
            make(cls)
    with pytest.raises(ValueError, match="timeout"):
        make(TlUniformSequenceReplayBuffer)
    with pytest.raises(ValueError, match="batch_T is None"):
        prioritized(batch_T=None)
    with pytest.raises(ValueError, match="input_priority_shift is 4"):
        prioritized(input_priorities=True, input_priority_shift=4)


def test_calls_that_cannot_work():
    buffer, with_priorities = make(n_filled=40), prioritized(40)
    for call, named in (
        (lambda: buffer.sample_batch(2, 36), "batch_T=36"),
        (lambda: buffer.set_batch_T(36), "batch_T=36"),
        (lambda: buffer.extract_batch([0], [0], 36), "batch_T=36"),
        (lambda: buffer.extract_batch([4, 6], [0, 0]), "rnn_state_interval=4"),
        (lambda: with_priorities.sample_batch(2, 5), "batch_T=6"),
        (lambda: prioritized().append_samples(WithPriorities(1.0, samples(4))), "input_priorities"),
        (lambda: make(n_filled=8).sample_batch(2), "min_steps_learn"),
        (lambda: prioritized(8).sample_batch(2), "min_steps_learn"),
    ):
        with pytest.raises(ValueError, match=named):
            call()
    assert buffer.batch_T == 6
    assert with_priorities.sample_batch(2, 6).return_.shape == (6, 2)


@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_wrong_samples_do_not_overwrite_states(cls):
    buffer = make(cls, n_filled=44)
    before = buffer.samples_prev_rnn_state.h.copy()
    with pytest.raises(ValueError, match="action"):
        buffer.append_samples(samples(8, 50)._replace(action=np.zeros((8, 2), int)))
    np.testing.assert_array_equal(buffer.samples_prev_rnn_state.h, before)


@pytest.mark.parametrize(("T_idx", "B_idx"), [(40, 0), (-1, 0), (0, 2), (0, -1)])
def test_frame_indexes_out_of_range(T_idx, B_idx):
    example = samples(1)[0, 0]._replace(observation=np.zeros((4, 6, 5), np.uint8))
    buffer = UniformSequenceReplayFrameBuffer(
        example=example, size=80, B=2, rnn_state_interval=1, batch_T=3
    )
    with pytest.raises(IndexError, match=r"\(40, 2\)"):
        buffer.extract_observation(np.array([1, T_idx]), np.array([0, B_idx]), 5)

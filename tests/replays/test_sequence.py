"""Sequence buffers: values by hand, priorities, extra fields, and what they refuse."""

import pickle

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
    SamplesFromReplayPri,
)
from rlpyt.replays.sequence.time_limit import SamplesFromReplayTL, TlUniformSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.misc import extract_sequences
from tests.replays.cells import Pixels, RnnState, WithPriorities, rnn_state_of

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


def on(buffer):
    return np.flatnonzero(buffer.priority_tree.priorities.any(axis=1)).tolist()


# --- What a batch holds ---------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 1, 4])
def test_nothing_precedes_a_sequence_which_begins_with_an_episode(interval):
    """It began with the last action and reward of the episode before."""
    buffer = make(interval=interval, batch_T=3, n_step_return=2)
    buffer.append_samples(samples(20, done=(7, 10)))
    batch = buffer.extract_batch([8, 12], [0, 0], 3)
    assert batch.all_action.T.tolist() == [[0, 8, 9, 10, 11], [11, 12, 13, 14, 15]]
    assert batch.all_reward.T.tolist() == [[0, 8, 9, 10, 11], [11, 12, 13, 14, 15]]
    assert buffer.samples.action[7, 0] == 7, "only the copy is blanked"


@pytest.mark.parametrize("interval", [0, 1, 4])
def test_sequence_by_hand(interval):
    buffer = make(interval=interval, batch_T=3, n_step_return=2)
    buffer.append_samples(samples(20, done=(9,)))
    batch = buffer.extract_batch([8, 12], [0, 0], 3)
    assert type(batch) is SamplesFromReplay
    assert batch.all_observation[:, 0, 0].tolist() == [8, 9, 10, 11, 12]
    # Not blanked at the end of an episode: these are also the actions which follow.
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


def test_observations_may_be_records():
    rng = np.random.default_rng(0)
    observation = Pixels(rng.random((30, 2, 3, 4)), rng.random((30, 2, 5)))
    filled = samples(30, B=2)._replace(observation=observation)
    buffer = PrioritizedSequenceReplayBuffer(
        example=filled[0, 0], size=80, B=2, rnn_state_interval=4, batch_T=3, n_step_return=2
    )
    buffer.append_samples(filled)
    batch = buffer.extract_batch([8, 12], [1, 0])
    for i, (t, b) in enumerate([(8, 1), (12, 0)]):
        np.testing.assert_array_equal(
            batch.all_observation.image[:, i], observation.image[t : t + 5, b]
        )
        np.testing.assert_array_equal(
            batch.all_observation.state[:, i], observation.state[t : t + 5, b]
        )


def test_records():
    fields = SamplesFromReplay._fields
    assert fields[:3] == ("all_observation", "all_action", "all_reward")
    assert fields[3:] == ("return_", "done", "done_n", "init_rnn_state")
    assert SamplesFromReplayPri._fields == (*fields, "is_weights")
    assert SamplesFromReplayTL._fields == (*fields, "timeout", "timeout_n")
    batch = make(PrioritizedSequenceReplayBuffer, 32).sample_batch(2)
    assert type(batch) is SamplesFromReplayPri
    assert type(pickle.loads(pickle.dumps(batch))) is SamplesFromReplayPri


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


# --- Which sequences are drawn --------------------------------------------------------------------


def test_priorities_are_of_stored_states():
    buffer = make(PrioritizedSequenceReplayBuffer)
    tree = buffer.priority_tree
    assert (tree.T, tree.off_backward, tree.off_forward) == (10, 3, 1)
    seen = []
    for first in range(0, 48, 4):
        buffer.append_samples(samples(4, first))
        seen.append(on(buffer))
    # The first sequence is that of state 1, after 20 rows; that of state 0 waits for a full cycle.
    assert seen[:6] == [[], [], [], [], [1], [1, 2]]
    assert seen[9:] == [[1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 7], [3, 4, 5, 6, 7, 8]]


def test_the_first_state_is_drawn_after_a_full_cycle():
    buffer = make(PrioritizedSequenceReplayBuffer, n_filled=52)
    assert on(buffer) == [4, 5, 6, 7, 8, 9]
    buffer.append_samples(samples(4, 52))
    assert on(buffer) == [0, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("n_filled", range(41, 60))
def test_uniform_starts_are_not_moved_into_rows_that_are_overwritten(n_filled):
    # A start just after the cursor was rounded down to before it: new rows followed by old ones.
    buffer = make(n_filled=n_filled)
    T_idxs, _ = buffer.sample_idxs(300, 6)
    # Row t has lost its past, and the last 8 rows are needed after the first one.
    oldest, newest = n_filled - 40 + 1, n_filled - 1 - 8
    expected = {g % 40 for g in range(oldest, newest + 1) if g % 4 == 0}
    assert set(T_idxs.tolist()) == expected
    batch = buffer.sample_batch(50)
    assert (batch.all_reward.diff(dim=0) == 1).all()


def test_steps_of_a_sequence_can_be_set():
    buffer = make(n_filled=30, batch_T=None)
    with pytest.raises(ValueError, match="batch_T is None"):
        buffer.sample_batch(2)
    assert buffer.sample_batch(2, 5).return_.shape == (5, 2)
    buffer.set_batch_T(7)
    assert buffer.sample_batch(2).return_.shape == (7, 2)
    assert buffer.batch_T == 7


def test_sequences_of_single_environments_are_drawn_equally():
    buffer = make(n_filled=40, B=3)
    T_idxs, B_idxs = buffer.sample_idxs(6000, 6)
    counts = np.unique(T_idxs * 3 + B_idxs, return_counts=True)[1]
    assert len(counts) == 7 * 3
    assert counts.min() > 0.7 * 6000 / 21


# --- Priorities -----------------------------------------------------------------------------------


def prioritized(n_filled=0, **kwargs):
    return make(PrioritizedSequenceReplayBuffer, n_filled, **kwargs)


@pytest.mark.parametrize("kind", ["scalar", "B", "TB"])
def test_priorities_which_come_with_samples_are_raised_to_alpha(kind):
    # They used to enter as they were, beside others which were raised.
    buffer = prioritized(B=2, alpha=0.5, input_priorities=True)
    priority = {"scalar": 9.0, "B": torch.tensor([9.0, 16.0]), "TB": np.full((24, 2), 9.0)}[kind]
    if kind == "TB":
        priority[[0, 4, 8]] = [[4, 25], [36, 49], [64, 81]]
    buffer.append_samples(WithPriorities(priority, samples(24, B=2)))
    expected = {"scalar": [[3, 3]] * 2, "B": [[3, 4]] * 2, "TB": [[6, 7], [8, 9]]}[kind]
    assert buffer.priority_tree.priorities[[1, 2]].tolist() == expected
    assert on(buffer) == [1, 2]


def test_priorities_are_of_the_sequence_with_its_warm_up():
    buffer = prioritized(input_priorities=True, input_priority_shift=1, alpha=1.0)
    for i in range(7):
        buffer.append_samples(WithPriorities(10.0 + i, samples(4, 4 * i)))
    assert on(buffer) == [1, 2, 3]
    assert buffer.priority_tree.priorities[1:4, 0].tolist() == [12, 13, 14]


def test_priorities_of_batches_without_a_stored_state_are_unused():
    buffer = prioritized(input_priorities=True, alpha=1.0)
    for t in range(28):
        buffer.append_samples(WithPriorities(np.float64(1 + t), samples(1, t)))
    assert buffer.priority_tree.priorities[1:4, 0].tolist() == [5, 9, 13]


def test_weights_and_updates_by_hand():
    buffer = prioritized(40, alpha=0.5, beta=1.0, default_priority=4)
    buffer.sample_batch(5)
    tree = buffer.priority_tree
    tree.prev_tree_idxs = tree.low_idx + np.array([1, 2])
    buffer.update_batch_priorities(torch.tensor([9.0, 16.0]))
    assert tree.priorities[:, 0].tolist() == [0, 3, 4, 2, 2, 2, 2, 0, 0, 0]
    batch = buffer.sample_batch(100)
    slots = (batch.all_observation[0, :, 0] / 4).long().numpy()
    expected = np.array([0, 2 / 3, 2 / 4, 1, 1, 1, 1])[slots]
    np.testing.assert_allclose(batch.is_weights.numpy(), expected, rtol=1e-5)
    assert batch.is_weights.dtype == torch.float32


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


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_sequences_longer_than_the_buffer(cls):
    with pytest.raises(ValueError, match="batch_T=36 steps do not fit.*size at least"):
        make(cls, batch_T=36)
    buffer = make(n_filled=40)
    with pytest.raises(ValueError, match="batch_T=36 steps do not fit"):
        buffer.sample_batch(2, 36)
    with pytest.raises(ValueError, match="batch_T=36 steps do not fit"):
        buffer.set_batch_T(36)
    with pytest.raises(ValueError, match="batch_T=36 steps do not fit"):
        buffer.extract_batch([0], [0], 36)
    assert buffer.batch_T == 6


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


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"interval": -1}, "rnn_state_interval is -1"),
        ({"interval": 2.5}, "rnn_state_interval is 2.5"),
        ({"batch_T": 0}, "batch_T is 0"),
        ({"T": 0}, "size is 0"),
        ({"surprise": 1}, "surprise"),
    ],
)
@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_arguments_that_cannot_work(cls, kwargs, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make(cls, **kwargs)


def test_no_environments():
    with pytest.raises(ValueError, match="B is 0"):
        UniformSequenceReplayBuffer(samples(1)[0, 0], 100, 0, 4)


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


def test_priorities_need_fixed_sequences():
    with pytest.raises(ValueError, match="batch_T is None"):
        prioritized(batch_T=None)
    buffer = prioritized(40)
    assert buffer.sample_batch(2, 6).return_.shape == (6, 2)
    with pytest.raises(ValueError, match="priorities are of sequences of batch_T=6"):
        buffer.sample_batch(2, 5)


def test_priorities_that_would_come_too_late():
    with pytest.raises(ValueError, match="input_priority_shift is 4"):
        prioritized(input_priorities=True, input_priority_shift=4)


@pytest.mark.parametrize("bad", [np.ones((3, 2)), np.ones(3), np.full(2, -1.0), np.full(2, np.nan)])
def test_bad_priorities_which_come_with_samples_change_nothing(bad):
    buffer = prioritized(B=2, input_priorities=True)
    with pytest.raises(ValueError, match="priorities"):
        buffer.append_samples(WithPriorities(bad, samples(4, B=2)))
    assert (buffer.t, buffer.priority_tree.t) == (0, 0)
    assert not buffer.samples.reward.any()


def test_priorities_of_a_buffer_made_without():
    with pytest.raises(ValueError, match="input_priorities=True"):
        prioritized().append_samples(WithPriorities(1.0, samples(4)))


def test_states_are_stored_only_for_multiples_of_the_interval():
    with pytest.raises(ValueError, match=r"cannot begin at rows \[6\].*rnn_state_interval=4"):
        make(n_filled=40).extract_batch([4, 6], [0, 0])


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
def test_wrong_samples_do_not_overwrite_states(cls):
    buffer = make(cls, n_filled=44)
    before = buffer.samples_prev_rnn_state.h.copy()
    with pytest.raises(ValueError, match="samples.action has shape"):
        buffer.append_samples(samples(8, 50)._replace(action=np.zeros((8, 2), int)))
    np.testing.assert_array_equal(buffer.samples_prev_rnn_state.h, before)


@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_not_enough_samples(cls):
    buffer = make(cls, n_filled=8)
    with pytest.raises(ValueError, match="min_steps_learn"):
        buffer.sample_batch(2)


def test_frames_want_images():
    for cls in (UniformSequenceReplayFrameBuffer, PrioritizedSequenceReplayFrameBuffer):
        with pytest.raises(ValueError, match=r"stores observations \[C,H,W\]"):
            make(cls)


@pytest.mark.parametrize(("T_idx", "B_idx"), [(40, 0), (-1, 0), (0, 2), (0, -1)])
def test_frame_indexes_out_of_range(T_idx, B_idx):
    example = samples(1)[0, 0]._replace(observation=np.zeros((4, 6, 5), np.uint8))
    buffer = UniformSequenceReplayFrameBuffer(
        example=example, size=80, B=2, rnn_state_interval=1, batch_T=3
    )
    with pytest.raises(IndexError, match=r"\(40, 2\)"):
        buffer.extract_observation(np.array([1, T_idx]), np.array([0, B_idx]), 5)


def test_missing_timeout():
    with pytest.raises(ValueError, match="not timeout"):
        make(TlUniformSequenceReplayBuffer)


# --- Subclasses, as research code writes them -----------------------------------------------------


def test_overridden_methods():
    class Newest(UniformSequenceReplayBuffer):
        def sample_idxs(self, batch_B, batch_T):
            _, stop = self.valid_starts(batch_T)
            return np.full(batch_B, (stop - 1) * self.stride % self.T), np.zeros(batch_B, int)

        def extract_observation(self, T_idxs, B_idxs, T):
            return 2 * super().extract_observation(T_idxs, B_idxs, T)

    batch = make(Newest, n_filled=41).sample_batch(2)
    assert batch.all_observation[0, :, 0].tolist() == [64, 64]


def test_overridden_extract_batch_under_priorities():
    More = namedarraytuple("More", (*SamplesFromReplayPri._fields, "sums"))

    class Buffer(PrioritizedSequenceReplayBuffer):
        def sample_batch(self, batch_B):
            self._async_pull()
            (T_idxs, B_idxs), _ = self.priority_tree.sample(batch_B, unique=self.unique)
            T_idxs = T_idxs * self.rnn_state_interval
            batch = self.extract_batch(T_idxs, B_idxs, self.batch_T)
            return More(*batch, torch.ones(batch_B), batch.all_reward.sum(dim=0))

    batch = make(Buffer, n_filled=40).sample_batch(3)
    assert torch.equal(batch.sums, batch.all_reward.sum(dim=0))


def test_order_of_the_parts():
    names = [cls.__name__ for cls in PrioritizedSequenceReplayFrameBuffer.__mro__]
    parts = ["PrioritizedSequenceReplay", "SequenceNStepFrameBuffer", "FrameBufferMixin"]
    parts += ["SequenceNStepReturnBuffer", "BaseNStepReturnBuffer", "BaseReplayBuffer"]
    assert [name for name in names if name in parts] == parts

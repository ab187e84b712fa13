"""Single-transition buffers: types, priorities, records, and frames that are stored once."""

import numpy as np
import pytest
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays.non_sequence.frame import PrioritizedReplayFrameBuffer, UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.utils.collections import namedarraytuple
from tests.replays.cells import WithPriorities
from tests.replays.test_sequence import make as sequences

SamplesTl = namedarraytuple("SamplesTl", [*SamplesToBuffer._fields, "timeout"])


def scalar_example(cls=SamplesToBuffer):
    values = [np.zeros(3, np.float32), np.int64(0), np.float32(0), np.bool_(False), np.bool_(False)]
    return cls(*values[: len(cls._fields)])


def scalar_samples(T, B=1, first=0, done=(), timeout=(), cls=SamplesToBuffer):
    """Steps first, first + 1, ...: rewards and actions are the number of the step."""
    number = np.arange(first, first + T)[:, None].repeat(B, 1)
    values = [
        np.stack([number] * 3, -1).astype(np.float32),
        number,
        number.astype(np.float32),
        np.isin(number, done),
        np.isin(number, timeout),
    ]
    return cls(*values[: len(cls._fields)])


def uniform(size=10, B=1, cls=UniformReplayBuffer, **kwargs):
    record = SamplesTl if cls.__name__.startswith("Tl") else SamplesToBuffer
    return cls(example=scalar_example(record), size=size, B=B, **kwargs)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_an_episode_begins_with_the_null_action(device):
    Action = namedarraytuple("Action", ["turn", "gas"])
    names = {"action": Action(np.int64(0), np.zeros(2, np.float32))}
    example = scalar_example()._replace(**names)
    buffer = UniformReplayBuffer(example=example, size=10, B=1, device=device)
    buffer.null_action = Action(np.int64(7), np.array([0.5, -0.5], np.float32))
    samples = scalar_samples(5, done=2)
    gas = samples.observation[..., :2]
    buffer.append_samples(samples._replace(action=Action(samples.action, gas)))
    batch = buffer.extract_batch(np.array([2, 3]), np.zeros(2, int))
    assert batch.agent_inputs.prev_action.turn.tolist() == [1, 7]
    assert batch.agent_inputs.prev_action.gas.tolist() == [[1, 1], [0.5, -0.5]]
    assert batch.agent_inputs.prev_reward.tolist() == [1, 0]
    assert batch.action.turn.tolist() == [2, 3]
    assert buffer.samples.action.turn[2] == 2, "the storage is not changed"


@pytest.mark.parametrize("reward", [np.int64(0), np.float16(0), np.float32(0), np.float64(0)])
def test_rewards_keep_their_dtype_and_returns_are_floats(reward):
    buffer = UniformReplayBuffer(scalar_example()._replace(reward=reward), 10, 1, 0.5, 2)
    buffer.append_samples(scalar_samples(6))
    assert buffer.samples.reward.dtype == reward.dtype
    assert buffer.samples_return_.dtype == (np.float32 if reward.dtype == int else reward.dtype)
    assert buffer.extract_batch([2], [0]).return_.item() == 3.5


def test_floats_are_accepted_and_sizes_are_rounded_up_to_rows():
    buffer = uniform(n_step_return=2.0, B=4.0, size=1e2 + 1)
    buffer.append_samples(scalar_samples(4, B=4))
    assert (buffer.T, buffer.size) == (26, 104)
    assert buffer.extract_batch([1], [0]).return_.item() == 1 + 2


def test_batches_are_not_views_of_the_storage_or_of_each_other():
    buffer = uniform()
    buffer.append_samples(scalar_samples(6))
    first = buffer.extract_batch([2, 3], [0, 0])
    before = first.agent_inputs.observation.clone()
    second = buffer.extract_batch([3, 4], [0, 0])
    second.agent_inputs.observation.zero_()
    second.action.zero_()
    assert torch.equal(first.agent_inputs.observation, before)
    assert buffer.samples.action[:6, 0].tolist() == [0, 1, 2, 3, 4, 5]


def frame_example(observation):
    return scalar_example()._replace(observation=observation)


def test_frames_are_stored_once():
    stack = np.zeros((4, 6, 5), np.uint8)
    buffer = UniformReplayFrameBuffer(example=frame_example(stack), size=40, B=2)
    assert buffer.samples_frames.shape == (20 + 3, 2, 6, 5)
    assert buffer.samples_frames.dtype == np.uint8
    assert np.shares_memory(buffer.samples_new_frames, buffer.samples_frames)
    assert (buffer.n_frames, buffer.off_forward, buffer.off_backward) == (4, 3, 1)
    assert buffer.samples._fields == ("action", "reward", "done")


def scalar_fields(T, B):
    return {k: v for k, v in scalar_samples(T, B).items() if k != "observation"}


def filled(cls, n=8, B=2, **kwargs):
    buffer = uniform(size=20 * B, B=B, cls=cls, **kwargs)
    buffer.append_samples(scalar_samples(n, B=B))
    return buffer


@pytest.mark.parametrize(
    "make",
    [
        lambda: filled(PrioritizedReplayBuffer),
        lambda: sequences(PrioritizedSequenceReplayBuffer, 40, input_priorities=True),
    ],
)
def test_entries_without_error_are_still_drawn(make):
    # A priority of zero used to switch an entry off for ever, and a run without errors stopped;
    # weights of sequences were infinite.
    buffer = make()
    for _ in range(3):
        buffer.sample_batch(12)
        buffer.update_batch_priorities(torch.zeros(12))
    weights = buffer.sample_batch(12).is_weights
    assert torch.isfinite(weights).all()


def test_entries_that_come_with_a_priority_of_zero_are_drawn():
    buffer = uniform(cls=PrioritizedReplayBuffer, input_priorities=True)
    buffer.append_samples(WithPriorities(0.0, scalar_samples(6)))
    assert set(buffer.sample_batch(200).action.tolist()) == {1, 2, 3, 4}


def test_environments_are_counted_from_the_end():
    buffer = filled(UniformReplayBuffer)
    buffer.samples.action[:, 1] += 100
    assert buffer.extract_batch([3], [-1]).action.item() == 103


def episode_stacks(rng, T):
    """Stacks [T,1,3,2,3] of an episode from its first step on."""
    frames = rng.integers(1, 256, (T + 2, 1, 2, 3), dtype=np.uint8)
    frames[:2] = 0
    return np.stack([frames[t : t + 3].swapaxes(0, 1) for t in range(T)])


@pytest.mark.parametrize("n_rows", [1, 2, 15])
def test_stacks_pass_with_resets_and_the_blank_rows_of_waiting_environments(n_rows):
    rng = np.random.default_rng(0)
    blank = np.zeros((3, 1, 3, 2, 3), np.uint8)
    stacks = np.concatenate([episode_stacks(rng, 5), blank, *(episode_stacks(rng, 11),) * 2])
    done = np.zeros((len(stacks), 1), bool)
    done[[4, 5, 6, 7, 18]] = True
    buffer = UniformReplayFrameBuffer(example=frame_example(stacks[0, 0]), size=20, B=1)
    samples = frame_example(stacks)._replace(**{**scalar_fields(30, 1), "done": done})
    for t in range(0, 30, n_rows):
        # Every row is looked at, and those from 20 on are written over old ones.
        buffer.overlap_is_known = buffer._varies = False
        buffer.append_samples(samples[t : t + n_rows])
    assert buffer.overlap_is_known
    read = buffer.extract_observation(np.arange(12, 30) % 20, np.zeros(18, int))
    np.testing.assert_array_equal(read, stacks[12:, 0])


def test_the_first_row_over_old_ones_is_looked_at():
    samples = frame_example(np.zeros((20, 1, 3, 2, 3), np.uint8))._replace(**scalar_fields(20, 1))
    buffer = UniformReplayFrameBuffer(example=samples[0, 0], size=20, B=1)
    buffer.append_samples(samples)
    assert (buffer.t, buffer._buffer_full) == (0, True)
    samples.observation[0] = np.arange(1, 19).reshape(1, 3, 2, 3)
    with pytest.raises(ValueError, match="are not stacks"):
        buffer.append_samples(samples[:1])
    assert not buffer.samples_frames.any()


@pytest.mark.parametrize("shape", [(3, 1, 2, 3), (3, 5), (3, 2, 2, 1, 2)])
@pytest.mark.parametrize("cls", [UniformReplayFrameBuffer, PrioritizedReplayFrameBuffer])
def test_frames_may_have_any_shape(cls, shape):
    # Observations [C,1,H,W] were refused.
    frames = np.random.default_rng(0).integers(1, 256, (10, 2, *shape[1:]), dtype=np.uint8)
    stacks = np.stack([frames[t : t + 3].swapaxes(0, 1) for t in range(8)])
    buffer = cls(example=frame_example(stacks[0, 0]), size=20, B=2)
    fields = {**scalar_fields(8, 2), "done": np.zeros((8, 2), bool)}
    buffer.append_samples(frame_example(stacks[:5])._replace(**{k: fields[k][:5] for k in fields}))
    buffer.append_samples(frame_example(stacks[5:])._replace(**{k: fields[k][5:] for k in fields}))
    batch = buffer.extract_batch([4, 6], [1, 0])
    np.testing.assert_array_equal(batch.agent_inputs.observation, stacks[[4, 6], [1, 0]])
    assert buffer.sample_batch(5).target_inputs.observation.shape == (5, *shape)


@pytest.mark.parametrize(
    ("stored", "given", "aligned"),
    [
        ((3,), (1,), (1,)),
        ((2, 3), (2, 1), (2, 1)),
        ((2, 3), (3,), (1, 3)),
        ((), (1,), ()),
        ((2,), (2, 1), (2,)),
    ],
)
@pytest.mark.parametrize("n_rows", [1, 4])
def test_arrays_that_numpy_broadcasts_are_stored(stored, given, aligned, n_rows):
    # Every shape but that of the example was refused.
    rng = np.random.default_rng(0)
    buffer = UniformReplayBuffer(scalar_example()._replace(action=np.zeros(stored)), 20, 2)
    action = rng.random((n_rows, 2, *given))
    buffer.append_samples(scalar_samples(n_rows, B=2)._replace(action=action))
    expected = np.zeros((n_rows, 2, *stored)) + action.reshape(n_rows, 2, *aligned)
    np.testing.assert_array_equal(buffer.samples.action[:n_rows], expected)


def test_fractions_in_a_field_of_integers_are_told(capsys):
    # They were cut off in silence.
    samples = scalar_samples(3)
    buffer = UniformReplayBuffer(scalar_example()._replace(reward=np.int64(0)), 10, 1)
    buffer.append_samples(samples._replace(reward=samples.reward * 0 + 0.7))
    assert "samples.reward of float32 loses its value as int64" in capsys.readouterr().out


def test_a_scalar_is_stored_in_all_rows():
    buffer = UniformReplayBuffer(scalar_example(), 10, 2)
    for n_rows in (3, 4):  # The latter wraps.
        buffer.append_samples(scalar_samples(n_rows, B=2)._replace(reward=2.5, done=True))
    assert (buffer.samples.reward == 2.5).all()
    assert buffer.samples.done.all()


@pytest.mark.parametrize("fault", ["no stack", "history not blank after done", "single rows"])
def test_images_that_are_no_stacks_of_frames_are_refused(fault):
    # Colour images, and histories padded with the first frame, used to be stored wrongly in
    # silence; single rows even after a batch of black images.
    rng = np.random.default_rng(0)
    frames = rng.integers(1, 256, (7, 2, 2, 3), dtype=np.uint8)
    observation = np.stack([frames[t : t + 3].swapaxes(0, 1) for t in range(4)])
    done = np.zeros((4, 2), dtype=bool)
    if fault == "history not blank after done":
        done[1, 0] = True
    else:
        observation = rng.integers(1, 256, observation.shape, dtype=np.uint8)
    fields = {**scalar_fields(4, 2), "done": done}
    samples = frame_example(observation)._replace(**fields)
    buffer = UniformReplayFrameBuffer(example=samples[0, 0], size=40, B=2)
    batches = [samples]
    if fault == "single rows":
        buffer.append_samples(samples._replace(observation=np.zeros_like(observation)))
        batches = [samples[t : t + 1] for t in range(4)]

    def append_all():
        for batch in batches:
            buffer.append_samples(batch)

    with pytest.raises(ValueError, match=r"\(3, 2, 3\) are not stacks"):
        append_all()
    assert buffer.t == (4 if fault == "single rows" else 0)


def repeated_stacks(rng, T):
    """Stacks [T,1,3,2,3] of an episode, as ``FrameStackObservation`` of gymnasium begins it."""
    stacks = episode_stacks(rng, T)
    stacks[0], stacks[1, :, 0] = stacks[0, :, 2:], stacks[0, :, 2]
    return stacks


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("n_rows", [1, 2, 15])
def test_stacks_that_repeat_the_first_frame_are_stored(n_rows, device):
    # Zeros replaced the copies, so that networks were trained on images that nobody saw.
    rng = np.random.default_rng(0)
    stacks = np.concatenate([repeated_stacks(rng, T) for T in (9, 5, 2, 2, 12)])
    done = np.zeros((30, 1), bool)
    done[[8, 13, 15, 17]] = True
    samples = frame_example(stacks)._replace(**{**scalar_fields(30, 1), "done": done})
    where = {} if device is None else {"device": device}
    buffer = UniformReplayFrameBuffer(example=samples[0, 0], size=20, B=1, **where)
    for t in range(0, 30, n_rows):
        buffer.append_samples(samples[t : t + n_rows])
        if t + n_rows == 20:
            other = UniformReplayFrameBuffer(example=samples[0, 0], size=20, B=1, **where)
            other.load_state_dict(buffer.state_dict())
            buffer = other
    rows = np.arange(12, 30) % 20, np.zeros(18, int)
    if device is not None:
        rows = tuple(torch.from_numpy(idxs) for idxs in rows)
    read = np.asarray(buffer.extract_observation(*rows))
    np.testing.assert_array_equal(read, stacks[12:, 0])
    assert buffer.repeats_first

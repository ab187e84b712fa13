"""Every composition of parts of sequences equals a twin that remembers everything."""

import itertools
import math

import numpy as np
import pytest

from rlpyt.replays.sequence.frame import (
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.time_limit import (
    TlPrioritizedSequenceReplayBuffer,
    TlPrioritizedSequenceReplayFrameBuffer,
    TlUniformSequenceReplayBuffer,
    TlUniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from tests.reference.naive_replay import NaiveReplay, Stream
from tests.replays.test_against_naive import Samples, as_samples, fill_with_magic

# (prioritized, frames, time limit)
CLASSES = {
    (False, False, False): UniformSequenceReplayBuffer,
    (False, False, True): TlUniformSequenceReplayBuffer,
    (False, True, False): UniformSequenceReplayFrameBuffer,
    (False, True, True): TlUniformSequenceReplayFrameBuffer,
    (True, False, False): PrioritizedSequenceReplayBuffer,
    (True, False, True): TlPrioritizedSequenceReplayBuffer,
    (True, True, False): PrioritizedSequenceReplayFrameBuffer,
    (True, True, True): TlPrioritizedSequenceReplayFrameBuffer,
}
N_BUFFERS = 6
N_APPENDS = 14
ALPHA, DEFAULT = 0.6, 2.0

RnnState = namedarraytuple("RnnState", ["h", "c"])
SequenceSamples = namedarraytuple("SequenceSamples", [*Samples._fields, "prev_rnn_state"])
WithPriorities = namedarraytuple("WithPriorities", ["priorities", "samples"])


def rnn_state_of(note):
    """States [...,2,3] which tell of the step they were before."""
    h = np.multiply.outer(np.asarray(note, np.float32), np.arange(1, 7).reshape(2, 3))
    return RnnState(h.astype(np.float32), -h.astype(np.float32))


def sequence_samples(steps):
    samples = as_samples(steps)
    return SequenceSamples(*samples, rnn_state_of(samples.note))


class NaivePriorities:
    """Leaves by number of the stored state, and which of them can be drawn."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.stride = max(1, buffer.rnn_state_interval)
        self.shift = buffer.input_priority_shift
        self.leaves = {}
        self.n_rows = 0

    def append(self, n_rows, priorities):
        """Priorities [n_rows,B] or None, before the power of alpha."""
        for row in range(self.n_rows, self.n_rows + n_rows):
            if row % self.stride == 0:
                slot = row // self.stride
                default = np.full(self.buffer.B, DEFAULT**ALPHA)
                self.leaves[slot] = default
                given = default if priorities is None else priorities[row - self.n_rows] ** ALPHA
                self.leaves[slot - self.shift] = given.copy()
        self.n_rows += n_rows

    def expected(self):
        """Leaves [T / stride,B]."""
        T = self.buffer.T // self.stride
        n_slots = math.ceil(self.n_rows / self.stride)
        n = self.buffer.n_step_return + self.buffer.batch_T
        oldest = max(0, n_slots - T) + math.ceil(self.buffer.off_forward / self.stride)
        on = range(oldest, n_slots - math.ceil((1 + n) / self.stride))
        leaves = np.zeros((T, self.buffer.B))
        for slot in on:
            leaves[slot % T] = self.leaves[slot]
        self.slots_on = {slot % T: slot for slot in on}
        return leaves

    def update(self, tree_idxs, priorities):
        drawn = set()
        for at, priority in zip(tree_idxs - self.buffer.priority_tree.low_idx, priorities):
            if at not in drawn:
                row, b = divmod(at, self.buffer.B)
                self.leaves[self.slots_on[row]][b] = priority**ALPHA
            drawn.add(at)


def make(parts, rng, n_step, interval, image):
    is_prioritized, is_frames, _ = parts
    B, n_frames = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    batch_T = int(rng.integers(1, 7))
    stride = max(1, interval)
    T = 1 + n_step + batch_T + max(1, n_frames - 1) + 3 * stride + int(rng.integers(0, 9))
    stream = Stream(rng, B, n_frames, rng.choice([0.0, 0.1, 0.4, 0.8]), image)
    kwargs = {}
    if is_prioritized:
        is_given = bool(rng.integers(2))
        # More would come too late: these rows are on already.
        shift = int(rng.integers(1 + math.ceil((1 + n_step + batch_T) / stride)))
        kwargs = {
            "alpha": ALPHA,
            "default_priority": DEFAULT,
            "input_priorities": is_given,
            "input_priority_shift": shift if is_given else 0,
        }
    buffer = CLASSES[parts](
        example=sequence_samples(stream.steps(1))[0, 0],
        size=float(T * B - rng.integers(B)),
        B=B,
        rnn_state_interval=interval,
        batch_T=batch_T,
        discount=0.9,
        n_step_return=n_step,
        **kwargs,
    )
    assert math.ceil(T / stride) * stride == buffer.T
    fill_with_magic(buffer)
    return buffer, stream, NaiveReplay(buffer.T, B, n_step, 0.9, buffer.off_forward)


def assert_equals_twin(batch, twin, rows, envs, T, interval):
    expected = [twin.sequence(g, b, T) for g, b in zip(rows, envs, strict=True)]
    for name, actual in batch.items():
        if name == "is_weights":
            continue
        desired = [e[name] for e in expected]
        if name == "init_rnn_state":
            assert_states(actual, desired, interval)
            continue
        desired = np.array(desired).swapaxes(0, 1)
        actual = actual.numpy()
        assert actual.shape == desired.shape
        is_float = actual.dtype.kind == "f"
        is_same = np.abs(actual - desired) < 1e-4 if is_float else actual == desired
        assert is_same.all(), (name, actual, desired)


def assert_states(actual, notes, interval):
    if interval == 0:
        assert actual is None
        return
    desired = rnn_state_of(notes)
    np.testing.assert_array_equal(actual.h, desired.h)
    np.testing.assert_array_equal(actual.c, desired.c)


def check_all_valid(buffer, twin, T):
    """Every sequence that can be drawn is right, and for lengths not of the buffer too."""
    interval = buffer.rnn_state_interval
    starts = twin.valid_starts(T, interval)
    first, stop = buffer.valid_starts(T)
    assert stop - first == len(starts) or not starts
    entries = list(itertools.product(starts, range(buffer.B)))
    if not entries:
        assert stop <= first
        return
    rows, envs = zip(*entries, strict=True)
    batch = buffer.extract_batch(np.array(rows) % buffer.T, np.array(envs), T)
    assert_equals_twin(batch, twin, rows, envs, T, interval)


def check_sample(buffer, twin, naive_tree, rng):
    interval, T = buffer.rnn_state_interval, buffer.batch_T
    starts = set(twin.valid_starts(T, interval))
    can_draw = naive_tree.expected().any() if naive_tree else starts
    if not can_draw:
        with pytest.raises(ValueError, match="min_steps_learn"):
            buffer.sample_batch(1)
        return
    batch = buffer.sample_batch(8)
    place = {twin.logs[b][g].note: (g, b) for g in starts for b in range(buffer.B)}
    rows, envs = zip(*(place[int(note)] for note in batch.note[0]), strict=True)
    assert_equals_twin(batch, twin, rows, envs, T, interval)
    if naive_tree:
        check_weights(buffer, batch)
        tree_idxs, priorities = buffer.priority_tree.prev_tree_idxs, rng.random(8) + 0.1
        buffer.update_batch_priorities(priorities)
        naive_tree.update(tree_idxs, priorities)


def check_weights(buffer, batch):
    leaves = buffer.priority_tree.prev_tree_idxs - buffer.priority_tree.low_idx
    weights = (1 / buffer.priority_tree.priorities.ravel()[leaves]) ** buffer.beta
    np.testing.assert_allclose(batch.is_weights.numpy(), weights / weights.max(), rtol=1e-5)


def random_priorities(rng, n_rows, B):
    """What is given, and the same [n_rows,B]."""
    shape = [(), (B,), (n_rows, B)][rng.integers(3)]
    given = np.asarray(rng.random(shape) + 0.1)
    return given, np.broadcast_to(given, (n_rows, B))


def append(buffer, naive_tree, samples, rng):
    n_rows = len(samples.reward)
    given = priorities = None
    if naive_tree and buffer.input_priorities and rng.random() < 0.8:
        given, priorities = random_priorities(rng, n_rows, buffer.B)
        samples = WithPriorities(given, samples)
    samples = torchify_buffer(samples) if rng.integers(2) else samples
    buffer.append_samples(samples)
    if naive_tree:
        naive_tree.append(n_rows, priorities)
        np.testing.assert_allclose(buffer.priority_tree.priorities, naive_tree.expected())


@pytest.mark.parametrize("interval", [0, 1, 3, 4])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("parts", CLASSES)
def test_equals_naive_replay(parts, n_step, interval):
    rng = np.random.default_rng([n_step, interval, *map(int, parts)])
    for i in range(N_BUFFERS):
        image = (17, 19) if i == 0 and parts[1] else (3, 2)
        buffer, stream, twin = make(parts, rng, n_step, interval, image)
        naive_tree = NaivePriorities(buffer) if parts[0] else None
        for _ in range(N_APPENDS):
            longest = min(buffer.T, rng.choice([2, 5, 100]))
            steps = stream.steps(int(rng.integers(1, 1 + longest)))
            append(buffer, naive_tree, sequence_samples(steps), rng)
            twin.append(steps)
            check_all_valid(buffer, twin, buffer.batch_T)
            check_sample(buffer, twin, naive_tree, rng)
        check_all_valid(buffer, twin, max(1, buffer.batch_T - 2))


@pytest.mark.parametrize("interval", [0, 1, 4])
@pytest.mark.parametrize("parts", [parts for parts in CLASSES if not parts[0]])
def test_all_valid_sequences_are_drawn(parts, interval):
    rng = np.random.default_rng(3)
    buffer, stream, twin = make(parts, rng, 2, interval, (3, 2))
    for n_steps in (buffer.T - 1, 4, 3, 1):
        steps = stream.steps(n_steps)
        buffer.append_samples(sequence_samples(steps))
        twin.append(steps)
        starts = twin.valid_starts(buffer.batch_T, interval)
        notes = {int(note) for note in buffer.sample_batch(1000).note[0]}
        assert notes == {twin.logs[b][g].note for g in starts for b in range(buffer.B)}


@pytest.mark.parametrize("parts", [parts for parts in CLASSES if not parts[0]])
def test_lengths_may_change_from_batch_to_batch(parts):
    rng = np.random.default_rng(4)
    buffer, stream, twin = make(parts, rng, 2, 3, (3, 2))
    steps = stream.steps(buffer.T)
    buffer.append_samples(sequence_samples(steps))
    twin.append(steps)
    for T in (1, 3, 2):
        assert buffer.sample_batch(4, batch_T=T).return_.shape == (T, 4)
        check_all_valid(buffer, twin, T)
    buffer.set_batch_T(2)
    assert buffer.sample_batch(4).all_reward.shape == (4, 4)
